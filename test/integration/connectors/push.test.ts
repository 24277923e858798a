import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import type { RunReport } from '../../../src/core/run-report.js';
import { requestControl } from '../../fixtures/control.js';
import { ObjectStore } from '../../fixtures/object-store.js';
import { Sql } from '../../fixtures/utc-duckdb.js';
import { Receiver } from '../../fixtures/webhook-server.js';
import { ended, Workspace } from '../../fixtures/workspace.js';

let space: Workspace;
let sql: Sql;
beforeAll(async () => {
  [space, sql] = await Promise.all([Workspace.open({ profiles: 2000 }), Sql.open()]);
});
afterAll(async () => {
  sql.close();
  await space.close();
});
afterEach(() => space.clearFaults());

const members = { name: 'members', source: 'index_profiles', index: 'loyalty_members', filter: { tier: 'gold' } };

async function configure(name: string, destinations: readonly object[], streams: readonly object[] = [members]) {
  await space.configure(name, streams as Record<string, unknown>[], { job: { destinations } });
}

/** A command that ends with one document, and its exit code. */
async function notices(words: readonly string[], env: Record<string, string> = {}) {
  const { code, stdout, stderr } = await space.cdsync([...words, '--json', '--quiet'], env);
  const report = JSON.parse(stdout) as RunReport;
  return { code, report, stderr, destinations: report.jobs[0]?.destinations ?? [] };
}

async function rejects(job: string, destination: string, stream: string): Promise<Record<string, unknown>[]> {
  const path = join(space.jobFolder(job), '.cdsync', 'deliveries', destination, 'rejects', `${stream}.jsonl`);
  const lines = (await readFile(path, 'utf8').catch(() => '')).split('\n').filter((line) => line !== '');
  return lines.map((line) => JSON.parse(line) as Record<string, unknown>);
}

async function eventsSent(): Promise<number> {
  const stats = (await requestControl(space.service, 'stats').then((response) => response.json())) as {
    operations: Record<string, number>;
  };
  return stats.operations['POST /prof/events/{stream-id}'] ?? 0;
}

/** The attributes that the service has for an email address. */
async function attributesOf(email: string): Promise<Record<string, unknown>> {
  const { url, token, tenantId } = space.service;
  const response = await fetch(`${url}/prof/lookup/col-1/keychain`, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}`, 'service-tenant': tenantId, 'content-type': 'application/json' },
    body: JSON.stringify({ keys: { email } }),
  });
  return ((await response.json()) as { attributes?: Record<string, unknown> }).attributes ?? {};
}

describe('event_stream', () => {
  const stream = { connector: 'event_stream', stream_id: 'evs-1', collection: 'col-1' };

  it('resumes in the middle after a kill, and every event counts once', async () => {
    const body = {
      event_id: '{{_id}}',
      event_type: 'loyalty',
      keys: { probe: 'kill-{{_key}}', email: 'kill-{{_key}}@example.org' },
      points: 1,
    };
    await configure('killed', [{ name: 'events', ...stream, body }]);
    expect((await notices(['run', 'killed.json', '--no-push'])).code).toBe(0);
    const ids = (await space.query('killed', 'select id from members')).map(({ id }) => String(id));
    expect(ids.length).toBeGreaterThan(250);
    await space.control('faults', { kind: 'slow', match: 'POST /prof/events', delay_ms: 50 });
    const before = await eventsSent();
    const first = space.spawn(['push', 'killed.json', '--quiet']);
    const end = ended(first);
    while ((await eventsSent()) - before < 100) await new Promise((resolve) => setTimeout(resolve, 5));
    first.kill('SIGKILL');
    expect((await end).code).toBeNull();
    await space.clearFaults();
    const second = await notices(['push', 'killed.json']);
    expect([second.code, second.destinations[0]?.status]).toEqual([0, 'ok']);
    // Acknowledged events are not sent again; those that were under way may be.
    expect(second.destinations[0]?.rows).toBeLessThan(ids.length);
    expect((await eventsSent()) - before).toBeLessThan(2 * ids.length);
    const points = await Promise.all(ids.map((id) => attributesOf(`kill-${id}@example.org`)));
    expect(points.map((attributes) => attributes.points)).toEqual(ids.map(() => '1'));
    const third = await notices(['push', 'killed.json']);
    expect([third.code, third.destinations[0]?.rows]).toEqual([0, 0]);
  });

  it('is refused, before anything is read, to a job that reads the collection of its events', async () => {
    const profiles = {
      name: 'profiles',
      source: 'realtime_profiles',
      collection: 'col-1',
      keys: [{ email: 'a@b.org' }],
    };
    const events = { name: 'events', ...stream, body: { profile_id: '{{profile_id}}' }, streams: ['profiles'] };
    await configure('loop', [events], [members, profiles]);
    const { code, report } = await notices(['run', 'loop.json']);
    expect([code, report.error?.message]).toEqual([
      2,
      expect.stringMatching(
        /^loop\.json:\d+:\d+ {2}jobs\.loop\.destinations.*these events feed collection "col-1", which stream "profiles" reads/s,
      ),
    ]);
  });
});

describe('webhook', () => {
  it('gets each change once, and refused ones again with the next delivery', async () => {
    const receiver = await Receiver.open();
    try {
      const url = `http://127.0.0.1:${receiver.port}/hook?token=\${HOOK_TOKEN}`;
      const signing_secret = '${HOOK_SECRET}';
      const env = { HOOK_TOKEN: 'hidden-token-of-the-test', HOOK_SECRET: 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw' };
      await configure('hooked', [{ name: 'crm', connector: 'http', url, signing_secret, batch: { records: 50 } }]);
      let refused = '';
      receiver.behaviour = ({ body }, response, count) => {
        const { records } = JSON.parse(body) as { records: { id: string; key: string }[] };
        if (count % 4 === 2) return void response.writeHead(503, { 'retry-after': '0' }).end();
        const results = records
          .filter(({ key }) => key === refused)
          .map(({ id }) => ({ id, status: 'refused', reason: 'unknown' }));
        return void response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify({ results }));
      };
      await notices(['run', 'hooked.json', '--no-push'], env);
      const [first] = await space.query('hooked', 'select id, count(*) over ()::int as n from members order by id');
      refused = String(first?.id);
      const sent = await notices(['push', 'hooked.json'], env);
      expect([sent.code, sent.destinations[0]?.status, sent.destinations[0]?.rows]).toEqual([
        5,
        'partial',
        Number(first?.n) - 1,
      ]);
      expect(await rejects('hooked', 'crm', 'members')).toMatchObject([{ key: refused, reason: 'unknown' }]);
      expect(new Set(receiver.received.flatMap(keysOf))).toEqual(new Set(await keys('hooked')));
      receiver.received.length = 0;
      refused = '';
      const again = await notices(['push', 'hooked.json'], env);
      expect([again.code, again.destinations[0]?.rows]).toEqual([0, 1]);
      expect(receiver.received.flatMap(keysOf)).toEqual([String(first?.id)]);
      expect(await rejects('hooked', 'crm', 'members')).toEqual([]);
      receiver.behaviour = (_, response) => void response.writeHead(401).end();
      await space.control('change', { days: 1, updated: 0.2 });
      const stopped = await notices(['run', 'hooked.json'], env);
      expect([stopped.code, stopped.destinations[0]?.error?.code]).toEqual([5, 'destination_login']);
      for (const value of Object.values(env))
        expect(JSON.stringify(stopped.report) + stopped.stderr).not.toContain(value);
    } finally {
      await receiver.close();
    }
  });

  function keysOf({ body }: { body: string }): string[] {
    return (JSON.parse(body) as { records: { key: string }[] }).records.map(({ key }) => key);
  }

  async function keys(job: string): Promise<string[]> {
    return (await space.query(job, 'select id from members')).map(({ id }) => String(id));
  }
});

describe('files', () => {
  const modes = [
    { mode: 'mirror', format: 'parquet', verify: 'rows' },
    { mode: 'mirror', format: 'csv', verify: 'rows', deletes: 'soft' },
    { mode: 'upsert', format: 'jsonl', partition_by: ['tier'] },
    { mode: 'replace', format: 'parquet', partition_by: ['language'], verify: 'rows' },
    { mode: 'append', format: 'jsonl' },
  ] as const;

  async function live(job: string, name: string): Promise<Set<string>> {
    const root = join(space.folder, 'exports', name, 'members');
    const { files, format } = JSON.parse(await readFile(join(root, 'manifest.json'), 'utf8')) as {
      files: { path: string }[];
      format: string;
    };
    const paths = `[${files.map(({ path }) => `'${join(root, path).replaceAll("'", "''")}'`).join(', ')}]`;
    const reader = { parquet: 'read_parquet', csv: 'read_csv', jsonl: 'read_json' }[format];
    const rows = `${reader}(${paths}, union_by_name = true, hive_partitioning = false)`;
    const columns = (await sql.rows(`DESCRIBE FROM ${rows}`)).map(({ column_name }) => column_name);
    const where = columns.includes('_deleted_at') ? ' WHERE _deleted_at IS NULL' : '';
    const found = await sql.rows(`SELECT id, points::INT AS points FROM ${rows}${where}`);
    expect([job, name, new Set(found.map(({ id }) => id)).size]).toEqual([job, name, found.length]);
    return new Set(found.map(({ id, points }) => `${id} ${points}`));
  }

  it('equal the stream, in every mode and format, run after run', async () => {
    const destinations = modes.map((options, index) => ({
      name: `d${index}`,
      connector: 'files',
      path: `./exports/d${index}`,
      ...options,
    }));
    const few = { ...members, filter: { country: 'DE' } };
    await configure('filed', destinations, [few]);
    for (let day = 0; day < 3; day += 1) {
      if (day > 0) await space.control('change', { days: 1, updated: 0.2, inserted: 0.1, deleted: 0.04 });
      const { code, destinations: ends, report } = await notices(['run', 'filed.json']);
      expect([code, ends.map(({ status }) => status)]).toEqual([0, modes.map(() => 'ok')]);
      expect(report.error).toBeNull();
      const rows = await space.query('filed', 'select id, points::int as points from members');
      const wanted = new Set(rows.map(({ id, points }) => `${id} ${points}`));
      for (const name of ['d0', 'd1', 'd3']) expect([name, await live('filed', name)]).toEqual([name, wanted]);
      const upserted = await live('filed', 'd2');
      expect([...wanted].filter((row) => !upserted.has(row))).toEqual([]);
    }
    const root = join(space.folder, 'exports', 'd4', 'members');
    const { files } = JSON.parse(await readFile(join(root, 'manifest.json'), 'utf8')) as { files: { path: string }[] };
    expect(files.length).toBe(3);
    const paths = files.map(({ path }) => `'${join(root, path)}'`).join(', ');
    const log = await sql.rows(`SELECT _op AS op, count(*)::INT AS n FROM read_json([${paths}]) GROUP BY 1 ORDER BY 1`);
    const changes = await space.query(
      'filed',
      `select op, n::int as n from (select sum(deleted) as "delete", sum(inserted) as "insert", sum(updated) as "update"
         from cdsync.streams where stream = 'members') unpivot (n for op in ("delete", "insert", "update")) order by op`,
    );
    expect(log).toEqual(changes);
    // Pushed again, nothing is sent.
    const { code, destinations: ends } = await notices(['push', 'filed.json']);
    expect([code, ends.map(({ rows }) => rows)]).toEqual([0, modes.map(() => 0)]);
  }, 180_000);

  it('go to an S3 store with the credentials of the environment', async () => {
    const store = await ObjectStore.open();
    try {
      await store.createBucket('exports');
      await configure('stored', [{ name: 'lake', connector: 'files', url: 's3://exports/cdp', endpoint: store.url }]);
      const env = { AWS_ACCESS_KEY_ID: 'AKIDEXAMPLE', AWS_SECRET_ACCESS_KEY: 'a-secret-of-the-test' };
      const { code, destinations, stderr } = await notices(['run', 'stored.json'], env);
      expect([code, destinations[0]?.status, stderr]).toEqual([0, 'ok', '']);
      expect(store.requests.filter((each) => each.startsWith('PUT /exports/cdp/members/')).length).toBeGreaterThan(2);
      const none = await notices(['push', 'stored.json', '--full'], { AWS_EC2_METADATA_DISABLED: 'true' });
      expect([none.code, none.destinations[0]?.error?.code]).toEqual([4, 'destination_login']);
      expect(none.destinations[0]?.error?.message).toBe('no credentials were found for s3://exports/cdp');
    } finally {
      await store.close();
    }
  });

  it('that are refused leave their place as it was, and nothing in the storage folder', async () => {
    await configure('wrong', [{ name: 'lake', connector: 'files', path: './exports/wrong', partition_by: ['county'] }]);
    const { code, destinations } = await notices(['run', 'wrong.json']);
    expect([code, destinations[0]?.error?.message]).toEqual([
      5,
      '`partition_by`: "county" is not a column of table "members"',
    ]);
    expect(await readdir(join(space.folder, 'exports', 'wrong'))).toEqual([]);
    const left = await readdir(join(space.jobFolder('wrong'), '.cdsync', 'deliveries', 'lake'), { recursive: true });
    expect(left.filter((name) => /parquet|workbench/.test(name))).toEqual([]);
  });
});

describe('what destinations have', () => {
  interface Shown {
    destinations: {
      name: string;
      sequence: number | null;
      behind: number;
      pending: number | null;
      outbox: { records: number; acknowledged: number } | null;
    }[];
  }

  async function shown(words: readonly string[]): Promise<Shown['destinations']> {
    const { code, stdout, stderr } = await space.cdsync([...words, '--json']);
    expect([code, stderr]).toEqual([0, '']);
    return (JSON.parse(stdout) as Shown).destinations;
  }

  const figures = ({ name, sequence, behind, pending, outbox }: Shown['destinations'][number]) => ({
    name,
    sequence,
    behind,
    pending,
    outbox,
  });

  it('is shown with how far they are behind, and forgotten on request', async () => {
    const receiver = await Receiver.open();
    let isDown = false;
    receiver.behaviour = (_, response) => void response.writeHead(isDown ? 401 : 204).end();
    try {
      const hook = {
        name: 'hook',
        connector: 'http',
        url: `http://127.0.0.1:${receiver.port}/`,
        batch: { records: 50 },
      };
      const lake = { name: 'lake', connector: 'files', path: './exports/lagging' };
      await configure('lagging', [hook, lake]);
      expect((await notices(['run', 'lagging.json'])).code).toBe(0);
      isDown = true;
      await space.control('change', { days: 1, updated: 0.2 });
      const { report } = await notices(['run', 'lagging.json']);
      const changed = report.jobs[0]?.streams[0];
      const pending = Number(changed?.inserted) + Number(changed?.updated) + Number(changed?.deleted);
      expect(pending).toBeGreaterThan(0);
      const lacking = [
        { name: 'hook', sequence: 1, behind: 1, pending, outbox: { records: pending, acknowledged: 0 } },
        { name: 'lake', sequence: 2, behind: 0, pending: 0, outbox: null },
      ];
      for (const words of [['status'], ['state', 'show']])
        expect((await shown([...words, 'lagging.json'])).map(figures)).toEqual(lacking);
      const text = (await space.cdsync(['status', 'lagging.json'])).stdout;
      expect(text).toMatch(new RegExp(`hook +members +1 .*0 of ${pending} records sent; 1 commit behind`));
      expect(text).toMatch(/lake +members +2 .* up to date/);

      isDown = false;
      const wrong = await space.cdsync(['state', 'reset', 'lagging.json', '--destination', 'hok', '--json']);
      expect([wrong.code, wrong.stdout]).toEqual([2, expect.stringContaining('did you mean \\"hook\\"?')]);
      const reset = await space.cdsync(['state', 'reset', 'lagging.json', '--destination', 'hook', '--json']);
      expect(JSON.parse(reset.stdout)).toEqual({ job: 'lagging', destination: 'hook', streams: ['members'] });
      const again = await notices(['push', 'lagging.json']);
      expect(again.destinations.map(({ name, rows }) => [name, rows])).toEqual([
        ['hook', Number(changed?.rows)],
        ['lake', 0],
      ]);
    } finally {
      await receiver.close();
    }
  });
});
