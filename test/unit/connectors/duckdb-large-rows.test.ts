import { randomBytes } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { openDuckdb } from '../../../connectors/duckdb/load.js';
import { openInstance } from '../../../src/sdk/duckdb/node-api.js';
import type { DestinationContext, Load, LoadData, StateRow } from '../../../src/sdk/index.js';
import { connectDuckdb, DuckdbSession } from '../../../src/sdk/sql/duckdb-session.js';

const text = { kind: 'text' } as const;
const timestamp = { kind: 'timestamp' } as const;
const columns = [
  { name: 'id', type: 'VARCHAR', kind: text },
  { name: 'note', type: 'VARCHAR', kind: text },
  { name: '_deleted_at', type: 'TIMESTAMP WITH TIME ZONE', kind: timestamp },
];
let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'duckdb-large-'));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

interface StagedRow {
  readonly _op: 'upsert' | 'delete';
  readonly id: string;
  readonly note: string;
}

/** A Parquet file with row groups of few rows, as deliveries write large ones. */
async function fileOf(name: string, rows: readonly StagedRow[]): Promise<string> {
  const [json, path] = ['json', 'parquet'].map((kind) => join(folder, `${name}.${kind}`)) as [string, string];
  await writeFile(json, rows.map((row) => JSON.stringify({ ...row, _deleted_at: null })).join('\n'));
  const instance = await openInstance(':memory:', { threads: '1' });
  const connection = await instance.connect();
  await connection.run('SET enable_caching_operators = false');
  const types = "{_op: 'VARCHAR', id: 'VARCHAR', note: 'VARCHAR', _deleted_at: 'TIMESTAMPTZ'}";
  await connection.run(`COPY (FROM read_json('${json}', columns = ${types})) TO '${path}' (ROW_GROUP_SIZE 8)`);
  connection.closeSync();
  instance.closeSync();
  return path;
}

const key = { destination: 'd', stream: 's', table: 'rows' };

/** Loads rows into a table, as a delivery does. @returns the rows that the load has read back */
async function loadRows(
  context: Partial<DestinationContext>,
  { path, rows, write }: { path: string; rows: number; write: Load['write'] },
): Promise<{ rows: number; sum: string }> {
  const opened = { options: { path: join(folder, `${context.job}.duckdb`), schema: 'main' }, ...context };
  const destination = await openDuckdb(opened as unknown as Parameters<typeof openDuckdb>[0]);
  try {
    const isFill = write.type === 'fill';
    const before: StateRow | undefined = isFill ? undefined : (await destination.state(key)).own;
    const table = isFill ? undefined : await destination.describe(key.table);
    const opColumn = { name: '_op', type: 'VARCHAR', kind: text };
    const handed = isFill ? columns : [opColumn, ...columns];
    const readBack = { rows: 0, sum: '' };
    const load: Load = {
      ...{ state: key, before, intent: 'intent', empty: [], clear: [], erase: [], undo: undefined, supersedes: [] },
      table: { name: key.table, columns, key: ['id'], isKeyed: true },
      change: { drop: false, create: isFill, add: [], widen: [] },
      ...{ write, id: '1:one', isReload: false, moment: '2026-01-01T00:00:00.000Z', rows: table?.rows ?? 0 },
      data: {
        columns: handed.map(({ name, type, kind }) => ({
          ...{ name, type: kind, duckdbType: type, targetType: type, handedOverAs: kind },
        })),
        ...{ rows, handedOver: rows },
        files: async function* () {
          const file = { path, rows, bytes: 1 };
          yield file as never;
        },
        batches: async function* () {},
      },
      readBack: {
        columns: columns.slice(0, 2),
        check: async (_, find) => {
          Object.assign(readBack, await find());
        },
      },
      finish: () => ({ record: 'after', line: {} }),
      signal: new AbortController().signal,
    };
    await destination.load(load);
    return readBack;
  } finally {
    await destination.close();
  }
}

async function tableOf(job: string): Promise<unknown> {
  const instance = await openInstance(join(folder, `${job}.duckdb`));
  const connection = await instance.connect();
  try {
    const reader = await connection.runAndReadAll('SELECT * FROM rows ORDER BY id');
    return reader.getRowObjectsJson();
  } finally {
    connection.closeSync();
    instance.closeSync();
  }
}

const upsert = (id: number, note: string): StagedRow => ({ _op: 'upsert', id: `p${id}`, note });

it('large rows are loaded, replaced and read back in a memory that has no place for two copies of all of them', async () => {
  const rows = 60;
  const note = () => randomBytes(750_000).toString('base64');
  const large = { job: 'large', memoryMb: 115, rowsTogether: 8 };
  for (const [name, write] of [
    ['first', { type: 'fill' }],
    ['second', { type: 'merge', absent: 'keep', isReload: false }],
  ] as const) {
    const path = await fileOf(
      name,
      Array.from({ length: rows }, (_, id) => upsert(id, note())),
    );
    expect(await loadRows(large, { path, rows, write })).toMatchObject({ rows });
  }
});

it.each([
  ['keep', false, false],
  ['keep', false, true],
  ['delete', true, false],
  ['mark', true, false],
] as const)(
  'a merge of large rows ends as one of small rows; absent rows: %s, reload: %s, with a column of others: %s',
  async (absent, isReload, hasOther) => {
    const jobs = [undefined, 8].map((rowsTogether) => ({ job: `${absent}-${hasOther}-${rowsTogether}`, rowsTogether }));
    const first = await fileOf(
      'before',
      [1, 2, 3, 4].map((id) => upsert(id, `old ${id}`)),
    );
    const changes: StagedRow[] = [upsert(2, 'new'), upsert(3, 'old 3'), upsert(5, 'more')];
    if (!isReload) changes.push({ _op: 'delete', id: 'p4', note: '' }, { _op: 'delete', id: 'p9', note: '' });
    const second = await fileOf('after', changes);
    const ends: unknown[] = [];
    for (const context of jobs) {
      await loadRows(context, { path: first, rows: 4, write: { type: 'fill' } });
      if (hasOther) {
        const instance = await openInstance(join(folder, `${context.job}.duckdb`));
        const connection = await instance.connect();
        await connection.run("ALTER TABLE rows ADD COLUMN remark VARCHAR DEFAULT 'mine'");
        connection.closeSync();
        instance.closeSync();
      }
      const write = { type: 'merge', absent, isReload } as const;
      const { rows } = await loadRows(context, { path: second, rows: changes.length, write });
      ends.push({ rows, table: await tableOf(context.job) });
    }
    expect(ends[1]).toEqual(ends[0]);
    expect(ends[0]).toMatchObject({ rows: 3 });
  },
);

it('adds rows to a table of 600 columns, whose row groups would not fit in memory together', async () => {
  const names = Array.from({ length: 600 }, (_, n) => `c${n}`);
  const rows = (count: number) =>
    `SELECT ${names.map((name) => `'${name} ' || i AS ${name}`).join(', ')} FROM range(${count}) AS r(i)`;
  const settings = { memory_limit: '500MB', threads: '1', temp_directory: '' };
  const within = async (work: (session: DuckdbSession) => Promise<unknown>) => {
    const connected = await connectDuckdb({ path: join(folder, 'wide.duckdb'), settings });
    await work(new DuckdbSession(connected, (cause) => cause as Error));
    connected.connection.closeSync();
    connected.instance.closeSync();
  };
  const path = join(folder, 'wide.parquet');
  await within((session) => session.run(`CREATE TABLE wide AS ${rows(50)}`));
  await within(async (session) => {
    await session.run(`COPY (${rows(5)}) TO '${path}'`);
    const files = async function* () {
      yield { path };
    };
    await session.begin();
    await session.run("DELETE FROM wide WHERE c0 = 'c0 3'");
    await session.fill('wide', { columns: names.map((name) => ({ name })), files } as unknown as LoadData);
    await session.commit();
    await session.run('CHECKPOINT');
    expect(await session.run('SELECT count(*) FROM wide')).toBe(54);
  });
});
