import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import type { JobReport } from '../../../src/core/run-report.js';
import { streamOf, Workspace } from '../../fixtures/workspace.js';

const example = join(import.meta.dirname, '..', '..', '..', 'configs', 'ledger.yaml');

interface Streams {
  readonly jobs: { readonly ledger: { readonly streams: readonly Readonly<Record<string, unknown>>[] } };
}

let space: Workspace;
let queries: readonly Readonly<Record<string, unknown>>[];
beforeAll(async () => {
  space = await Workspace.open({ profiles: 1000 });
  queries = (parse(await readFile(example, 'utf8')) as Streams).jobs.ledger.streams.filter(
    ({ source }) => source === 'sql',
  );
});
afterAll(() => space.close());

interface Identities {
  readonly merges: readonly { readonly from: string; readonly into: string }[];
  readonly splits: Identities['merges'];
}

type Members = Readonly<Record<string, readonly [email: string, phone: string, tier: string]>>;

const members = {
  name: 'members',
  source: 'index_profiles',
  index: 'made',
  guards: { max_deleted: 'off', max_changed: 'off' },
};
const guards = { min_rows: 0, max_deleted: 'off', max_changed: 'off' };

const serve = (made: Members) =>
  space.control('profiles', {
    index: 'made',
    records: Object.entries(made).map(([id, [email, phone, tier]]) =>
      JSON.stringify({ id, index_id: 'made', attributes: { email, phone, tier, first_name: id.toUpperCase() } }),
    ),
  });

const configure = (job: string, more: object = {}, own: object = {}) =>
  space.configure(job, [members, ...queries.map((query) => ({ ...query, guards, ...own }))], { job: more as never });

const first: Members = {
  a: ['a@x.example', '+1', 'gold'],
  b: ['b@x.example', '+2', 'platinum'],
  c: ['c@x.example', '+3', 'gold'],
  d: ['d@x.example', '+4', 'silver'],
};
// a was merged into b by its e-mail; e was split from c by its phone; d left; c became platinum.
const second: Members = {
  b: ['a@x.example', '+2', 'platinum'],
  c: ['c@x.example', '+33', 'platinum'],
  e: ['e@x.example', '+3', 'silver'],
};

const rowsOf = async (job: string) => ({
  became: await space.query(job, 'select old_id, new_id, how, by_email, by_phone from became order by all'),
  platinum: (await space.query(job, 'select id from new_platinum order by id')).map(({ id }) => id),
  departed: await space.query(job, 'select id, email, tier from departed order by id'),
});

const expected = {
  became: [
    { old_id: 'a', new_id: 'b', how: 'merge', by_email: true, by_phone: false },
    { old_id: 'c', new_id: 'e', how: 'split', by_email: false, by_phone: true },
  ],
  platinum: ['c'],
  departed: [
    { id: 'a', email: 'a@x.example', tier: 'gold' },
    { id: 'd', email: 'd@x.example', tier: 'silver' },
  ],
};

describe('the recipes of configs/ledger.yaml', () => {
  it('say which id became which, who is platinum since, and who left, and keep it', async () => {
    await serve(first);
    await configure('queries');
    await space.runWell('queries');
    expect(await rowsOf('queries')).toEqual({ became: [], platinum: [], departed: [] });
    await serve(second);
    await space.runWell('queries');
    expect(await rowsOf('queries')).toEqual(expected);
    await space.runWell('queries');
    await space.runWell('queries', ['--full']);
    expect(await rowsOf('queries')).toEqual(expected);
  });

  it('name each merge and split that the service has made, after a run that failed too', async () => {
    const index = { ...members, index: 'loyalty_members' };
    await space.configure('service', [index, ...queries.map((query) => ({ ...query, guards }))]);
    const first = await space.runWell('service');
    expect(first.streams.flatMap(({ warnings = [] }) => warnings)).toEqual([]);
    const wanted: { old_id: string; new_id: string; how: string }[] = [];
    for (const run of [1, 2, 3]) {
      const { merges, splits } = (await space.control('change', {
        days: 1,
        updated: 0.1,
        deleted: 0.05,
      })) as Identities;
      const pairs = (list: Identities['merges'], how: string) =>
        list.map(({ from, into }) => ({ old_id: from, new_id: into, how }));
      wanted.push(...pairs(merges, 'merge'), ...pairs(splits, 'split'));
      expect([merges.length, splits.length].every((count) => count > 0)).toBe(true);
      if (run === 2) {
        await space.control('faults', { kind: 'status', status: 403, match: '/profiles', count: 1000 });
        expect((await space.run('service')).code).not.toBe(0);
        await space.clearFaults();
      }
      await space.runWell('service');
    }
    const became = await space.query('service', 'select old_id, new_id, how from became order by all');
    const text = ({ old_id, new_id, how }: Readonly<Record<string, unknown>>) => `${old_id} ${new_id} ${how}`;
    expect(became.map(text)).toEqual(wanted.map(text).sort());
  });

  it('forget a person in the ledger too', async () => {
    const { code, stderr } = await space.cdsync(['forget', 'queries.json', 'departed', 'a', '--yes']);
    expect(code, stderr).toBe(0);
    await space.runWell('queries');
    expect((await rowsOf('queries')).departed.map(({ id }) => id)).toEqual(['d']);
  });

  it('are right after runs that read only the members, and with a hidden column', async () => {
    await serve(first);
    const path = await configure('apart');
    const config = JSON.parse(await readFile(path, 'utf8')) as {
      jobs: { apart: { streams: Record<string, unknown>[] } };
    };
    Object.assign(config.jobs.apart.streams[0] ?? {}, { columns: { first_name: { drop: true } } });
    for (const stream of config.jobs.apart.streams)
      stream.query = String(stream.query ?? '').replace('first_name,', '') || undefined;
    await writeFile(path, JSON.stringify(config));
    await space.runWell('apart');
    await serve({ ...second, b: ['b@x.example', '+2', 'platinum'] });
    await space.runWell('apart', ['--stream', 'members']);
    await serve(second);
    await space.runWell('apart', ['--stream', 'members']);
    await space.runWell('apart', ['--stream', 'became', '--stream', 'new_platinum', '--stream', 'departed']);
    expect(await rowsOf('apart')).toEqual(expected);
  });
});

describe('rows that the store no longer has', () => {
  const names = ['became', 'new_platinum', 'departed'];
  const only = (job: string, words: readonly string[]) => space.run(job, words);

  it('hold the stream, and --accept continues from the oldest that there are', async () => {
    await serve(first);
    await configure('gone', { publish: { history: '1ms' } });
    await space.runWell('gone');
    for (const n of [5, 6, 7]) {
      await serve({ ...first, f: ['f@x.example', `+${n}`, 'gold'] });
      await space.runWell('gone', ['--stream', 'members']);
    }
    await serve(second);
    await space.runWell('gone', ['--stream', 'members']);
    const { code, report } = await only('gone', ['--stream', 'departed']);
    expect(code).toBe(3);
    const held = streamOf(report.jobs[0] as JobReport, 'departed');
    expect(held).toMatchObject({ status: 'held', error: { code: 'changes_gone' } });
    expect(held.error?.hint).toContain('--stream departed --accept');
    expect((await only('gone', ['--stream', 'departed'])).code).toBe(3);
    const accepted = await only('gone', [...names.flatMap((name) => ['--stream', name]), '--accept']);
    expect(accepted.code, accepted.stderr).toBe(0);
    await space.runWell('gone');
  });
});

describe('names of previous rows', () => {
  const checked = async (query: string) => {
    await space.configure('names', [members, { name: 'q', source: 'sql', key: ['id'], query }]);
    const { code, stdout } = await space.cdsync(['check', 'names.json', '--json']);
    const { streams } = JSON.parse(stdout) as {
      streams: { name: string; error: { code: string; message: string } | null }[];
    };
    return { code, error: streams.find(({ name }) => name === 'q')?.error ?? null };
  };

  it('are known to check and to plan, those of other streams are not, and a stream cannot read its previous rows', async () => {
    expect(await checked('select id from MEMBERS__previous')).toEqual({ code: 0, error: null });
    const plan = await space.cdsync(['plan', 'names.json', '--json']);
    expect(plan.code, plan.stderr).toBe(0);
    expect(JSON.parse(plan.stdout).streams.find(({ name }: { name: string }) => name === 'q').needs).toEqual([
      'members',
    ]);
    expect((await checked('select id from absent__previous')).error).toMatchObject({ code: 'sql_failed' });
    expect((await checked('select id from members union select id from q__previous')).error).toMatchObject({
      code: 'stream_circle',
    });
  });
});
