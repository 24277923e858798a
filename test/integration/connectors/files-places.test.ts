import { readdir, readFile, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { checkFiles } from '../../../connectors/files/options.js';
import { entriesBelow } from '../../../src/core/folders.js';
import { FilePlaces } from '../../fixtures/file-places.js';
import { merge } from '../../fixtures/load-driver.js';
import { s3Refusal } from '../../fixtures/object-store.js';

const at = FilePlaces.ofTests();

describe('a folder', () => {
  it.each([
    ['0600', 0o600, 0o700],
    ['0640', 0o640, 0o750],
    ['0644', 0o644, 0o755],
  ])('of files %s is as open as that, and no more', async (file_mode, file, folderMode) => {
    const place = at.inFolder();
    const driver = await at.driver(place, { file_mode, partition_by: ['land'] });
    await driver.load({ table: 't', query: "SELECT 1 AS id, 'DE' AS land", sequence: 1 });
    const entries = await entriesBelow(place.options.path as string);
    const modes = await Promise.all(
      entries.map(async (entry) => [entry.isFile(), (await stat(join(entry.parentPath, entry.name))).mode & 0o777]),
    );
    expect([...new Set(modes.map(String))].sort()).toEqual([`false,${folderMode}`, `true,${file}`]);
  });

  it.each([
    ['keep', ['=1+1', '+49 30', '@x', '-1.5', 'plain']],
    ['escape', ["'=1+1", "'+49 30", "'@x", '-1.5', 'plain']],
  ])('of CSV with csv_formulas: %s merges new rows with its existing rows', async (csv_formulas, texts) => {
    const place = at.inFolder(csv_formulas);
    const driver = await at.driver(place, { format: 'csv', csv_formulas });
    const first = "SELECT * FROM (VALUES ('=1+1', 1), ('+49 30', 1), ('@x', 1), ('plain', 1)) AS t(id, n)";
    await driver.load({ table: 't', query: first, key: ['id'], sequence: 1 });
    const second = "SELECT 'upsert' AS _op, * FROM (VALUES ('=1+1', 2), ('-1.5', 2)) AS t(id, n)";
    await driver.load({ table: 't', query: second, key: ['id'], sequence: 2, action: merge });
    const { files: named } = await at.manifestOf(place, 't');
    const lines = await Promise.all(named.map(async ({ path }) => readFile(await place.local(`t/${path}`), 'utf8')));
    const rows = lines.flatMap((text) => text.trim().split(/\r?\n/).slice(1)).map((line) => line.replaceAll('"', ''));
    expect(rows.sort()).toEqual(texts.map((text) => `${text},${/1\+1|1\.5/.test(text) ? 2 : 1}`).sort());
  });

  it('that is a file is refused', async () => {
    await writeFile(join(at.folder, 'file'), '');
    const driver = await at.driver(at.inFolder(), { path: join(at.folder, 'file') });
    await expect(driver.destination()).rejects.toMatchObject({ message: `${join(at.folder, 'file')} is not a folder` });
  });

  it('has a separate folder for each table, whatever its name', async () => {
    const place = at.inFolder();
    const driver = await at.driver(place);
    const tables = ['../up', '.hidden', 'a/b', 'a b', 'ä', 'Ä', 'con*?'];
    for (const table of tables) await driver.load({ table, query: `SELECT 1 AS id, '${table}' AS name`, sequence: 1 });
    expect(await readdir(at.folder)).toEqual(['exports']);
    expect((await readdir(place.options.path as string)).length).toBe(tables.length);
    for (const table of tables) expect(await driver.sequence(table)).toBe(1);
  });
});

describe('a store that refuses', () => {
  const query = 'SELECT 1 AS id, 2 AS n';

  it.each([
    ['AccessDenied', 403, 'destination_permission', 'auth', /s3:PutObject/],
    ['InvalidAccessKeyId', 403, 'destination_login', 'auth', /access_key_id/],
    ['SignatureDoesNotMatch', 403, 'destination_login', 'auth', /secret_access_key/],
    ['RequestTimeTooSkewed', 403, 'destination_login', 'auth', /clock/],
    ['NoSuchBucket', 404, 'destination_refused', 'fatal', /create it/],
    ['PermanentRedirect', 301, 'destination_refused', 'fatal', /region/],
    ['InternalError', 500, 'destination_unavailable', 'retryable', undefined],
  ])('with %s causes an error that names the cause, and no secret', async (code, status, wanted, kind, hint) => {
    const driver = await at.driver(await at.inBucket());
    at.store.meddling = (_, response) => s3Refusal(response, status, code);
    const error = (await driver.load({ table: 't', query, sequence: 1 }).catch((thrown: unknown) => thrown)) as {
      code: string;
      kind: string;
      message: string;
      hint?: string;
    };
    expect([error.code, error.kind]).toEqual([wanted, kind]);
    if (hint !== undefined) expect(error.hint).toMatch(hint);
    expect(`${error.message} ${error.hint}`).not.toMatch(/AKIDEXAMPLE|a-secret-of-the-test/);
  });

  it('in the middle of a load leaves the previous set as it was', async () => {
    const place = await at.inBucket();
    const driver = await at.driver(place);
    await driver.load({ table: 't', query, sequence: 1 });
    at.store.meddling = (request, response) =>
      request.method === 'PUT' && request.url?.includes('/data/')
        ? s3Refusal(response, 403, 'AccessDenied')
        : undefined;
    await expect(driver.load({ table: 't', query, sequence: 2 })).rejects.toMatchObject({ kind: 'auth' });
    at.store.meddling = undefined;
    await at.expectRows(place, 't', query);
  });

  it('because the bucket is missing, at a real store, says so', async () => {
    const place = await at.inBucket(at.store.bareUrl);
    const driver = await at.driver(place, { url: 's3://no-such-bucket/x' });
    await expect(driver.load({ table: 't', query, sequence: 1 })).rejects.toMatchObject({
      message: 'there is no bucket "no-such-bucket"',
    });
  });

  it('because nothing listens there can be tried again', async () => {
    const driver = await at.driver(await at.inBucket(), { endpoint: 'http://127.0.0.1:1' });
    await expect(driver.load({ table: 't', query, sequence: 1 })).rejects.toMatchObject({
      kind: 'retryable',
      message: expect.stringContaining('ECONNREFUSED'),
    });
  });

  it('whose response to a commit is lost is asked again, and the load counts once', async () => {
    const place = await at.inBucket();
    const driver = await at.driver(place);
    await driver.load({ table: 't', query, sequence: 1 });
    let lost = 0;
    at.store.meddling = (request, response) => {
      if (request.method !== 'PUT' || !request.url?.includes('/manifests/') || lost > 0) return undefined;
      lost += 1;
      // The manifest is written; only the response is lost.
      response.writeHead = () => response.destroy() as never;
      return undefined;
    };
    await driver.load({ table: 't', query, sequence: 2, action: { type: 'append' } });
    expect(lost).toBe(1);
    await at.expectRows(place, 't', `${query} UNION ALL ${query}`);
  });

  it('to respect conditions is still loaded, with a notice', async () => {
    const place = await at.inBucket(at.store.bareUrl);
    const driver = await at.driver(place);
    await driver.load({ table: 't', query, sequence: 1 });
    expect(driver.notices).toEqual([expect.stringContaining('has no conditional writes')]);
    const change = "SELECT 'upsert' AS _op, 1 AS id, 3 AS n";
    await driver.load({ table: 't', query: change, key: ['id'], sequence: 2, action: merge });
    await at.expectRows(place, 't', 'SELECT 1 AS id, 3 AS n');
    const other = await at.driver(await at.inBucket());
    await other.load({ table: 't', query, sequence: 1 });
    expect(other.notices).toEqual([]);
  });
});

describe('options', () => {
  it.each([
    [{}, 'exactly one of `path` and `url`'],
    [{ path: './x', url: 's3://bucket' }, 'exactly one of `path` and `url`'],
    [{ path: './x', region: 'eu-central-1' }, 'needs `url`'],
    [{ url: 's3://bucket', file_mode: '0640' }, 'no file permissions'],
    [{ url: 's3://bucket', access_key_id: 'AKID' }, 'or neither'],
    [{ url: 's3://bucket', session_token: 'x' }, 'needs `access_key_id`'],
  ])('%j are refused', (input, message) => {
    expect(
      checkFiles(input)
        .map((finding) => finding.message)
        .join('\n'),
    ).toContain(message);
  });

  it('that name a missing or a nested column are refused with the table', async () => {
    for (const [column, what] of [
      ['country', 'is not a column'],
      ['list', 'has nested values'],
    ] as const) {
      const driver = await at.driver(at.inFolder(), { partition_by: [column] });
      await expect(
        driver.load({ table: 't', query: 'SELECT 1 AS id, [1] AS list', sequence: 1 }),
      ).rejects.toMatchObject({
        message: `\`partition_by\`: "${column}" ${what} of table "t"`,
        hint: 'its columns are id, list',
      });
    }
  });
});
