import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type DuckDBConnection, DuckDBInstance } from '@duckdb/node-api';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { loadDuckdbExtensions } from '../../../src/sdk/index.js';

describe('extensions of DuckDB', () => {
  let folder: string;
  let instance: DuckDBInstance;
  let connection: DuckDBConnection;
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'cdsync-extensions-'));
    instance = await DuckDBInstance.create(':memory:');
    connection = await instance.connect();
  });
  afterEach(async () => {
    connection.closeSync();
    instance.closeSync();
    await rm(folder, { recursive: true });
  });

  async function build() {
    const [row] = (await connection.runAndReadAll('SELECT version() AS version')).getRowObjectsJson();
    const [on] = (await connection.runAndReadAll('PRAGMA platform')).getRowObjectsJson();
    return { version: String(row?.version), platform: String(on?.platform) };
  }

  it('says which file a folder lacks, for which DuckDB and which platform', async () => {
    const { version, platform } = await build();
    await expect(loadDuckdbExtensions(connection, ['ducklake'], folder)).rejects.toMatchObject({
      code: 'duckdb_extension_missing',
      kind: 'configuration',
      message: `there is no ducklake.duckdb_extension in ${folder}`,
      hint: expect.stringContaining(`DuckDB ${version} for ${platform}`),
    });
  });

  it('refuses a file that is no extension, also in the layout of the folder of DuckDB', async () => {
    const { version, platform } = await build();
    const file = join(folder, version, platform, 'ducklake.duckdb_extension');
    await mkdir(join(folder, version, platform), { recursive: true });
    await writeFile(file, 'x'.repeat(1000));
    const loading = loadDuckdbExtensions(connection, ['ducklake'], folder);
    await expect(loading).rejects.toMatchObject({ code: 'duckdb_extension_missing' });
    await expect(loading).rejects.toThrow(`DuckDB cannot load ${file}: `);
    await expect(loading).rejects.toThrow('not a DuckDB extension');
  });

  it('downloads an extension that is not installed, and says how to do without if that fails', async () => {
    await connection.run(`SET extension_directory = '${folder}'`);
    await connection.run("SET custom_extension_repository = 'http://127.0.0.1:9'");
    const loading = loadDuckdbExtensions(connection, ['ducklake'], undefined);
    await expect(loading).rejects.toMatchObject({
      code: 'duckdb_extension_missing',
      hint: expect.stringMatching(/extensions\.duckdb\.org.*`extensions:`/),
    });
    await expect(loading).rejects.toThrow('DuckDB\'s extension "ducklake" is not installed, and cannot be downloaded');
  });

  it('takes a built-in extension as loaded', async () => {
    await loadDuckdbExtensions(connection, ['json'], undefined);
  });
});
