import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { Workspace } from '../fixtures/workspace.js';

const long = '1234567890.12345678901234567890';

/** SQL of a value of a query, and its text where a destination has no such type. */
const values: Readonly<Record<string, readonly [sql: string, text: string]>> = {
  json_list: [`['${long}', '[1.50 , "a  b"]']::JSON[]`, `[${long},[1.50,"a  b"]]`],
  json_struct: [`{'j': '${long}'::JSON, 't': '${long}'}`, `{"j":${long},"t":"${long}"}`],
  map: [`MAP {'m': '${long}'::JSON}`, `{m=${long}}`],
  map_list: ["[MAP {'a': 1}]", '["{a=1}"]'],
  map_struct: ["{'m': MAP {'k': 1.50}}", '{"m":"{k=1.50}"}'],
  decimals: [`[${long}::DECIMAL(38,20)]`, `[${long}]`],
  hugeint: ["{'h': 170141183460469231731687303715884105727::HUGEINT % 100000}", '{"h":5727}'],
  array: ['[1, 2]::INT[2]', '[1,2]'],
  union: ['union_value(n := 5)', '5'],
  variant: ["['a']::VARIANT", '["a"]'],
  float: ['0.1::FLOAT', '0.10000000149011612'],
  time: ["{'t': TIME '10:00:00', 'b': '\\x00'::BLOB}", '{"t":"10:00:00","b":"\\\\x00"}'],
};
const names = Object.keys(values);

let space: Workspace;
beforeAll(async () => {
  space = await Workspace.open({ profiles: 10 });
});
afterAll(() => space.close());

it('each value of a query arrives digit for digit in files and tables, whatever type of DuckDB it has', async () => {
  const query = (version: string) =>
    `select 1 as k, ${names.map((name) => `${values[name]?.[0].replaceAll(long, version)} as ${name}`).join(', ')} from (select count(*) from indexes)`;
  const place = (name: string) => join(space.folder, 'out', name);
  const common = { connector: 'files', mode: 'mirror' };
  const destinations = [
    ...['jsonl', 'csv', 'parquet'].map((format) => ({ ...common, name: format, format, path: place(format) })),
    { name: 'duckdb', connector: 'duckdb', path: place('duckdb.duckdb'), mode: 'mirror' },
  ];
  const run = async (version: string) => {
    const sql = { name: 'q', source: 'sql', key: ['k'], query: query(version) };
    await space.configure('types', [{ name: 'indexes', source: 'indexes' }, sql], { job: { destinations } });
    await space.runWell('types', ['--accept']);
  };
  await run(long);
  // A digit that no double has is a change too.
  const next = `${long.slice(0, -2)}99`;
  await run(next);
  const rows = await space.query(
    'types',
    `select json from read_ndjson_objects('${place('jsonl')}/q/data/*/*.jsonl', filename = true) order by filename desc limit 1`,
  );
  const texts = rows.map(({ json }) => String(json));
  expect(texts).toHaveLength(1);
  for (const name of names) {
    const text = values[name]?.[1].replaceAll(long, next) ?? '';
    const shown = /^[[{"]/.test(text) && !text.startsWith('{m=') ? text : JSON.stringify(text);
    expect(texts[0], name).toContain(`"${name}":${name === 'float' ? text : shown}`);
  }
});
