import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect, it, onTestFinished } from 'vitest';
import { RestCatalog } from '../../../connectors/iceberg/catalog.js';

interface Reply {
  readonly status: number;
  readonly body: unknown;
}

/** A catalog that returns the given configuration, and an empty object for everything else. */
async function open(configuration: Reply, warehouse?: string) {
  const paths: string[] = [];
  const server = createServer((request, response) => {
    const { status, body } = request.url?.startsWith('/v1/config') ? configuration : { status: 200, body: {} };
    paths.push(request.url ?? '');
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  const catalog = await RestCatalog.open({
    catalog: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    warehouse,
    namespace: 'cdp',
    scope: '',
    allowHttp: false,
    vendsCredentials: false,
    signal: new AbortController().signal,
  });
  onTestFinished(() => catalog.close());
  return { catalog, paths };
}

it.each([
  ['main%7Clake', '/v1/main%7Clake/namespaces/cdp'],
  ['main|lake', '/v1/main%7Clake/namespaces/cdp'],
  ['catalogs/my lake', '/v1/catalogs/my%20lake/namespaces/cdp'],
  ['100%', '/v1/100%25/namespaces/cdp'],
])('the prefix %s is part of the path, encoded once', async (prefix, path) => {
  const { catalog, paths } = await open({ status: 200, body: { defaults: { prefix }, overrides: {} } });
  await catalog.hasNamespace();
  expect(paths[1]).toBe(path);
});

it.each([
  [404, 'NoSuchWarehouseException', 'no warehouse of that name'],
  [400, 'BadRequestException', 'no warehouse of that name'],
  [500, 'IllegalStateException', "Warehouse 'lake' is not known"],
])('a warehouse that the catalog does not have (%i) is refused, and not tried again', async (code, type, message) => {
  await expect(open({ status: code, body: { error: { code, type, message } } }, 'lake')).rejects.toMatchObject({
    code: 'destination_refused',
    message: expect.stringContaining('has no warehouse "lake"'),
  });
});
