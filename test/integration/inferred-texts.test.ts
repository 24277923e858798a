import { join } from 'node:path';
import { DuckDBInstance } from '@duckdb/node-api';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { streamOf, Workspace } from '../fixtures/workspace.js';
import { inferredJobs, openGuards, type Row } from './inferred-jobs.js';

let space: Workspace;
beforeAll(async () => {
  space = await Workspace.open({ profiles: 10, rateLimits: { management: 0 } });
});
afterAll(() => space.close());

const { serve, configure, counts, types, textsOf, verified } = inferredJobs(() => space);

async function rowsIn(path: string): Promise<Row[]> {
  const instance = await DuckDBInstance.create(path, { access_mode: 'READ_ONLY' });
  const connection = await instance.connect();
  try {
    const found = await connection.runAndReadAll('select * exclude (_synced_at) from made order by id');
    return found.getRowObjectsJson() as Row[];
  } finally {
    connection.closeSync();
    instance.closeSync();
  }
}

const good = {
  n: '5',
  p: '1.50',
  yes: 'true',
  d: '2024-02-29',
  t: '2024-02-29T10:11:12.345Z',
  zip: '2134',
  empty: '1',
};

describe('with strings: infer', () => {
  it('a column whose texts can all be given back gets their type, in tables, files and manifest', async () => {
    await serve({
      a: { ...good, huge: '9', de: '24.12.2024' },
      b: { n: '-7', p: '20.25', yes: 'false', d: '1999-12-31', t: '2024-01-01T00:00:00.000Z', zip: '02134', empty: '' },
      c: { n: null, huge: '12345678901234567890', mixed: 7, list: ['1'] },
      d: { mixed: '7', list: ['2'] },
    });
    const job = await configure({ strings: 'infer' });
    expect(await counts(job)).toMatchObject({ inserted: 4 });
    expect(await types(job)).toMatchObject({
      id: 'VARCHAR',
      n: 'BIGINT',
      p: 'DECIMAL(18,2)',
      yes: 'BOOLEAN',
      d: 'DATE',
      de: 'DATE',
      t: 'TIMESTAMP WITH TIME ZONE',
      huge: 'HUGEINT',
      zip: 'VARCHAR',
      empty: 'BIGINT',
      mixed: 'JSON',
      list: 'VARCHAR[]',
    });
    expect(
      await space.query(job, 'select sum(n)::int as n, sum(p)::varchar as p, count(empty)::int as e from made'),
    ).toEqual([{ n: -2, p: '21.75', e: 1 }]);
    expect(await types(job, 'made__changes')).toMatchObject({ n: 'BIGINT', d: 'DATE' });
    const { schema, files } = await space.manifest(job, 'made');
    expect(schema).toContainEqual({ name: 'n', type: 'BIGINT' });
    expect(schema).toContainEqual({ name: 'de', type: 'DATE', format: '%d.%m.%Y' });
    const path = join(space.jobFolder(job), 'parquet', 'made', files[0]?.path ?? '');
    const inFile = await space.query(
      job,
      `select column_type as t from (describe from '${path}') where column_name = 'n'`,
    );
    expect(inFile).toEqual([{ t: 'BIGINT' }]);
    expect(await counts(job, ['--full'])).toEqual({ inserted: 0, updated: 0, deleted: 0, unchanged: 4 });
    await verified(job);
  });

  it('decimals that are written as short as can be are doubles, whole numbers among them or not', async () => {
    const people = (ltv: string) => ({
      a: { ltv: '8814.29', mixed: '12', python: '12.0', price: '12.50', score: '0.00001', long: '0.1234567890123456' },
      b: { ltv, mixed: '-0.5', python: '0.25', price: '0.29', score: '7', long: '3' },
      c: { ltv: '', mixed: null },
    });
    await serve(people('8814.3'));
    const job = await configure({ strings: 'infer' });
    await counts(job);
    expect(await types(job)).toMatchObject({
      ltv: 'DOUBLE',
      mixed: 'DOUBLE',
      python: 'DOUBLE',
      price: 'DECIMAL(18,2)',
      score: 'DOUBLE',
      long: 'DOUBLE',
    });
    expect(await space.query(job, 'select sum(ltv) as ltv, sum(mixed) as mixed from made')).toEqual([
      { ltv: 8814.29 + 8814.3, mixed: 11.5 },
    ]);
    expect(await textsOf(job, 'made')).toMatchObject(
      Object.values(people('8814.3')).map((person) => ({ ...person, ltv: person.ltv || null })),
    );
    expect((await space.manifest(job, 'made')).schema).toContainEqual({ name: 'ltv', type: 'DOUBLE' });
    await serve(people('8814.30'));
    const fallen = streamOf(await space.runWell(job), 'made');
    expect(fallen).toMatchObject({ inserted: 0, deleted: 0 });
    expect(fallen.schema_changes).toContainEqual({
      column: 'attributes.ltv',
      change: 'type_fell_back',
      from: 'DOUBLE',
      to: 'VARCHAR',
    });
    expect(await space.query(job, 'select id, ltv from made order by id')).toEqual([
      { id: 'a', ltv: '8814.29' },
      { id: 'b', ltv: '8814.30' },
      { id: 'c', ltv: '' },
    ]);
    await verified(job);
  });

  it('an empty text is NULL while its column has a type, and returns with the text that ends that', async () => {
    const people = (n: string, note: string) => ({
      a: { n: '5', d: '', late: '', note },
      b: { n: '', d: '2024-02-29', late: '', note: '' },
      c: { n, d: '', late: n, note: 'x' },
    });
    await serve(people('7', ''));
    const job = await configure({ strings: 'infer' });
    await counts(job);
    expect(await types(job)).toMatchObject({ n: 'BIGINT', d: 'DATE', late: 'BIGINT', note: 'VARCHAR' });
    const rows = (columns: string) => space.query(job, `select ${columns} from made order by id`);
    expect(await rows('n::int as n, note')).toEqual([
      { n: 5, note: '' },
      { n: null, note: '' },
      { n: 7, note: 'x' },
    ]);
    // The same again changes nothing, with and without the record cache.
    expect(await counts(job)).toMatchObject({ updated: 0, unchanged: 3 });
    expect(await counts(job, ['--full'])).toMatchObject({ updated: 0, unchanged: 3 });
    await serve(people('none', ''));
    const fallen = streamOf(await space.runWell(job), 'made');
    expect(fallen).toMatchObject({ updated: 3, deleted: 0 });
    expect(fallen.schema_changes).toContainEqual({
      column: 'attributes.n',
      change: 'type_fell_back',
      from: 'BIGINT',
      to: 'VARCHAR',
    });
    expect(await rows('n, late')).toEqual([
      { n: '5', late: '' },
      { n: '', late: '' },
      { n: 'none', late: 'none' },
    ]);
    expect(await counts(job)).toMatchObject({ updated: 0, unchanged: 3 });
    expect(await counts(job, ['--full'])).toMatchObject({ updated: 0, unchanged: 3 });
    await verified(job);
  });

  it.each([
    ['5', '', 'none'],
    ['', '5', 'none'],
    ['none', '', '5'],
    ['none', '5', ''],
  ])('a first run gives empty texts back, whatever is first: %j, %j, %j', async (...texts) => {
    await serve(Object.fromEntries(texts.map((n, index) => [`p${index}`, { n }])));
    const job = await configure({ strings: 'infer', page_size: 1 });
    await counts(job);
    expect(await space.query(job, 'select n from made order by id')).toEqual(texts.map((n) => ({ n })));
    expect(await counts(job, ['--full'])).toMatchObject({ updated: 0, unchanged: 3 });
    await verified(job);
  });

  it('choosing infer for a snapshot with empty texts changes types and no row', async () => {
    await serve({ a: { n: '5' }, b: { n: '' } });
    const job = await configure({ strings: 'keep' });
    await counts(job);
    await configure({ strings: 'infer' }, { name: job });
    expect(await counts(job)).toMatchObject({ updated: 0, unchanged: 2 });
    expect(await space.query(job, 'select n::int as n from made order by id')).toEqual([{ n: 5 }, { n: null }]);
    expect(await counts(job)).toMatchObject({ updated: 0, unchanged: 2 });
    expect(await counts(job, ['--full'])).toMatchObject({ updated: 0, unchanged: 2 });
    await verified(job);
  });

  it('a text that does not fit takes the column back to text: only its own row has changed', async () => {
    const rows = (n: string, d: string) => ({
      a: { n: '5', d: '24.12.2024', name: 'Ada' },
      b: { n: '-7', d: '01.01.1999', name: 'Bo' },
      c: { n, d, name: 'Cy' },
    });
    await serve(rows('12', '02.02.2002'));
    const job = await configure({ strings: 'infer' });
    await counts(job);
    expect(await types(job)).toMatchObject({ n: 'BIGINT', d: 'DATE' });
    await serve(rows('012', '30.02.2002'));
    const report = streamOf(await space.runWell(job), 'made');
    expect(report).toMatchObject({
      inserted: 0,
      updated: 1,
      deleted: 0,
      unchanged: 2,
      recognised: 2,
      unrecognised: null,
    });
    expect(await types(job)).toMatchObject({ n: 'VARCHAR', d: 'VARCHAR' });
    expect(await space.query(job, 'select id, n, d from made order by id')).toEqual([
      { id: 'a', n: '5', d: '24.12.2024' },
      { id: 'b', n: '-7', d: '01.01.1999' },
      { id: 'c', n: '012', d: '30.02.2002' },
    ]);
    const history = 'select id, n, d, _valid_to is null as is_now from made__history order by id, _valid_from';
    expect(await space.query(job, history)).toEqual([
      { id: 'a', n: '5', d: '24.12.2024', is_now: true },
      { id: 'b', n: '-7', d: '01.01.1999', is_now: true },
      { id: 'c', n: '12', d: '02.02.2002', is_now: false },
      { id: 'c', n: '012', d: '30.02.2002', is_now: true },
    ]);
    await verified(job);
    await serve(rows('12', '02.02.2002'));
    expect(await counts(job)).toMatchObject({ updated: 1, unchanged: 2 });
    expect(await types(job)).toMatchObject({ n: 'VARCHAR', d: 'VARCHAR' });
  });

  it('rules for columns have their say first', async () => {
    await serve({
      a: { h: '5', m: '123456', d: '7', i: '08', r: '9' },
      b: { h: '6', m: '123457', d: '8', i: '09', r: '1' },
    });
    const columns = {
      h: { hash: true, salt: 'a salt that is hard to guess' },
      m: { mask: 'last4' },
      d: { drop: true },
      i: { type: 'integer' },
      r: { rename: 'renamed' },
    };
    const job = await configure({ strings: 'infer', columns });
    await counts(job);
    const found = await types(job);
    expect(found).toMatchObject({ h: 'VARCHAR', m: 'VARCHAR', i: 'BIGINT', renamed: 'BIGINT' });
    expect(found).not.toHaveProperty('d');
    await configure({ strings: 'infer' }, { name: job });
    await counts(job, ['--accept']);
    expect(await types(job)).toMatchObject({ h: 'VARCHAR', m: 'VARCHAR', d: 'BIGINT', i: 'VARCHAR', r: 'BIGINT' });
    await verified(job);
  });

  it.each([
    ['freeze', { code: 1, n: 'BIGINT', rows: { a: 5, b: 6 } }],
    ['discard_value', { code: 0, n: 'BIGINT', rows: { a: 5, b: null } }],
    ['discard_row', { code: 0, n: 'BIGINT', rows: { a: 5, b: 6 } }],
  ])('a text that does not fit breaks the contract types: %s', async (action, { code, n, rows }) => {
    await serve({ a: { n: '5' }, b: { n: '6' } });
    const job = await configure({ strings: 'keep', contract: { types: action } });
    await counts(job);
    await configure({ strings: 'infer', contract: { types: action } }, { name: job });
    expect(await counts(job)).toMatchObject({ updated: 0, unchanged: 2 });
    expect(await types(job)).toMatchObject({ n });
    await serve({ a: { n: '5' }, b: { n: '+6' } });
    const ended = await space.run(job);
    expect([ended.code, ended.stderr]).toEqual([code, ended.stderr]);
    if (action === 'freeze') expect(ended.report.jobs[0]?.streams[0]?.error?.message).toContain('BIGINT does not hold');
    expect(await types(job)).toMatchObject({ n });
    const kept = await space.query(job, 'select id, n::int as n from made order by id');
    const held = Object.fromEntries(kept.map((row) => [row.id, row.n]));
    expect(held).toEqual(action === 'discard_row' ? expect.objectContaining({ a: 5 }) : rows);
    await configure({ strings: 'keep' }, { name: job });
    await counts(job);
    expect(await types(job)).toMatchObject({ n: 'VARCHAR' });
    await verified(job);
  });

  it('lists that only grow change types without a new record, and back', async () => {
    const since = new Date(Date.now() - 30 * 86_400_000).toISOString().slice(0, 10);
    const streams = ['audit_events', 'ingest_jobs', 'workflow_runs'].map((source) => ({ name: source, source, since }));
    const job = 'inferred_lists';
    const runWith = async (strings: string) => {
      await space.configure(job, streams, { job: { strings, guards: openGuards } });
      const { streams: notices } = await space.runWell(job);
      await verified(job);
      return notices.map(({ name, inserted, updated, deleted }) => ({ name, inserted, updated, deleted }));
    };
    const unchanged = streams.map(({ name }) => ({ name, inserted: 0, updated: 0, deleted: 0 }));
    await runWith('keep');
    const before = await types(job, 'audit_events');
    for (const strings of ['infer', 'keep', 'infer'])
      expect([strings, await runWith(strings)]).toEqual([strings, unchanged]);
    await runWith('keep');
    expect(await types(job, 'audit_events')).toEqual(before);
  });

  it('a destination gets the values; a table that has text keeps the texts', async () => {
    await serve({ a: { n: '5', d: '24.12.2024' }, b: { n: '6', d: '01.01.2000' } });
    const to = (name: string) => ({
      name,
      connector: 'duckdb',
      path: `./${name}.duckdb`,
      mode: 'mirror',
      verify: 'rows',
    });
    const job = await configure({ strings: 'keep' }, { job: { destinations: [to('old')] } });
    const rowsOf = (name: string) => rowsIn(join(space.folder, `${name}.duckdb`));
    await counts(job);
    const texts = [
      { id: 'a', index_id: 'made', n: '5', d: '24.12.2024' },
      { id: 'b', index_id: 'made', n: '6', d: '01.01.2000' },
    ];
    expect(await rowsOf('old')).toEqual(texts);
    await configure({ strings: 'infer' }, { name: job, job: { destinations: [to('old'), to('new')] } });
    expect(await counts(job)).toMatchObject({ updated: 0, unchanged: 2 });
    expect(await rowsOf('old')).toEqual(texts);
    expect(await rowsOf('new')).toEqual([
      { id: 'a', index_id: 'made', n: '5', d: '2024-12-24' },
      { id: 'b', index_id: 'made', n: '6', d: '2000-01-01' },
    ]);
    await serve({ a: { n: '5', d: '24.12.2024' }, b: { n: '06', d: '02.01.2000' } });
    expect(await counts(job)).toMatchObject({ updated: 1, unchanged: 1 });
    expect(await rowsOf('old')).toEqual([texts[0], { id: 'b', index_id: 'made', n: '06', d: '02.01.2000' }]);
    expect(await rowsOf('new')).toEqual([
      { id: 'a', index_id: 'made', n: '5', d: '2024-12-24', n__text: '5' },
      { id: 'b', index_id: 'made', n: null, d: '2000-01-02', n__text: '06' },
    ]);
  });

  it('is foretold by check --contract', async () => {
    await serve({ a: { n: '5', zip: '2134' }, b: { n: '6', zip: '02134' } });
    const job = await configure({ strings: 'keep' });
    await counts(job);
    const notices = async () => {
      const { stdout } = await space.cdsync(['check', `${job}.json`, '--contract', '--json']);
      return (JSON.parse(stdout) as { contracts: unknown[] }).contracts;
    };
    const said = (...texts: string[]) => [{ name: 'made', records: 2, differences: [], texts, breaks: false }];
    expect(await notices()).toEqual(said('attributes.n would be BIGINT with strings: infer'));
    await configure({ strings: 'infer' }, { name: job });
    expect(await notices()).toEqual(said('attributes.n becomes BIGINT, it was VARCHAR'));
    await counts(job);
    expect(await notices()).toEqual(said());
    await configure({ strings: 'keep' }, { name: job });
    expect(await notices()).toEqual(said('attributes.n becomes text again, it was BIGINT'));
  });

  it('a query sees the values, and its own texts become values too', async () => {
    await serve({ a: { n: '5', code: 'x-1' }, b: { n: '6', code: 'x-2' } });
    const query = "select id, n * 2 as twice, split_part(code, '-', 2) as part, 'p' || n as text from made";
    const made = { name: 'derived', source: 'sql', key: ['id'], query };
    const job = await configure({ strings: 'keep' }, { more: [{ ...made, query: query.replace('n * 2', '2') }] });
    await counts(job);
    expect(await types(job, 'derived')).toMatchObject({ part: 'VARCHAR' });
    await configure(
      {},
      { name: job, job: { strings: 'infer' }, more: [{ ...made, query: query.replace('n * 2', '2') }] },
    );
    const switched = streamOf(await space.runWell(job), 'derived');
    expect(switched).toMatchObject({ updated: 0, unchanged: 2 });
    expect(await types(job, 'derived')).toMatchObject({ id: 'VARCHAR', part: 'BIGINT', text: 'VARCHAR' });
    await configure({}, { name: job, job: { strings: 'infer' }, more: [made] });
    await space.runWell(job, ['--accept']);
    expect(
      await space.query(job, 'select id, twice::int as twice, part::int as part from derived order by id'),
    ).toEqual([
      { id: 'a', twice: 10, part: 1 },
      { id: 'b', twice: 12, part: 2 },
    ]);
    await serve({ a: { n: '5', code: 'x-1' }, b: { n: '6', code: 'x-02' } });
    const later = streamOf(await space.runWell(job), 'derived');
    expect(later).toMatchObject({ updated: 1, unchanged: 1 });
    expect(await space.query(job, 'select part from derived order by id')).toEqual([{ part: '1' }, { part: '02' }]);
    await verified(job);
  });
});
