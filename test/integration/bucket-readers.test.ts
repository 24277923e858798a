import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { DuckDBInstance } from '@duckdb/node-api';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { duckdbExtensions } from '../fixtures/duckdb-extensions.js';
import { bucketName, Machines } from '../fixtures/machines.js';
import { ObjectStore } from '../fixtures/object-store.js';
import { Versitygw } from '../fixtures/versitygw.js';
import { Workspace } from '../fixtures/workspace.js';

const python = join(
  process.env.XDG_CACHE_HOME ?? join(homedir(), '.cache'),
  'cdsync-test',
  'iceberg-readers',
  'bin',
  'python',
);

let space: Workspace;
let server: Versitygw | undefined;
let store: ObjectStore | undefined;
let machines: Machines;
let endpoint = '';
let page = '';
let rows = 0;

beforeAll(async () => {
  page = await readFile(join(import.meta.dirname, '..', '..', 'docs', 'object-storage.md'), 'utf8');
  space = await Workspace.open({ profiles: 3000 });
  server = await Versitygw.open(bucketName);
  if (server === undefined) {
    store = await ObjectStore.open();
    await store.createBucket(bucketName);
  }
  const login = server?.login ?? Machines.login(store as ObjectStore);
  endpoint = String(login.endpoint);
  machines = new Machines(space, login, {
    streams: [{ name: 'members', source: 'index_profiles', index: 'loyalty_members' }],
    guards: { max_deleted: '100%', max_changed: '1000%' },
  });
  await machines.add('a');
  await machines.runWell('a');
  await space.control('change', { days: 1 });
  const { streams } = await machines.runWell('a');
  rows = streams[0]?.rows ?? 0;
}, 120_000);
afterAll(async () => {
  await server?.close();
  await store?.close();
  await space.close();
});

/** The code of the documents in a language. */
function snippet(language: string, having: string): string {
  const found = [...page.matchAll(/```(\w+)\n([\s\S]*?)```/g)].find(
    ([, of, text = '']) => of === language && text.includes(having),
  );
  expect(found).toBeDefined();
  return found?.[2] ?? '';
}

describe('what analysts read in the bucket, as the documents say', () => {
  it('has all rows, for DuckDB over httpfs', async ({ skip }) => {
    const folder = await duckdbExtensions(['httpfs']);
    if (folder === undefined) return skip();
    const instance = await DuckDBInstance.create(':memory:', { allow_unsigned_extensions: 'true' });
    const connection = await instance.connect();
    try {
      await connection.run(`LOAD '${join(folder, 'httpfs.duckdb_extension')}'`);
      const { host } = new URL(endpoint);
      await connection.run(`CREATE SECRET (TYPE s3, KEY_ID 'AKIDEXAMPLE', SECRET 'a-secret-of-the-test', REGION 'us-east-1',
        ENDPOINT '${host}', URL_STYLE 'path', USE_SSL false)`);
      const counts: unknown[] = [];
      for (const statement of snippet('sql', 'ATTACH').split(';')) {
        if (statement.trim() === '') continue;
        const response = await connection.runAndReadAll(statement);
        if (statement.includes('count(*)')) counts.push(Number(Object.values(response.getRowsJson()[0] ?? [])[0]));
      }
      expect(counts).toEqual([rows, rows]);
    } finally {
      connection.closeSync();
      instance.closeSync();
    }
  });

  it('has all rows, for Python', async ({ skip }) => {
    if (!existsSync(python)) {
      process.stderr.write(`\n*** NOT RUN: Python. ${python} is missing ***\n\n`);
      return skip();
    }
    const login = `, endpoint_override='${endpoint}', access_key='AKIDEXAMPLE', secret_key='a-secret-of-the-test', region='us-east-1'`;
    const code = snippet('python', 'pyarrow').replace('S3FileSystem()', `S3FileSystem(${login.slice(2)})`);
    const { stdout } = await promisify(execFile)(python, ['-c', `${code}\nprint(members.num_rows)`]);
    expect(Number(stdout)).toBe(rows);
  });
});
