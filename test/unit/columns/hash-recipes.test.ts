import { execFileSync } from 'node:child_process';
import { createHmac } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { DuckDBInstance } from '@duckdb/node-api';
import { expect, it } from 'vitest';

const salt = 'sixteen bytes at least, also ü';
const emails = ['Ann@Example.com ', 'bo@example.com', 'Zoë@exämple.com'];
const normalized = emails.map((email) => email.trim().toLowerCase());
const expected = normalized.map((email) => createHmac('sha256', salt).update(email).digest('hex'));

/** The first block of the page in a language that has the function. */
async function recipe(language: string): Promise<string> {
  const page = await readFile('docs/columns.md', 'utf8');
  const blocks = [...page.matchAll(/^```(\w+)\n(.*?)^```$/gms)];
  return blocks.find(([, of, text]) => of === language && text?.includes('cdsync_hash'))?.[2] ?? '';
}

it('the recipe of the page for DuckDB makes the hashes of cdsync, and joins by them', async () => {
  const instance = await DuckDBInstance.create();
  const connection = await instance.connect();
  const texts = (all: readonly string[]) => all.map((each) => `('${each}')`).join(', ');
  await connection.run(`CREATE TABLE mine AS FROM (VALUES ${texts(emails)}) AS v(email)`);
  await connection.run(`CREATE TABLE members AS FROM (VALUES ${texts([...expected, 'other'])}) AS v(email)`);
  // Only the command line has getenv().
  const found = await connection.runAndReadAll((await recipe('sql')).replace("getenv('PII_SALT')", `'${salt}'`));
  expect(found.getRows().flat().sort()).toEqual([...expected].sort());
  connection.closeSync();
});

it('the recipe of the page for Python makes the hashes of cdsync', async () => {
  const call = 'import sys\nfor value in sys.argv[2:]: print(cdsync_hash(sys.argv[1], value))\n';
  const printed = execFileSync('python3', ['-c', `${await recipe('python')}\n${call}`, salt, ...normalized]);
  expect(printed.toString().trim().split('\n')).toEqual(expected);
});
