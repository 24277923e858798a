import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { RunReport } from '../../src/core/run-report.js';
import { Receiver } from '../fixtures/webhook-server.js';
import { streamOf, Workspace } from '../fixtures/workspace.js';

let space: Workspace;
beforeAll(async () => {
  space = await Workspace.open({ profiles: 10 });
});
afterAll(() => space.close());

type Options = Readonly<Record<string, unknown>>;
let jobs = 0;

/** A job of one stream whose column `v` has a rule for its type. */
async function configure(type: string, stream: Options = {}): Promise<string> {
  jobs += 1;
  const job = `typed${jobs}`;
  await space.configure(job, [
    { name: 'made', source: 'index_profiles', index: 'made', columns: { v: { type } }, ...stream },
  ]);
  return job;
}

async function serve(values: readonly unknown[]): Promise<void> {
  const records = values.map((v, n) => JSON.stringify({ id: `r${n}`, index_id: 'made', attributes: { v } }));
  await space.control('profiles', { index: 'made', records });
}

async function valuesOf(job: string): Promise<{ type: unknown; values: unknown[] }> {
  const rows = await space.query(job, 'select typeof(v) as type, v::varchar as v from made order by length(id), id');
  return { type: rows[0]?.type, values: rows.map(({ v }) => v) };
}

describe('a value that is not exactly one of the type', () => {
  /** The rule, texts that fit, and texts that do not. */
  const cases: [string, string[], string[]][] = [
    [
      'timestamp',
      ['2024-02-29', '2024-02-29T10:00:00.123456Z', '2024-02-29 10:00:00+02:00', '2024-02-29T10:00:00.100000000Z'],
      [
        'infinity',
        'epoch',
        '-infinity',
        '2024-02-29T10:00:00.1234567Z',
        '2024-02-29T10:00:00.123456789Z',
        '2024-02-29 10:00:00 Europe/Berlin',
        '2024-02-29 10:00:00 UTC',
        '2024-02-30T10:00:00Z',
        '2024-02-29T24:00:00Z',
        '2024-02-29T10:00:00+16:00',
        ' 2024-02-29',
        '2024-2-9',
        '2024-02-29 (BC)',
      ],
    ],
    [
      'number',
      ['1', '-1.5', '1e5', '0.30000000000000004', '9007199254740992', '18014398509481984', '1.50'],
      [
        '1_000.5',
        ' 1.5',
        '1.5 ',
        '123456789012345678901234567890',
        '9007199254740993',
        '0.12345678901234567891',
        'nan',
        'infinity',
        '1e400',
        '1e-400',
        '0x10',
        '1,5',
        '٣',
      ],
    ],
    ['decimal(10,2)', ['1', '-1.50', '1.5000'], ['1.505', '1_000', ' 1', '1e2', '123456789.00', 'nan']],
    ['integer', ['1', '-1', '9223372036854775807'], ['1.5', '1_0', ' 1', '9223372036854775808', '1e2']],
    ['date', ['2024-02-29'], ['2024-02-30', '2024-2-9', 'epoch', '2024-02-29 ']],
    ['boolean', ['true', 'false'], ['t', 'yes', '1', 'TRUE', ' true']],
  ];
  it.each(cases)('of a %s column is rejected under discard_value, and counted', async (type, fitting, misfits) => {
    const job = await configure(type, { contract: { types: 'discard_value' } });
    await serve([...fitting, '', ...misfits]);
    const { discarded_values, rows } = streamOf(await space.runWell(job), 'made');
    const { values } = await valuesOf(job);
    expect(values.slice(0, fitting.length)).not.toContain(null);
    expect(values.slice(fitting.length)).toEqual(Array(misfits.length + 1).fill(null));
    expect({ discarded_values, rows }).toEqual({
      discarded_values: misfits.length,
      rows: fitting.length + 1 + misfits.length,
    });
    const [rejects] = await space.query(job, "select count(*)::int as n from cdsync.rejects where column_name = 'v'");
    expect(rejects?.n).toBe(misfits.length);
  });

  it.each(cases)(
    'of a %s column makes it text under evolve, with each text, and says so',
    async (type, fitting, misfits) => {
      for (const misfit of misfits.slice(0, 3)) {
        const job = await configure(type);
        await serve([...fitting, misfit]);
        const { stdout } = await space.cdsync(['run', `${job}.json`]);
        expect(stdout).toMatch(/made: text again, because a value does not fit: attributes\.v \(was /);
        const { type: found, values } = await valuesOf(job);
        expect([found, values.at(-1)]).toEqual(['VARCHAR', misfit]);
      }
    },
  );
});

it('an empty text in a typed column is NULL', async () => {
  const job = await configure('number');
  await serve(['1.5', '', '2']);
  const stream = streamOf(await space.runWell(job), 'made');
  expect(stream).toMatchObject({ rejected: 0, discarded_values: 0, schema_changes: [] });
  expect(await valuesOf(job)).toEqual({ type: 'DOUBLE', values: ['1.5', null, '2.0'] });
});

describe('one misfit changes no other row', () => {
  const days: [string, unknown[], unknown][] = [
    ['timestamp', ['2024-02-29T10:00:00Z', '2024-02-29 10:00:00.123456+02:00', '2024-02-29', ''], 'tomorrow'],
    ['number', ['1.50', '2', '1e3', '-0.0'], 'n/a'],
    ['decimal(10,2)', ['1.5', '2', '3.10'], '1.505'],
    ['integer', ['007', '+5', '9'], 'many'],
    ['date', ['2024-02-29', '2024-03-01'], 'soon'],
    ['boolean', [true, 'false', null], 'maybe'],
  ];
  it.each(days)('of a %s column', async (type, values, misfit) => {
    const many = Array.from({ length: 40 }, (_, n) => values[n % values.length]);
    const job = await configure(type);
    await serve([...many, values[0]]);
    await space.runWell(job);
    const before = (await valuesOf(job)).values.map((value) => value === null);
    await serve([...many, misfit]);
    const second = streamOf(await space.runWell(job), 'made');
    expect(second).toMatchObject({ updated: 1, unchanged: 40 });
    expect(second.schema_changes).toMatchObject([{ column: 'attributes.v', change: 'type_fell_back', to: 'VARCHAR' }]);
    expect(streamOf(await space.runWell(job, ['--full']), 'made')).toMatchObject({ updated: 0, schema_changes: [] });
    const after = await valuesOf(job);
    expect(after.values.map((value) => value === null)).toEqual(before);
    expect(after.values.at(-1)).toBe(misfit);
    expect((await space.cdsync(['verify', `${job}.json`])).code).toBe(0);
  });
});

it('the name of a zone in one text moves no other text', async () => {
  const same = '2024-06-01 10:00:00';
  const job = await configure('timestamp', { contract: { types: 'discard_value' } });
  await serve([same, '2024-06-01 10:00:00 America/New_York', ...Array(10).fill(same)]);
  await space.runWell(job);
  const { values } = await valuesOf(job);
  expect(new Set(values)).toEqual(new Set(['2024-06-01 10:00:00+00', null]));
});

it('schema changes are in the report: new columns, and wider types', async () => {
  await space.configure('grown', [{ name: 'made', source: 'index_profiles', index: 'made' }]);
  await serve([1, 2]);
  expect(streamOf(await space.runWell('grown'), 'made').schema_changes).toEqual([]);
  const records = [{ v: 1.5, w: 'x' }, { v: 2 }].map((attributes, n) =>
    JSON.stringify({ id: `r${n}`, index_id: 'made', attributes }),
  );
  await space.control('profiles', { index: 'made', records });
  expect(streamOf(await space.runWell('grown'), 'made').schema_changes).toEqual([
    { column: 'attributes.v', change: 'type_widened', from: 'BIGINT', to: 'DOUBLE' },
    { column: 'attributes.w', change: 'column_added', from: null, to: 'VARCHAR' },
  ]);
  const { stdout } = await space.cdsync(['diff', 'grown.json', 'made']);
  expect(stdout).toContain('new columns: attributes.w (VARCHAR)\n  wider types: attributes.v (BIGINT to DOUBLE)');
  const ofOne = await space.cdsync(['diff', 'grown.json', 'made', '--column', 'w', '--json']);
  expect(JSON.parse(ofOne.stdout).schema_changes).toMatchObject([{ column: 'attributes.w' }]);
});

describe('a text column that a destination gets beside a column of another type', () => {
  const variant = {
    ...{ column: 'attributes.v', change: 'variant_column', from: 'BIGINT', to: 'VARCHAR' },
    ...{ destination: 'warehouse', variant: 'v__text' },
  };
  const line = 'made: new text columns: v__text in warehouse, because the column there is BIGINT';
  type Sent = readonly { events: string[]; schema_changes: unknown[] }[];
  let receiver: Receiver;
  beforeAll(async () => {
    receiver = await Receiver.open();
  });
  afterAll(() => receiver.close());

  async function begin(job: string): Promise<void> {
    const destinations = [{ name: 'warehouse', connector: 'duckdb', path: `./${job}-warehouse.duckdb` }];
    const notify = [{ on: ['schema_changed'], webhook: `http://127.0.0.1:${receiver.port}/${job}`, format: 'json' }];
    await space.configure(job, [{ name: 'made', source: 'index_profiles', index: 'made' }], {
      job: { destinations, notify },
    });
    await serve([1, 2]);
    await space.runWell(job);
    await serve([1, 'many']);
  }

  function messages(job: string): Sent {
    return receiver.received.filter(({ path }) => path === `/${job}`).map(({ body }) => JSON.parse(body));
  }

  it('is a schema change of the run: in the summary, the document, the page, diff and notify', async () => {
    await begin('variant');
    const { stdout } = await space.cdsync(['run', 'variant.json']);
    expect(stdout).toContain(line);
    const { stdout: document } = await space.cdsync(['report', 'variant.json', '--json']);
    const [job] = (JSON.parse(document) as RunReport).jobs;
    expect(job?.streams[0]?.schema_changes).toContainEqual(variant);
    expect(job?.destinations[0]).not.toHaveProperty('schema_changes');
    const page = await readFile(join(space.folder, `data/variant/reports/${job?.run_id}.html`), 'utf8');
    expect(page).toContain('v__text in warehouse, because the column there is BIGINT');
    const diff = await space.cdsync(['diff', 'variant.json', 'made']);
    expect(diff.stdout).toContain('v__text in warehouse');
    expect(messages('variant')).toMatchObject([{ events: ['schema_changed'] }]);
    expect(messages('variant')[0]?.schema_changes).toContainEqual({ stream: 'made', ...variant });
    expect(streamOf(await space.runWell('variant'), 'made').schema_changes).toEqual([]);
  });

  it('is one of a delivery without a run', async () => {
    await begin('pushed');
    await space.runWell('pushed', ['--no-push']);
    const { stdout } = await space.cdsync(['push', 'pushed.json', '--json']);
    const [job] = (JSON.parse(stdout) as RunReport).jobs;
    expect(job?.destinations[0]?.schema_changes).toEqual([variant]);
    expect(messages('pushed').at(-1)?.schema_changes).toEqual([{ stream: 'made', ...variant }]);
    const again = await space.cdsync(['push', 'pushed.json', '--full', '--json']);
    expect(JSON.parse(again.stdout).jobs[0].destinations[0]).not.toHaveProperty('schema_changes');
  });
});
