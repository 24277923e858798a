import { createHmac } from 'node:crypto';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { filesHolding } from '../fixtures/files-holding.js';
import { streamOf, Workspace } from '../fixtures/workspace.js';

const salt = 'a salt that is hard to guess';
let space: Workspace;
let jobs = 0;
beforeAll(async () => {
  space = await Workspace.open({ profiles: 10, rateLimits: { management: 0 } });
});
afterAll(() => space.close());

type Attributes = Record<string, unknown>;

async function serve(records: Record<string, Attributes>): Promise<void> {
  const texts = Object.entries(records).map(([id, attributes]) => JSON.stringify({ id, index_id: 'made', attributes }));
  await space.control('profiles', { index: 'made', records: texts });
}

/** Writes a job with these rules; the same name again is the same job with other rules. */
async function configure(columns: object, { name = `columns${++jobs}`, job = {}, stream = {} } = {}): Promise<string> {
  const made = { name: 'made', source: 'index_profiles', index: 'made', page_size: 2, columns, ...stream };
  await space.configure(name, [made], { job });
  return name;
}

function hmac(text: string, key = salt): string {
  return createHmac('sha256', key).update(text).digest('hex');
}

async function rowsOf(job: string, columns = '*'): Promise<Record<string, unknown>[]> {
  return space.query(job, `select ${columns} from made order by id`);
}

/** Values of a column by id. */
async function column(job: string, name: string): Promise<Record<string, unknown>> {
  const rows = await rowsOf(job, `id, "${name}" as value`);
  return Object.fromEntries(rows.map(({ id, value }) => [String(id), value]));
}

const env = { SALT: salt };
const hashed = { hash: true, salt: '${SALT}' };

async function run(job: string, words: readonly string[] = [], variables: Record<string, string> = env) {
  return space.run(job, words, variables);
}

async function runWell(job: string, words: readonly string[] = []) {
  const { code, report, stderr } = await run(job, words);
  expect([code, report.jobs[0]?.streams[0]?.error ?? null, stderr]).toEqual([0, null, stderr]);
  return streamOf(report.jobs[0] as never, 'made');
}

describe('a column', () => {
  it('is hashed as HMAC-SHA-256 of its text, whatever type it has on which page', async () => {
    await space.control('profiles', {
      index: 'made',
      records: [
        '{"id":"a","index_id":"made","attributes":{"v":" Ada@Example.com ","n":5,"m":1}}',
        '{"id":"b","index_id":"made","attributes":{"v":"ünï@x.org","n":5.0,"m":1.5}}',
        '{"id":"c","index_id":"made","attributes":{"v":"","n":"5","m":"x"}}',
        '{"id":"d","index_id":"made","attributes":{"v":null,"n":true,"m":{"k":[1,null]}}}',
        '{"id":"e","index_id":"made","attributes":{"v":"😀","n":12345678901234567890123,"m":2}}',
      ],
    });
    const job = await configure({ v: { ...hashed, normalize: 'email' }, n: hashed, m: hashed });
    await runWell(job);
    expect(await column(job, 'v')).toEqual({
      a: hmac('ada@example.com'),
      b: hmac('ünï@x.org'),
      c: hmac(''),
      d: null,
      e: hmac('😀'),
    });
    const five = hmac('5');
    const long = hmac('12345678901234567890123');
    expect(await column(job, 'n')).toEqual({ a: five, b: five, c: five, d: hmac('true'), e: long });
    expect(await column(job, 'm')).toEqual({
      a: hmac('1'),
      b: hmac('1.5'),
      c: hmac('x'),
      d: hmac('{"k":[1,null]}'),
      e: hmac('2'),
    });
    expect(await runWell(job)).toMatchObject({ inserted: 0, updated: 0, unchanged: 5 });
    expect(await filesHolding(space.jobFolder(job), ['xample.com'])).toEqual([]);
  });

  it('is masked, dropped, renamed', async () => {
    await serve({
      a: { phone: '+1 (555) 010-9999', email: 'ada@example.com', notes: 'canary-notes', zip: '02134' },
      b: { phone: '123', email: 'nonsense', notes: null, zip: '9' },
    });
    const job = await configure({
      phone: { mask: 'last4' },
      email: { mask: 'email' },
      notes: { drop: true },
      zip: { rename: 'postcode' },
    });
    await runWell(job);
    const made = "id, phone, email, postcode, 'notes' in (select column_name from (describe made)) as has_notes";
    expect(await rowsOf(job, made)).toEqual([
      { id: 'a', phone: '*************9999', email: 'a***@example.com', postcode: '02134', has_notes: false },
      { id: 'b', phone: '***', email: '***', postcode: '9', has_notes: false },
    ]);
    expect(await filesHolding(space.jobFolder(job), ['canary-notes'])).toEqual([]);
    expect(await runWell(job)).toMatchObject({ unchanged: 2, updated: 0 });
    expect(await space.query(job, "select path from cdsync.columns where column_name = 'postcode'")).toEqual([
      { path: 'attributes.zip' },
    ]);
  });

  it('has the type of its rule while every value fits it, and is text from then on', async () => {
    await serve({ a: { d: '2024-02-29', n: '7', p: '1.50' }, b: { d: null, n: '-3', p: 2 } });
    const job = await configure({ d: { type: 'date' }, n: { type: 'integer' }, p: { type: 'decimal(10,2)' } });
    await runWell(job);
    const types = async () =>
      (await space.query(job, "select column_type as t from (describe made) where column_name in ('d', 'n', 'p')")).map(
        ({ t }) => t,
      );
    expect(await types()).toEqual(['DATE', 'BIGINT', 'DECIMAL(10,2)']);
    await serve({ a: { d: '2024-02-30', n: '7.5', p: '1.505' }, b: { d: '2024-03-01', n: '-3', p: 2 } });
    await runWell(job);
    expect(await types()).toEqual(['VARCHAR', 'VARCHAR', 'VARCHAR']);
    expect((await space.cdsync(['verify', `${job}.json`])).code).toBe(0);
    expect(await column(job, 'd')).toEqual({ a: '2024-02-30', b: '2024-03-01' });
    expect(await column(job, 'n')).toEqual({ a: '7.5', b: '-3' });
    await serve({ a: { d: '2024-02-28', n: '7', p: '1' }, b: { d: '2024-03-01', n: '-3', p: 2 } });
    await runWell(job);
    expect(await types()).toEqual(['VARCHAR', 'VARCHAR', 'VARCHAR']);
  });

  it('that is not tracked is kept up to date without a change', async () => {
    const job = await configure({ score: { track: false } });
    await serve({ a: { tier: 'gold', score: 1 }, b: { tier: 'gold', score: 2 } });
    await runWell(job);
    await serve({ a: { tier: 'gold', score: 10 }, b: { tier: 'gold', score: 20 } });
    expect(await runWell(job)).toMatchObject({ inserted: 0, updated: 0, unchanged: 2 });
    expect(await column(job, 'score')).toEqual({ a: '10', b: '20' });
    expect(await space.query(job, 'select count(*)::int as n from made__changes')).toEqual([{ n: 0 }]);
    expect(await space.query(job, "select 'score' in (select column_name from (describe made__history)) as h")).toEqual(
      [{ h: false }],
    );
    await serve({ a: { tier: 'silver', score: 11 }, b: { tier: 'gold', score: 21 } });
    expect(await runWell(job)).toMatchObject({ updated: 1, unchanged: 1 });
    expect(await column(job, 'score')).toEqual({ a: '11', b: '21' });
    expect((await space.cdsync(['verify', `${job}.json`])).code).toBe(0);
  });
});

describe('a new rule', () => {
  it('rewrites the stored values: no file has an earlier value, and no row counts as changed', async () => {
    const job = await configure({});
    await serve({
      a: { email: 'canary-one@example.com', notes: 'canary-text' },
      b: { email: 'canary-two@example.com' },
    });
    await runWell(job);
    await serve({
      a: { email: 'canary-six@example.com', notes: 'canary-text' },
      b: { email: 'canary-two@example.com' },
    });
    await runWell(job);
    expect((await filesHolding(space.jobFolder(job), ['canary'])).length).toBeGreaterThan(3);
    await configure({ email: hashed, notes: { drop: true } }, { name: job });
    expect(await runWell(job)).toMatchObject({ inserted: 0, updated: 0, deleted: 0, unchanged: 2 });
    expect(await column(job, 'email')).toEqual({
      a: hmac('canary-six@example.com'),
      b: hmac('canary-two@example.com'),
    });
    const before = await space.query(job, "select email from made__history where id = 'a' order by _valid_from");
    expect(before.map(({ email }) => email)).toEqual([hmac('canary-one@example.com'), hmac('canary-six@example.com')]);
    expect(await filesHolding(space.jobFolder(job), ['canary'])).toEqual([]);
    expect((await space.cdsync(['verify', `${job}.json`])).code).toBe(0);
    expect(await readdir(join(space.jobFolder(job), 'published'))).toHaveLength(1);
    expect(await runWell(job)).toMatchObject({ unchanged: 2, updated: 0 });
  });

  it('that goes again leaves hashes and masks in history, beside values of any type', async () => {
    const job = await configure({ points: { mask: 'all' }, code: hashed });
    await serve({ a: { points: 5, code: 7 }, b: { points: 6, code: 8 } });
    await runWell(job);
    await configure({}, { name: job });
    const { code } = await run(job, ['--accept']);
    expect([code, await column(job, 'points'), await column(job, 'code')]).toEqual([
      0,
      { a: '5', b: '6' },
      { a: '7', b: '8' },
    ]);
    const history = await space.query(job, "select points from made__history where id = 'a' order by _valid_from");
    expect(history.map(({ points }) => points)).toEqual(['"***"', '5']);
  });

  it('renames a column that is there', async () => {
    const job = await configure({});
    await serve({ a: { zip: '1' }, b: { zip: '2' } });
    await runWell(job);
    await configure({ zip: { rename: 'postcode' } }, { name: job });
    expect(await runWell(job)).toMatchObject({ unchanged: 2, updated: 0 });
    expect(await column(job, 'postcode')).toEqual({ a: '1', b: '2' });
    await configure({}, { name: job });
    expect(await runWell(job)).toMatchObject({ unchanged: 2, updated: 0 });
    expect(await column(job, 'zip')).toEqual({ a: '1', b: '2' });
  });
});

describe('rules of other sources', () => {
  const audit = { name: 'audit', source: 'audit_events', page_size: 20 };
  const service = { rate_limits: { management: 1000 } };

  it('hold for lists that only grow, even if they come later and nothing new was read', async () => {
    const name = `audit${++jobs}`;
    await space.configure(name, [audit], { service });
    await space.runWell(name);
    const [{ actor, n } = {}] = await space.query(
      name,
      "select any_value(origin_ip) filter (starts_with(origin_ip, '192.')) as actor, count(origin_ip)::int as n from audit",
    );
    expect((await filesHolding(space.jobFolder(name), [String(actor)])).length).toBeGreaterThan(1);
    const columns = { origin_ip: hashed, session_id: { drop: true } };
    await space.configure(name, [{ ...audit, columns }], { service });
    const { code, report } = await run(name);
    expect([code, streamOf(report.jobs[0] as never, 'audit').deleted]).toEqual([0, 0]);
    expect(await filesHolding(space.jobFolder(name), [String(actor)])).toEqual([]);
    expect(await space.query(name, `select count(*)::int as n from audit where length(origin_ip) = 64`)).toEqual([
      { n },
    ]);
    expect((await space.cdsync(['verify', `${name}.json`])).code).toBe(0);
    await space.control('audit', {}).catch(() => undefined);
    expect((await run(name)).code).toBe(0);
  });

  it('hold for the rows of a query', async () => {
    const name = `sql${++jobs}`;
    const query =
      "select * from (values ('a', 'canary@x.org', 1.0, 'gone'), ('b', null, 2.5, 'gone')) as t(id, email, n, secret)";
    const columns = { email: hashed, n: { mask: 'all' }, secret: { drop: true } };
    await space.configure(name, [{ name: 'q', source: 'sql', key: ['id'], query, columns }]);
    for (const inserted of [2, 0]) {
      const { report } = await run(name);
      expect(streamOf(report.jobs[0] as never, 'q')).toMatchObject({ inserted, rows: 2, updated: 0 });
    }
    expect(await space.query(name, 'select id, email, n from q order by id')).toEqual([
      { id: 'a', email: hmac('canary@x.org'), n: '***' },
      { id: 'b', email: null, n: '***' },
    ]);
  });
});

describe('a salt', () => {
  it('that has changed is refused until --rekey', async () => {
    const job = await configure({ email: hashed });
    await serve({ a: { email: 'x@example.com' }, b: { email: 'y@example.com' } });
    await runWell(job);
    const other = { SALT: 'another salt, just as good' };
    const refused = await run(job, [], other);
    expect([refused.code, streamOf(refused.report.jobs[0] as never, 'made').error?.code]).toEqual([1, 'salt_changed']);
    expect(await column(job, 'email')).toEqual({ a: hmac('x@example.com'), b: hmac('y@example.com') });
    const rekeyed = await run(job, ['--rekey'], other);
    expect([rekeyed.code, streamOf(rekeyed.report.jobs[0] as never, 'made').updated]).toEqual([0, 2]);
    expect(await column(job, 'email')).toMatchObject({ a: hmac('x@example.com', other.SALT) });
    expect((await run(job, [], other)).code).toBe(0);
  });

  it('is not needed to read the stored rows, and is in no file', async () => {
    const job = await configure({ id: hashed });
    await serve({ a: { v: 1 }, b: { v: 2 } });
    await runWell(job);
    expect((await space.cdsync(['query', `${job}.json`, 'from made'])).code).toBe(0);
    expect((await space.cdsync(['status', `${job}.json`])).code).toBe(0);
    expect(await filesHolding(space.jobFolder(job), [salt])).toEqual([]);
    await serve({ a: { v: 1 } });
    expect(await runWell(job)).toMatchObject({ deleted: 1, unchanged: 1 });
    expect(await rowsOf(job, 'id')).toEqual([{ id: hmac('a') }]);
  });
});

describe('a contract', () => {
  const first = { a: { n: 1, t: 'x' }, b: { n: 2, t: 'y' }, c: { n: 3, t: 'z' } };
  const second = { a: { n: 'one', t: 'x' }, b: { n: 2.5, t: 'y' }, c: { n: 4, t: 'z', extra: true }, d: { n: 5 } };

  async function bothRuns(contract: object) {
    const job = await configure({}, { stream: { contract } });
    await serve(first);
    await runWell(job);
    await serve(second);
    return { job, result: await run(job) };
  }

  it('is checked against the records that the service has now', async () => {
    const { job } = await bothRuns({ columns: 'freeze', types: 'freeze' });
    const { code, stdout } = await space.cdsync(['check', `${job}.json`, '--contract', '--json'], env);
    const [found] = (JSON.parse(stdout) as { contracts: { breaks: boolean; differences: string[] }[] }).contracts;
    expect([code, found?.breaks]).toEqual([1, true]);
    expect(found?.differences).toEqual([
      'attributes.extra is new (BOOLEAN)',
      'attributes.n has values that BIGINT does not hold (JSON)',
    ]);
    await serve(first);
    const now = await space.cdsync(['check', `${job}.json`, '--contract'], env);
    expect([now.code, now.stdout]).toEqual([0, expect.stringContaining('are those of the last snapshot')]);
  });

  it('that freezes fails with everything at once, and touches nothing', async () => {
    const { job, result } = await bothRuns({ columns: 'freeze', types: 'freeze' });
    const { error } = streamOf(result.report.jobs[0] as never, 'made');
    expect([result.code, error?.code]).toEqual([1, 'contract_violated']);
    expect(error?.message).toContain('attributes.extra is new');
    expect(error?.message).toContain('attributes.n has values that BIGINT does not hold');
    expect(await column(job, 'n')).toEqual({ a: '1', b: '2', c: '3' });
    await serve(first);
    expect(await runWell(job)).toMatchObject({ unchanged: 3 });
  });

  it('discards values', async () => {
    const { job, result } = await bothRuns({ columns: 'discard_value', types: 'discard_value' });
    expect(result.code).toBe(0);
    expect(await column(job, 'n')).toEqual({ a: null, b: null, c: '4', d: '5' });
    expect(await space.query(job, "select 'extra' in (select column_name from (describe made)) as e")).toEqual([
      { e: false },
    ]);
    expect(await space.query(job, 'select key, column_name, reason from cdsync.rejects order by key')).toEqual([
      { key: 'a', column_name: 'n', reason: 'the value does not fit BIGINT' },
      { key: 'b', column_name: 'n', reason: 'the value does not fit BIGINT' },
    ]);
    expect(await runWell(job)).toMatchObject({ unchanged: 4 });
  });

  it('discards rows', async () => {
    const { job, result } = await bothRuns({ columns: 'discard_row', types: 'discard_row' });
    expect([result.code, streamOf(result.report.jobs[0] as never, 'made').rejected]).toEqual([0, 3]);
    expect(await rowsOf(job, 'id, n')).toEqual([{ id: 'd', n: '5' }]);
  });
});
