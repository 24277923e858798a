import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DuckDBInstance } from '@duckdb/node-api';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { fileText, fileTexts, sqlText } from '../../../src/core/sql.js';

let root: string;
beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), 'sql-'));
});
afterAll(() => rm(root, { recursive: true }));

test.each([
  ['data*', 'data of others'],
  ['data[s]', 'datas'],
  ['what?', 'whats'],
  ["it's [", 'its'],
])('a file in a folder called %s is read alone, and no other that the name would match', async (name, other) => {
  const instance = await DuckDBInstance.create(':memory:');
  const connection = await instance.connect();
  try {
    const paths = [name, other].map((folder) => join(root, folder, 'rows.parquet'));
    for (const [index, path] of paths.entries()) {
      await mkdir(join(path, '..'), { recursive: true });
      await connection.run(`COPY (SELECT ${index} AS n) TO ${sqlText(path)} (FORMAT parquet)`);
    }
    const [own = ''] = paths;
    for (const files of [fileText(own), fileTexts([own])]) {
      const reader = await connection.runAndReadAll(`SELECT n FROM read_parquet(${files})`);
      expect(reader.getRows()).toEqual([[0]]);
    }
  } finally {
    connection.closeSync();
    instance.closeSync();
  }
});
