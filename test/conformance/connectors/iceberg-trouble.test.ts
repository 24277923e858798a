import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import iceberg from '../../../connectors/iceberg/index.js';
import { differences } from '../../../src/conformance/compare.js';
import type { TablePlace } from '../../../src/conformance/index.js';
import { after, before, delivered, ownless, undelivered } from '../../../src/conformance/rows.js';
import { TestTarget } from '../../../src/conformance/test-target.js';
import { duckdbExtensions } from '../../fixtures/duckdb-extensions.js';
import { IcebergCatalog } from '../../fixtures/iceberg-catalog.js';
import { icebergRows, icebergRun } from '../../fixtures/iceberg-rows.js';

const extensions = await duckdbExtensions(['avro', 'httpfs', 'iceberg']);
const catalog = extensions === undefined ? undefined : await IcebergCatalog.start();

interface Asked {
  readonly method: string;
  readonly path: string;
  readonly authorization: string | undefined;
}

interface CatalogResponse {
  readonly status: number;
  readonly body: string;
}

/** A proxy of the catalog that may respond instead of it, or replace its response; `cut` ends the connection without a response. */
type Meddling = (asked: Asked, pass: () => Promise<CatalogResponse>) => Promise<CatalogResponse | 'cut'>;

let meddling: Meddling = (_, pass) => pass();
let front: Server;
beforeAll(async () => {
  front = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const { method = '', url: path = '', headers } = request;
    const pass = async () => {
      const body = Buffer.concat(chunks);
      const result = await fetch(`${catalog?.url}${path}`, {
        method,
        headers: { 'content-type': 'application/json' },
        ...(body.length === 0 ? {} : { body }),
      });
      return { status: result.status, body: await result.text() };
    };
    const result = await meddling({ method, path, authorization: headers.authorization }, pass);
    if (result === 'cut') response.destroy();
    else response.writeHead(result.status, { 'content-type': 'application/json' }).end(result.body);
  });
  await new Promise<void>((resolve) => front.listen(0, '127.0.0.1', resolve));
});
afterAll(async () => {
  front.closeAllConnections();
  front.close();
  await catalog?.stop();
});

let places = 0;

async function place(more: Record<string, unknown> = {}): Promise<TablePlace & { readonly namespace: string }> {
  places += 1;
  const namespace = `trouble_${places}`;
  const url = `http://127.0.0.1:${(front.address() as AddressInfo).port}`;
  await catalog?.createNamespace(namespace);
  meddling = (_, pass) => pass();
  const reading = { catalog: catalog?.url ?? '', namespace, extensions: extensions ?? '' };
  return {
    namespace,
    options: { catalog: url, namespace, extensions, memory_mb: 256, ...more },
    rows: (table) => icebergRows(reading, table),
    close: async () => undefined,
  };
}

const isCommit = ({ method, path }: Asked) => method === 'POST' && /\/tables\/people$/.test(path);

async function snapshots(namespace: string): Promise<Record<string, string>[]> {
  const { metadata } = JSON.parse((await catalog?.ask('GET', `/v1/namespaces/${namespace}/tables/people`)) ?? '');
  return (metadata.snapshots as { summary: Record<string, string> }[]).map(({ summary }) => summary);
}

describe.runIf(catalog)('a delivery to Iceberg', () => {
  it('begins again on what another writer has committed, and makes one snapshot', async () => {
    // Without a sort order, because DuckDB alone writes into no sorted table.
    const there = await place({ sort: [] });
    const subject = await TestTarget.open({ connector: iceberg, place: there });
    delivered(await subject.run(before));
    let commits = 0;
    meddling = async (asked, pass) => {
      if (!isCommit(asked)) return pass();
      commits += 1;
      const people = `ice.${there.namespace}.people`;
      const other = [`INSERT INTO ${people} (id) VALUES ('x')`, `DELETE FROM ${people} WHERE id = 'x'`];
      const reading = { catalog: catalog?.url ?? '', namespace: there.namespace, extensions: extensions ?? '' };
      if (commits === 1) await icebergRun(reading, other);
      return pass();
    };
    delivered(await subject.run(after));
    expect(commits).toBe(2);
    expect(differences(await subject.published(), ownless(await there.rows('people')))).toEqual([]);
    const made = (await snapshots(there.namespace)).map((summary) => summary['cdsync.sequence']);
    expect(made).toEqual(['1', undefined, undefined, '2']);
    await subject.close();
  });

  const later = {
    status: 503,
    body: '{"error":{"message":"try later","type":"ServiceUnavailableException","code":503}}',
  };

  it.each([
    ['the response is lost after the catalog has made the commit', true, later],
    ['the response is lost before the catalog has made the commit', false, later],
    ['the connection is cut after the catalog has made the commit', true, 'cut' as const],
    ['the connection is cut before the catalog has made the commit', false, 'cut' as const],
  ])('loads the rows once if %s', async (_, isMade, result) => {
    const there = await place();
    const subject = await TestTarget.open({ connector: iceberg, place: there, destination: { mode: 'append' } });
    delivered(await subject.run(before));
    let lost = 0;
    meddling = async (asked, pass) => {
      if (!isCommit(asked) || lost > 0) return pass();
      lost += 1;
      if (isMade) await pass();
      return result;
    };
    delivered(await subject.run(after));
    expect(lost).toBe(1);
    const made = await snapshots(there.namespace);
    expect(made.map((summary) => summary['cdsync.sequence'])).toEqual(['1', '2']);
    expect(await there.rows('people')).toHaveLength(95 + 5 + 5 + 5);
    await subject.close();
  });

  it.each([
    ['a warehouse that is not there', { warehouse: 'missing' }, 'destination_refused', /no warehouse "missing"/],
    ['a wrong token', { token: 'wrong' }, 'destination_login', /does not read its configuration \(401\)/],
    ['a namespace that is not there', { namespace: 'missing' }, 'destination_refused', /no namespace missing/],
    ['a partition by a column that is not there', { partition_by: ['day(missing)'] }, 'partition_column', /lacks/],
    ['extensions that are not there', { extensions: '/nowhere' }, 'duckdb_extension_missing', /there is no avro/],
    ['a path without a catalog', { catalog: 'http://127.0.0.1:1/x' }, 'destination_unavailable', /no response/],
  ])('refuses %s, and changes nothing', async (_, more, wanted, words) => {
    const there = await place();
    const subject = await TestTarget.open({ connector: iceberg, place: there, destination: more });
    meddling = async ({ path, authorization }, pass) => {
      const error = (code: number, type: string) => ({
        status: code,
        body: JSON.stringify({ error: { message: type, type, code } }),
      });
      if (authorization === 'Bearer wrong') return error(401, 'NotAuthorizedException');
      return path.includes('warehouse=missing') ? error(404, 'NoSuchWarehouseException') : pass();
    };
    const { code, message, hint } = undelivered(await subject.run(before));
    expect([code, message]).toEqual([wanted, expect.stringMatching(words)]);
    expect(hint).not.toBeNull();
    const check = await subject.check();
    if (code !== 'partition_column') expect(check.error?.code ?? check.lacks.length).toBeTruthy();
    expect(await catalog?.tables(there.namespace)).toEqual([]);
    await subject.close();
  });

  it('keeps the types of columns that the table is partitioned or sorted by, and has other values beside them', async () => {
    const there = await place({ mode: 'mirror', partition_by: ['country', 'bucket(city, 4)'], sort: ['name', 'id'] });
    const subject = await TestTarget.open({ connector: iceberg, place: there });
    const rows = async () => ownless(await there.rows('people')).map((row) => Object.fromEntries(row));
    delivered(await subject.run("SELECT 'p1' AS id, NULL::DATE AS country, NULL::DATE AS city, NULL::DATE AS name"));
    delivered(await subject.run("SELECT 'p1' AS id, 'DE' AS country, 'Ulm' AS city, 'b' AS name"));
    const empty = { id: 'p1', country: null, city: null, name: null };
    const row = { ...empty, country__text: 'DE', city__text: 'Ulm', name__text: 'b' };
    expect(await rows()).toEqual([row]);
    delivered(await subject.run("SELECT 'p1' AS id, 'FR' AS country, 'Ulm' AS city, 'c' AS name"));
    expect(await rows()).toEqual([{ ...row, country__text: 'FR', name__text: 'c' }]);
    await subject.close();
  });

  it('asks for no table but its own, however many the namespace has, unless it makes one', async () => {
    const there = await place();
    const schema = { type: 'struct', fields: [{ id: 1, name: 'id', required: false, type: 'string' }] };
    for (let index = 0; index < 20; index += 1)
      await catalog?.ask('POST', `/v1/namespaces/${there.namespace}/tables`, { name: `foreign_${index}`, schema });
    const subject = await TestTarget.open({ connector: iceberg, place: there });
    const asked: string[] = [];
    meddling = ({ method, path }, pass) => {
      asked.push(`${method} ${path}`);
      return pass();
    };
    delivered(await subject.run(before));
    // The stream may have had any of them before.
    expect(asked.filter((each) => each.includes('foreign_'))).toHaveLength(20);
    asked.length = 0;
    delivered(await subject.run(after));
    delivered(await subject.push({ full: true }));
    expect(asked.filter((each) => /^GET .*people$/.test(each)).length).toBeGreaterThan(0);
    expect(asked.filter((each) => each.includes('foreign_'))).toEqual([]);
    expect(await catalog?.tables(there.namespace)).toHaveLength(21);
    await subject.close();
  });

  it.each([
    ['to create tables', /\/tables$/, []],
    ['to change them', /\/tables\/people$/, ['people']],
  ])('says which right is missing if the login has none %s, and no row appears', async (_, refused, tables) => {
    const there = await place();
    const subject = await TestTarget.open({ connector: iceberg, place: there });
    const body = '{"error":{"message":"principal loader may not","type":"ForbiddenException","code":403}}';
    meddling = async ({ method, path }, pass) =>
      method === 'POST' && refused.test(path) ? { status: 403, body } : pass();
    const { code, message, hint } = undelivered(await subject.run(before));
    expect([code, message]).toEqual(['destination_permission', expect.stringMatching(/principal loader may not/)]);
    expect(hint).toMatch(/grant/);
    expect(await catalog?.tables(there.namespace)).toEqual(tables);
    if (tables.length > 0) expect([await there.rows('people'), await snapshots(there.namespace)]).toEqual([[], []]);
    meddling = (__, pass) => pass();
    delivered(await subject.push());
    expect(await there.rows('people')).toHaveLength(95);
    await subject.close();
  });

  it('makes the namespace on request', async () => {
    const there = await place({ namespace: 'made_by_cdsync', create_namespace: true });
    const subject = await TestTarget.open({ connector: iceberg, place: there });
    expect(await subject.check()).toMatchObject({ lacks: [], reached: expect.stringContaining('first load creates') });
    delivered(await subject.run(before));
    expect(await catalog?.tables('made_by_cdsync')).toEqual(['people']);
    await subject.close();
  });
});
