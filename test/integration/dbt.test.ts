import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { DuckDBInstance } from '@duckdb/node-api';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { Workspace } from '../fixtures/workspace.js';

interface Column {
  readonly name: string;
  readonly data_type: string;
  readonly description?: string;
  readonly data_tests?: readonly string[];
  readonly quote?: boolean;
}
interface Table {
  readonly name: string;
  readonly description: string;
  readonly loaded_at_field?: string;
  readonly loaded_at_query?: string;
  readonly freshness?: Readonly<Record<string, { count: number; period: string }>>;
  readonly columns: readonly Column[];
}
interface Sources {
  readonly version: number;
  readonly sources: readonly { name: string; database: string; schema: string; tables: readonly Table[] }[];
}

let space: Workspace;
let sources: Sources;
let text: string;
beforeAll(async () => {
  space = await Workspace.open({ profiles: 300 });
  await space.configure('job', [
    {
      name: 'members',
      source: 'index_profiles',
      index: 'loyalty_members',
      columns: { email: { rename: 'E mail' }, phone: { mask: 'last4' } },
    },
    { name: 'vip', source: 'segment_members', segment: 'seg-vip' },
    {
      name: 'pairs',
      source: 'sql',
      key: ['tier', 'country'],
      query: 'select distinct tier, country from members where country is not null',
    },
    { name: 'no_rows', source: 'sql', key: ['id'], query: 'select id from members where false' },
  ]);
  await space.runWell('job');
  const { code, stdout, stderr } = await space.cdsync(['schema', 'job.json', '--dbt']);
  expect([code, stderr]).toEqual([0, '']);
  text = stdout;
  sources = parse(text) as Sources;
}, 600_000);
afterAll(() => space.close());

function tableOf(name: string, source = 'job'): Table {
  const found = sources.sources.find((each) => each.name === source)?.tables.find((table) => table.name === name);
  if (found === undefined) throw new Error(`there is no table ${name} in source ${source}`);
  return found;
}

const columnOf = (table: string, name: string) => tableOf(table).columns.find((column) => column.name === name);

describe('cdsync schema --dbt', () => {
  it('has the properties that dbt documents, and no others', () => {
    expect([sources.version, sources.sources.map(({ name }) => name)]).toEqual([2, ['job', 'job_cdsync']]);
    const known = {
      source: ['name', 'description', 'database', 'schema', 'tables'],
      table: ['name', 'description', 'loaded_at_field', 'loaded_at_query', 'freshness', 'columns'],
      column: ['name', 'description', 'data_type', 'quote', 'data_tests'],
    };
    const unknown = (what: keyof typeof known, of: object) =>
      Object.keys(of).filter((key) => !known[what].includes(key));
    for (const source of sources.sources) {
      expect(unknown('source', source)).toEqual([]);
      for (const table of source.tables) {
        expect([unknown('table', table), table.columns.flatMap((column) => unknown('column', column))]).toEqual([
          [],
          [],
        ]);
        for (const { count, period } of Object.values(table.freshness ?? {}))
          expect([count > 0, ['minute', 'hour', 'day'].includes(period)]).toEqual([true, true]);
      }
    }
  });

  it('has every table of a stream, with freshness, and tests of its key', () => {
    const names = sources.sources[0]?.tables.map(({ name }) => name);
    for (const stream of ['members', 'vip', 'pairs'])
      expect(names).toEqual(
        expect.arrayContaining([stream, `${stream}__changes`, `${stream}__history`, `${stream}__last_changes`]),
      );
    expect(tableOf('members').freshness).toMatchObject({ warn_after: { count: 36, period: 'hour' } });
    expect(columnOf('members', 'id')?.data_tests).toEqual(['unique', 'not_null']);
    expect(columnOf('pairs', 'tier')?.data_tests).toEqual(['not_null']);
    expect(columnOf('members__changes', 'id')?.data_tests).toBeUndefined();
    expect(tableOf('freshness', 'job_cdsync').loaded_at_field).toBe('checked_at');
  });

  it('describes the path that a column is read from, and the date since which it exists', () => {
    const today = new Date().toISOString().slice(0, 4);
    expect(columnOf('members', 'tier')?.description).toMatch(new RegExp(`tier.*${today}`));
    expect(columnOf('members__history', 'tier')?.description).toMatch(/tier/);
    expect(columnOf('members', 'E mail')).toMatchObject({ quote: true, data_type: 'VARCHAR' });
    expect(columnOf('members__changes', 'phone')?.description).toMatch(/masked: last4/);
    expect(columnOf('members__changes', '_op')?.description).toMatch(/insert/);
  });

  it('names only columns that exist: each can be read from the database that the output names', async () => {
    const instance = await DuckDBInstance.create(':memory:');
    const connection = await instance.connect();
    await connection.run(`ATTACH '${join(space.jobFolder('job'), 'job.duckdb')}' AS job (READ_ONLY)`);
    for (const { database, schema, tables } of sources.sources) {
      for (const { name, columns } of tables) {
        const list = columns.map((column) => `"${column.name}"`).join(', ');
        const reader = await connection.runAndReadAll(
          `SELECT ${list} FROM "${database}"."${schema}"."${name}" LIMIT 0`,
        );
        // One of the two quotes every name within a type.
        const unquoted = (types: readonly string[]) => types.map((type) => type.replaceAll('"', ''));
        const notices = unquoted(columns.map(({ data_type }) => data_type));
        expect([name, unquoted(reader.columnTypes().map(String))]).toEqual([name, notices]);
      }
    }
    connection.closeSync();
    instance.closeSync();
  });

  it.each([
    ['vip', 'quiet or not'],
    ['no_rows', 'without rows'],
  ])('checks the freshness of a stream by the runs that read it, not by its rows: %s, %s', async (stream) => {
    const [moments] = await space.query(
      'job',
      `select checked_at as at from cdsync.freshness where stream = '${stream}'`,
    );
    const instance = await DuckDBInstance.create(':memory:');
    const connection = await instance.connect();
    await connection.run(`ATTACH '${join(space.jobFolder('job'), 'job.duckdb')}' AS job (READ_ONLY)`);
    // As dbt asks.
    const asked = await connection.runAndReadAll(`SELECT (${tableOf(stream).loaded_at_query}) AS at`);
    expect(asked.getRowObjectsJson()).toEqual([moments]);
    connection.closeSync();
    instance.closeSync();
  });

  it('has no value of a person', async () => {
    const rows = await space.query('job', 'select id, "E mail" as email, first_name, city from members limit 50');
    const values = rows.flatMap((row) => Object.values(row)).filter((value) => String(value ?? '').length > 5);
    expect(values.length).toBeGreaterThan(50);
    expect(values.filter((value) => text.includes(String(value)))).toEqual([]);
  });

  it('is attached as docs/snapshots.md shows', async () => {
    const page = await readFile(join(import.meta.dirname, '..', '..', 'docs', 'snapshots.md'), 'utf8');
    const [, profiles = ''] = /```yaml profiles\.yml\n([\s\S]*?)```/.exec(page) ?? [];
    expect(parse(profiles).cdp.outputs.dev.attach).toMatchObject([{ alias: 'quickstart', read_only: true }]);
    expect(page).toContain("source('quickstart', 'members')");
  });

  it('asks for a configuration only where it needs one', async () => {
    expect((await space.cdsync(['schema', 'job.json'])).code).toBe(2);
    const none = await space.cdsync(['schema', 'none.yaml', '--dbt']);
    expect([none.code, /config_not_found/.test(none.stderr)]).toEqual([2, true]);
  });
});
