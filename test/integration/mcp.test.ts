import { readFileSync } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Client } from '@modelcontextprotocol/sdk/client/index.js';
import type { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { limits } from '../../src/mcp/bounded-answer.js';
import { connectMcp } from '../fixtures/mcp-client.js';
import { ended, Workspace } from '../fixtures/workspace.js';

const secretText = 'not-a-number-canary@example.test';

let space: Workspace;
const clients: (() => Promise<void>)[] = [];
/** Text on standard output that was not of the protocol. */
const strayOutput: Error[] = [];

async function connect(words: readonly string[] = [], command = ['mcp', 'job.json']): Promise<Client> {
  const client = await connectMcp(space, [...command, ...words]);
  client.onerror = (error) => strayOutput.push(error);
  clients.push(() => client.close());
  return client;
}

/** The text of a result, and whether it is an error. Each must be within the limits. */
async function ask(client: Client, name: string, parameters: Record<string, unknown> = {}) {
  const { content, isError = false } = await client.callTool({ name, arguments: parameters });
  const [{ text = '' } = {}, ...others] = content as { type: string; text?: string }[];
  expect(others).toEqual([]);
  expect(Buffer.byteLength(JSON.stringify(text))).toBeLessThanOrEqual(limits.bytes + 100);
  return { text, isError: isError === true };
}

async function resultOf(client: Client, name: string, parameters: Record<string, unknown> = {}) {
  const { text, isError } = await ask(client, name, parameters);
  expect([isError, text]).toEqual([false, text]);
  return JSON.parse(text);
}

const people = (version: number) =>
  Array.from({ length: 50 }, (_, n) => ({
    id: `p-${n}`,
    index_id: 'made',
    attributes: {
      tier: n < 10 * version ? 'gold' : 'silver',
      text: n === 49 ? secretText : String(n),
      long: n === 0 ? 'x'.repeat(2_000_000) : 'short',
    },
  })).filter(({ id }) => version < 2 || id !== 'p-20');

const serve = async (version: number) => {
  const records = people(version).map((record) => JSON.stringify(record));
  await space.control('profiles', { index: 'made', records });
};

beforeAll(async () => {
  space = await Workspace.open({ profiles: 10 });
  const made = { name: 'made', source: 'index_profiles', index: 'made' };
  const pairs = { name: 'pairs', source: 'sql', key: ['tier', 'id'], query: 'select tier, id from made' };
  await space.configure('job', [made, pairs], { job: { guards: { max_changed: 'off', max_deleted: 'off' } } });
  for (const version of [0, 1, 2]) {
    await serve(version);
    await space.runWell('job');
  }
});
afterAll(async () => {
  for (const close of clients) await close();
  await space.close();
  expect(strayOutput).toEqual([]);
});

describe('cdsync mcp without --show-values', () => {
  it('has four tools that read, and none that returns values', async () => {
    const client = await connect();
    const { tools } = await client.listTools();
    expect(tools.map(({ name }) => name)).toEqual(['status', 'streams', 'changes', 'freshness']);
    for (const { annotations, inputSchema } of tools)
      expect([annotations?.readOnlyHint, inputSchema.additionalProperties]).toEqual([true, false]);
    expect((await ask(client, 'query', { sql: 'select 1' })).text).toMatch(/there is no such tool/);
    for (const name of ['status', 'streams', 'freshness']) {
      const { text, isError } = await ask(client, name);
      expect(isError).toBe(false);
      for (const value of [secretText, 'silver', 'p-1']) expect(text).not.toContain(value);
    }
  });

  it('names streams with their columns, and when each was read', async () => {
    const client = await connect();
    const streams = await resultOf(client, 'streams');
    expect(streams.map(({ stream, rows }: { stream: string; rows: number }) => [stream, rows])).toEqual([
      ['made', 49],
      ['pairs', 49],
    ]);
    expect(streams[0].columns).toContainEqual(expect.objectContaining({ name: 'tier', type: 'VARCHAR' }));
    expect(Date.parse(streams[0].kept_from)).toBeGreaterThan(0);
    const fresh = await resultOf(client, 'freshness');
    expect(fresh.map(({ stream }: { stream: string }) => stream)).toEqual(['made', 'pairs']);
    const { job, runs } = await resultOf(client, 'status');
    expect([job, runs.length, runs[0].status]).toEqual(['job', 3, 'ok']);
  });

  it('counts changes by day and column, as the rows themselves show', async () => {
    const client = await connect();
    const { days } = await resultOf(client, 'changes', { stream: 'made' });
    const [operations] = await space.query(
      'job',
      `SELECT count(*) FILTER (_op = 'insert') AS inserted, count(*) FILTER (_op = 'update') AS updated,
         count(*) FILTER (_op = 'delete') AS deleted FROM made__changes`,
    );
    const sum = (of: string) => days.reduce((total: number, day: Record<string, number>) => total + (day[of] ?? 0), 0);
    expect([sum('inserted'), sum('updated'), sum('deleted')].map(String)).toEqual([
      operations?.inserted,
      operations?.updated,
      operations?.deleted,
    ]);
    // Ten rows became gold in the second run, ten more in the third; the row p-20 was deleted.
    const tier = days.reduce(
      (total: number, day: { columns: Record<string, number> }) => total + (day.columns.tier ?? 0),
      0,
    );
    expect([tier, sum('deleted')]).toEqual([20, 1]);
    expect(days.flatMap((day: { columns: object }) => Object.keys(day.columns))).not.toContain('long');
    expect((await resultOf(client, 'changes', { stream: 'pairs' })).days.length).toBeGreaterThan(0);
    expect(await ask(client, 'changes', { stream: 'mad' })).toMatchObject({
      isError: true,
      text: expect.stringMatching(/^stream_not_found: .*made/s),
    });
    expect((await ask(client, 'changes', {})).text).toMatch(/^usage: .*changes takes: stream/s);
    expect((await ask(client, 'status', { of: 1 })).isError).toBe(true);
  });
});

describe('cdsync mcp --show-values', () => {
  it('returns the rows of a query exactly, in valid JSON', async () => {
    const client = await connect(['--show-values']);
    const sql = `SELECT 170141183460469231731687303715884105727::HUGEINT AS huge, 0.10::DECIMAL(38,2) AS tenth, 'nan'::DOUBLE AS nan,
      TIMESTAMPTZ '2026-01-02 03:04:05.123456+00' AS at, '\\xAA'::BLOB AS bytes, 9007199254740993 AS big, NULL AS nothing, [1, 2] AS list`;
    const { columns, rows, ended_early } = await resultOf(client, 'query', { sql });
    expect(columns.map(({ type }: { type: string }) => type)).toContain('HUGEINT');
    expect(rows).toEqual([
      [
        '170141183460469231731687303715884105727',
        '0.10',
        'NaN',
        '2026-01-02 03:04:05.123456+00',
        '\\xAA',
        '9007199254740993',
        null,
        [1, 2],
      ],
    ]);
    expect(ended_early).toBeNull();
  });

  it('bounds rows, bytes and cells, and says so', async () => {
    const client = await connect(['--show-values']);
    const many = await resultOf(client, 'query', { sql: 'from range(10000)' });
    expect([many.rows.length, many.ended_early]).toEqual([limits.rows, expect.stringMatching(/200 rows at most/)]);
    const cell = await resultOf(client, 'query', { sql: `select id, long from made where id = 'p-0'` });
    expect([cell.cut, cell.rows[0][1]]).toEqual([['long'], expect.stringMatching(/^x{4000}… \(2000000 characters\)$/)]);
    const wide = await resultOf(client, 'query', { sql: `select repeat('"', 3900) as quotes from range(100)` });
    expect(wide.rows.length).toBeGreaterThan(5);
    expect(wide.ended_early).toMatch(/256 KiB at most/);
  });

  it('has long values cut before they are here, so that ten calls at once stay within the memory', async () => {
    const client = await connect(['--show-values']);
    const { pid } = client.transport as StdioClientTransport;
    const sql = `select range as n, repeat('x', 2000000) as long, repeat('y', 2000000)::blob as bytes from range(2048)`;
    const results = await Promise.all(Array.from({ length: 10 }, () => resultOf(client, 'query', { sql })));
    // Different values, which DuckDB must have as a whole to cut them, are refused.
    const different = `select repeat(chr((65 + range % 26)::int), 2000000) as long from range(2048)`;
    const refused = await Promise.all(Array.from({ length: 3 }, () => ask(client, 'query', { sql: different })));
    for (const { isError, text } of refused)
      expect([isError, text]).toEqual([
        true,
        expect.stringMatching(/^(memory_exceeded|sql_failed: the query took longer)/),
      ]);
    const [, peakKb] = /VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? [];
    for (const { rows, cut, ended_early } of results) {
      expect([rows[0], cut]).toEqual([
        [0, `${'x'.repeat(4000)}… (2000000 characters)`, `${'y'.repeat(4000)}… (2000000 characters)`],
        ['long', 'bytes'],
      ]);
      expect(ended_early).toMatch(/256 KiB at most/);
    }
    // Whole values of one call alone have 8 GB.
    expect(Number(peakKb) / 1024).toBeLessThan(1000);
  }, 120_000);

  it('has columns of one name and many columns, in the order of the query', async () => {
    const client = await connect(['--show-values']);
    const { columns, rows } = await resultOf(client, 'query', {
      sql: 'select n as a, -n as a, [n, NULL] as list from range(300) r(n) order by n desc; -- the last',
    });
    expect(columns.map(({ name }: { name: string }) => name)).toEqual(['a', 'a:1', 'list']);
    expect([rows.length, rows[0], rows[199]]).toEqual([200, [299, -299, [299, null]], [100, -100, [100, null]]]);
    const many = Array.from({ length: 1000 }, (_, n) => `repeat('x', 5000) as c${n}`).join(', ');
    const wide = await resultOf(client, 'query', {
      sql: `select ${many.slice(0, 19_000).replace(/, [^,]*,[^,]*$/, '')}`,
    });
    expect([wide.rows.length, wide.cut.length]).toEqual([1, wide.columns.length]);
    const structs = await resultOf(client, 'query', {
      sql: `select {'a': 1, 'b': repeat('x', 5000)} as s, {'c': 2} as t`,
    });
    expect([structs.cut, structs.rows[0][1]]).toEqual([['s'], { c: 2 }]);
    const [[explained]] = (await resultOf(client, 'query', { sql: 'explain select 1' })).rows;
    expect(explained).toBe('physical_plan');
    expect((await ask(client, 'query', { sql: 'select 1) as x, (select 2' })).text).toMatch(/syntax error/);
  });

  it('gives errors that are bounded and have no stored value', async () => {
    const client = await connect(['--show-values']);
    const cast = await ask(client, 'query', { sql: 'select text::INTEGER from made' });
    expect(cast.isError).toBe(true);
    expect(cast.text).not.toContain('canary');
    // Nothing of the query around it, and no advice for a command line.
    expect(cast.text).toBe(
      'sql_failed: DuckDB refused the query (Conversion Error; its message may quote records)\nthe tables: see the tool streams',
    );
    const refused = await ask(client, 'query', { sql: 'load httpfs' });
    expect(refused.text).toMatch(/^sql_not_allowed: .*\nthe published tables stay read-only$/s);
    const unknown = await ask(client, 'query', { sql: 'select txt from made' });
    expect(unknown.text).toMatch(/"txt" not found.*LINE 1: select txt from made\n +\^/s);
    const long = await ask(client, 'query', { sql: `select ${'x'.repeat(15_000)}` });
    expect([long.isError, long.text.length < limits.errorCharacters + 50]).toEqual([true, true]);
    const late = await ask(client, 'query', { sql: 'select count(*) from range(100000000) a, range(100000000) b' });
    expect(late).toMatchObject({ isError: true, text: expect.stringMatching(/longer than 10 s/) });
  }, 60_000);

  it('refuses what reads or changes anything but the published tables', async () => {
    const client = await connect(['--show-values']);
    const file = join(space.folder, 'job.json');
    const hostile = [
      `select * from read_text('${file}')`,
      `select * from read_csv('${file}')`,
      `from '${file}'`,
      `select * from glob('/etc/*')`,
      `copy made to '${space.folder}/out.csv'`,
      `export database '${space.folder}/out'`,
      `attach '${space.folder}/other.duckdb' as other`,
      'install httpfs',
      'load httpfs',
      `select getenv('HOME')`,
      'set enable_external_access = true',
      'reset lock_configuration',
      `set memory_limit = '100GB'`,
      'pragma enable_profiling',
      'drop table made',
      'delete from made',
      'update made set tier = null',
      'insert into made select * from made',
      'create table mine as select 1',
      'alter table made add column x int',
      'checkpoint',
      'force checkpoint',
      'vacuum',
      'begin; delete from made; commit',
      'call pragma_version(); drop table made',
      `create macro read_text(x) as 1; select * from "read_text"('${file}')`,
      `select * from query('select * from read_text(''${file}'')')`,
      `prepare p as select * from read_text('${file}')`,
      'use memory',
      `select * from 'https://127.0.0.1:1/x.parquet'`,
      `select * from read_parquet('s3://bucket/x')`,
      `select * from sniff_csv('${file}')`,
      `select content from read_blob('${file}')`,
      `create secret s (type s3)`,
      `select * from duckdb_secrets()`,
      `create view v as select * from read_text('${file}'); from v`,
      `select * from parquet_scan('${file}')`,
      `select write_log('x')`,
      `import database '${space.folder}'`,
      `select nextval('s')`,
      `select * from pragma_last_profiling_output()`,
    ];
    expect(hostile.length).toBeGreaterThanOrEqual(40);
    const accepted: string[] = [];
    for (const sql of hostile) {
      const { text, isError } = await ask(client, 'query', { sql });
      if (!isError) accepted.push(sql);
      expect(text).not.toContain('CDS_TOKEN');
    }
    expect(accepted).toEqual([]);
    expect((await resultOf(client, 'query', { sql: 'select count(*) from made' })).rows).toEqual([[49]]);
  });

  it('responds to ten calls at once, and sees the next snapshot of a run that is under way', async () => {
    const client = await connect(['--show-values']);
    const counts = () =>
      Promise.all(Array.from({ length: 10 }, () => resultOf(client, 'query', { sql: 'select count(*) from made' })));
    for (const { rows } of await counts()) expect(rows).toEqual([[49]]);
    await serve(1);
    const [run, during] = await Promise.all([space.runWell('job'), counts()]);
    expect(run.status).toBe('ok');
    for (const { rows } of during) expect([49, 50]).toContain(rows[0][0]);
    expect((await resultOf(client, 'query', { sql: 'select count(*) from made' })).rows).toEqual([[50]]);
  });
});

it('reports what helps a query of large texts that do not fit in memory, and that helps', async () => {
  const records = Array.from({ length: 40 }, (_, n) =>
    JSON.stringify({ id: `w-${n}`, index_id: 'wide', attributes: { n, long: String(n).repeat(1_500_000) } }),
  );
  await space.control('profiles', { index: 'wide', records });
  await space.configure('wide', [{ name: 'wide', source: 'index_profiles', index: 'wide' }]);
  await space.runWell('wide');
  const config = JSON.parse(await readFile(join(space.folder, 'wide.json'), 'utf8'));
  await writeFile(join(space.folder, 'little.json'), JSON.stringify({ ...config, resources: { memory_mb: 200 } }));
  const client = await connect(['--show-values'], ['mcp', 'little.json']);
  const { isError, text } = await ask(client, 'query', { sql: 'select n, long from wide limit 3' });
  expect([isError, text]).toEqual([true, expect.stringMatching(/^memory_exceeded: .*EXCLUDE.*rowid/s)]);
  const few = 'select n, length(long) from wide where rowid between 15 and 16';
  expect((await resultOf(client, 'query', { sql: few })).rows).toEqual([
    [15, 3_000_000],
    [16, 3_000_000],
  ]);
  expect((await resultOf(client, 'query', { sql: 'select * exclude (long) from wide limit 3' })).rows.length).toBe(3);
}, 60_000);

it('ends when the client closes its input, with nothing but the protocol on standard output', async () => {
  const child = space.spawn(['mcp', 'job.json', '--show-values'], {}, { stdin: 'pipe' });
  const lines = [
    {
      jsonrpc: '2.0',
      id: 1,
      method: 'initialize',
      params: { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 't', version: '1' } },
    },
    { jsonrpc: '2.0', method: 'notifications/initialized' },
    { jsonrpc: '2.0', id: 2, method: 'tools/call', params: { name: 'freshness', arguments: {} } },
  ];
  const result = ended(child);
  for (const line of lines) child.stdin?.write(`${JSON.stringify(line)}\n`);
  child.stdin?.write('no json\n');
  await new Promise<void>((resolve) => {
    let out = '';
    child.stdout?.on('data', (chunk) => {
      out += chunk;
      if (out.includes('"id":2')) resolve();
    });
  });
  child.stdin?.end();
  const { code, stdout } = await result;
  const ids = stdout
    .trim()
    .split('\n')
    .map((line) => (JSON.parse(line) as { jsonrpc: string; id: number }).id);
  expect([code, ids]).toEqual([0, [1, 2]]);
});

it('is started by the configurations of clients that the page has', async () => {
  const page = await readFile(join(import.meta.dirname, '..', '..', 'docs', 'analysts.md'), 'utf8');
  const blocks = [...page.matchAll(/```json\n([^`]*)```/g)].map(([, text = '']) => JSON.parse(text));
  // Visual Studio Code reads `servers`; Cursor and Claude Desktop read `mcpServers`.
  expect(blocks.map((block) => Object.keys(block))).toEqual([['servers'], ['mcpServers']]);
  for (const block of blocks) {
    const [server] = Object.values(Object.values(block)[0] as Record<string, { command: string; args: string[] }>);
    const { command, args, ...others } = server ?? { command: '', args: [] };
    expect([command, args.length, others]).toEqual(['cdsync', 2, {}]);
    const client = await connect([], [args[0] as string, 'job.json']);
    expect((await client.listTools()).tools.length).toBe(4);
  }
});

it('reports a configuration that is missing', async () => {
  await space.configure('empty', [{ name: 'made', source: 'index_profiles', index: 'made' }]);
  const { code, stderr, stdout } = await space.cdsync(['mcp', 'absent.json']);
  expect([code, stdout]).toEqual([2, '']);
  expect(stderr).toMatch(/absent\.json/);
});
