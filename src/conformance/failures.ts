import { expect, it } from 'vitest';
import type { DestinationContext, TableConnector } from '../sdk/destination.js';
import { unavailable } from '../sdk/errors.js';
import type { Load } from '../sdk/load.js';
import { differences } from './compare.js';
import { CuttingProxy } from './cutting-proxy.js';
import { after, before, column, delivered, ownless, people, undelivered } from './rows.js';
import type { Workbench } from './suite.js';
import type { TestTarget } from './test-target.js';

type LoadFunction = (load: Load) => Promise<void>;

/** The connector with its loads changed. `call` counts from 1. */
function withLoad(
  connector: TableConnector,
  change: (load: LoadFunction, call: number) => LoadFunction,
): TableConnector {
  let calls = 0;
  return {
    ...connector,
    // biome-ignore lint/suspicious/noExplicitAny: destinations of both kinds have a method `load`.
    async open(context: DestinationContext): Promise<any> {
      const opened = (await connector.open(context)) as object;
      return new Proxy(opened, {
        get(target, name) {
          const value: unknown = Reflect.get(target, name, target);
          if (typeof value !== 'function') return value;
          const method = value.bind(target);
          if (name !== 'load') return method;
          calls += 1;
          return change(method as LoadFunction, calls);
        },
      });
    },
  };
}

/** A load whose data breaks off after the first file or batch, as in a crash of this process. */
function brokenOff(load: Load): Load {
  const { data } = load;
  const broken = () => {
    throw unavailable('broken off on purpose');
  };
  return {
    ...load,
    data: {
      columns: data.columns,
      rows: data.rows,
      get handedOver() {
        return data.handedOver;
      },
      async *files() {
        for await (const file of data.files()) {
          yield file;
          broken();
        }
      },
      async *batches() {
        for await (const batch of data.batches()) {
          yield batch;
          broken();
        }
      },
    },
  };
}

/** Tests of failures during a load: what must be true afterwards. */
export function failures(bench: Workbench): void {
  it('repeats a load that broke off before its commit', async () => {
    const connector = withLoad(bench.connector, (load, call) => (input) => load(call === 2 ? brokenOff(input) : input));
    const subject = await bench.loaded(before, { connector });
    delivered(await subject.run(after));
    expect(column(await subject.place.rows('people'), 'id')).toEqual(await expectedIds(subject, bench));
  });

  it.runIf(bench.isTransactional)(
    'leaves the table as it was if a load broke off',
    async () => {
      const connector = withLoad(bench.connector, (load, call) => (input) => load(call > 1 ? brokenOff(input) : input));
      const subject = await bench.loaded(before, { connector });
      const rows = await subject.place.rows('people');
      expect(undelivered(await subject.run(after)).code).toBe('destination_unavailable');
      expect(differences(rows, await subject.place.rows('people'))).toEqual([]);
    },
    120_000,
  );

  it('notices that a load was committed although its response was lost', async () => {
    let loads = 0;
    const connector = withLoad(bench.connector, (load, call) => async (input) => {
      loads += 1;
      await load(input);
      if (call === 2) throw unavailable('lost on purpose');
    });
    const subject = await bench.loaded(before, { connector });
    expect(delivered(await subject.run(after)).rows).toBeGreaterThan(0);
    expect(loads).toBe(2);
    expect(column(await subject.place.rows('people'), 'id')).toEqual(await expectedIds(subject, bench));
  });

  it.runIf(bench.isTransactional)('keeps nothing of a load if another delivery has written the record', async () => {
    const connector = withLoad(bench.connector, (load, call) => (input) => {
      if (call !== 2 || input.before === undefined) return load(input);
      return load({ ...input, before: { ...input.before, version: 999 } });
    });
    const subject = await bench.loaded(before, { connector });
    const rows = await subject.place.rows('people');
    expect(undelivered(await subject.run(after)).code).toBe('fenced');
    expect(differences(rows, await subject.place.rows('people'))).toEqual([]);
    delivered(await subject.push());
  });

  it('stops when it is aborted, and resumes with the next delivery', async () => {
    const controller = new AbortController();
    const connector = withLoad(bench.connector, (load, call) => (input) => {
      if (call === 1) controller.abort();
      return load(input);
    });
    const subject = await bench.subject({ connector });
    const report = await subject.run(before, { signal: controller.signal });
    expect([report.status, report.destinations[0]?.status]).toEqual(['interrupted', 'skipped']);
    delivered(await subject.push());
    expect(differences(await subject.published(), ownless(await subject.place.rows('people')))).toEqual([]);
  });

  it.runIf(bench.hasMode('mirror'))(
    'holds a table that another storage folder has loaded, until takeover is requested',
    async () => {
      const subject = await bench.loaded(before, { destination: { mode: 'mirror' } });
      const rows = await subject.place.rows('people');
      await subject.loseStorage();
      const { code, hint } = undelivered(await subject.run(after));
      expect([code, hint]).toEqual(['storage_new', expect.stringContaining('--adopt')]);
      expect(differences(rows, await subject.place.rows('people'))).toEqual([]);
      delivered(await subject.push({ adopt: true }));
      expect(differences(await subject.published(), ownless(await subject.place.rows('people')))).toEqual([]);
    },
  );

  it.runIf(bench.hasMode('append'))(
    'appends nothing to a table that another storage folder has loaded, until takeover is requested',
    async () => {
      const subject = await bench.loaded(before, { destination: { mode: 'append' } });
      await subject.loseStorage();
      const { status, code, hint } = undelivered(await subject.run(after));
      expect([status, code]).toEqual(['failed', 'store_unknown']);
      expect(hint).toContain('--adopt');
      expect(await subject.place.rows('people')).toHaveLength(95);
      expect(delivered(await subject.push({ adopt: true })).rows).toBe(0);
      expect(await subject.place.rows('people')).toHaveLength(95);
      expect(delivered(await subject.run(before)).rows).toBe(15);
    },
  );

  it.runIf(bench.keyed)('takes over a table with rows only on request', async () => {
    const place = await bench.place();
    await bench.loaded(before, { place, destination: { mode: bench.keyed } });
    const second = await bench.subject({ place, destination: { mode: bench.keyed, name: 'another' } });
    expect(undelivered(await second.run(after)).code).toBe('table_taken');
    delivered(await second.push({ adopt: true }));
    expect(column(await place.rows('people'), 'id')).toEqual(await expectedIds(second, bench));
  });

  it('says which permission is missing if the caller may not write', async ({ skip }) => {
    const place = await bench.place();
    const options = await place.withoutPermission?.();
    if (options === undefined) return skip('the place has no permissions');
    const subject = await bench.subject({ place, destination: options });
    const { status, code, hint } = undelivered(await subject.run(before));
    expect([status, ['destination_permission', 'destination_login'].includes(code)]).toEqual(['failed', true]);
    expect(hint).not.toBeNull();
    expect(await place.rows('people').catch(() => [])).toEqual([]);
  });

  it.runIf(bench.harness.server)('survives a server that goes away in the middle of a load', async () => {
    const server = bench.harness.server as { host: string; port: number };
    const proxy = bench.keep(await CuttingProxy.open(server));
    const place = await bench.place();
    const subject = await bench.loaded(people(0, 1000), { place, destination: place.through?.(proxy.port) ?? {} });
    proxy.cutAfter(60_000);
    const report = await subject.run(`${people(0, 20_000, "'changed ' || i")}`);
    expect(delivered(report).rows).toBeGreaterThan(0);
    expect(column(await place.rows('people'), 'id')).toEqual(await expectedIds(subject, bench));
  });

  it.runIf(bench.harness.server)(
    'fails while the server cannot be reached, and catches up once it can',
    { timeout: 120_000 },
    async () => {
      const server = bench.harness.server as { host: string; port: number };
      const proxy = bench.keep(await CuttingProxy.open(server));
      const place = await bench.place();
      const subject = await bench.loaded(before, { place, destination: place.through?.(proxy.port) ?? {} });
      proxy.refuse(true);
      expect(undelivered(await subject.run(people(0, 50))).code).toBe('destination_unavailable');
      await subject.commit(after);
      proxy.refuse(false);
      delivered(await subject.push());
      expect(column(await place.rows('people'), 'id')).toEqual(await expectedIds(subject, bench));
    },
  );
}

/** The keys that the table should hold: those of the snapshot; also deleted ones if the connector has no mode `mirror`. */
async function expectedIds(subject: TestTarget, bench: Workbench): Promise<(string | null)[]> {
  return bench.hasMode('mirror') ? column(await subject.published(), 'id') : subject.everPublished();
}
