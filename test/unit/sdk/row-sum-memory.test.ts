import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { expect, it } from 'vitest';
import { hashOf } from '../../../connectors/mysql/dialect.js';
import { duckdbHashing, rowNumber } from '../../../src/sdk/index.js';
import { duckdbSession } from '../../fixtures/duckdb-session.js';

/** Runs the statement of its first argument, and prints the most memory of the process in kB. */
const program = `
  const { DuckDBInstance } = require('@duckdb/node-api');
  DuckDBInstance.create(':memory:', { threads: '1' })
    .then((instance) => instance.connect())
    .then((connection) => connection.runAndReadAll(process.argv[1]))
    .then(() => console.log(process.resourceUsage().maxRSS));
`;

it('rows of 400 texts are summed without the memory of every text before each', () => {
  const texts = Array.from({ length: 400 }, (_, n) => `c${n}`);
  const columns = texts.map((name, n) => `repeat('x', 100) || (range + ${n}) AS ${name}`);
  const sum = duckdbHashing().sum(rowNumber(duckdbHashing(), texts));
  const query = `SELECT ${sum} FROM (SELECT ${columns.join(', ')} FROM range(2048))`;
  const { stdout, stderr } = spawnSync(process.execPath, ['-e', program, query], { encoding: 'utf8' });
  expect(stderr).toBe('');
  // The texts have 90 MB. With `||` between them it takes three gigabytes.
  expect(Number(stdout)).toBeLessThan(700_000);
});

it('and the sum is that of the texts one after the other', async () => {
  const session = await duckdbSession();
  const [row] = await session.rows(
    `SELECT ${rowNumber(duckdbHashing(), ['a', 'b'])} AS sum, ('0x' || substr(md5('é' || chr(31) || chr(30)), 1, 15))::BIGINT AS wanted
     FROM (SELECT 'é' AS a, NULL::VARCHAR AS b)`,
  );
  expect(row?.sum).toBe(row?.wanted);
});

it('a server that lacks md5 is compared by sha256, on both sides', async () => {
  const { digest, hash } = hashOf('utf8mb4_0900_bin');
  expect([digest, hash('x')]).toEqual(['sha256', 'sha2(x, 256)']);
  expect(hashOf('utf8mb4_nopad_bin').hash('x')).toBe('md5(x)');
  const session = await duckdbSession();
  const [row] = await session.rows(
    `SELECT ${rowNumber(duckdbHashing(digest), ['a', 'b'])}::VARCHAR AS sum FROM (SELECT 'é' AS a, NULL::VARCHAR AS b)`,
  );
  const hex = createHash('sha256').update('é\x1f\x1e').digest('hex');
  expect(row?.sum).toBe(String(BigInt(`0x${hex.slice(0, 15)}`)));
});
