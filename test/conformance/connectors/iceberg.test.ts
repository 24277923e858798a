import { CreateBucketCommand } from '@aws-sdk/client-s3';
import { afterAll, beforeAll, describe } from 'vitest';
import iceberg from '../../../connectors/iceberg/index.js';
import { type TablePlace, tableConformance } from '../../../src/conformance/index.js';
import { duckdbExtensions } from '../../fixtures/duckdb-extensions.js';
import { IcebergCatalog } from '../../fixtures/iceberg-catalog.js';
import { icebergRows } from '../../fixtures/iceberg-rows.js';
import { ObjectStore, readerKeyId } from '../../fixtures/object-store.js';

const extensions = await duckdbExtensions(['avro', 'httpfs', 'iceberg']);
const inFolder = extensions === undefined ? undefined : await IcebergCatalog.start();
const skipped = inFolder === undefined;
let places = 0;

async function placeOf(catalog: IcebergCatalog, more: Record<string, unknown>, endpoint?: string): Promise<TablePlace> {
  places += 1;
  const namespace = `place_${places}`;
  await catalog.createNamespace(namespace);
  const options = { catalog: catalog.url, namespace, extensions, memory_mb: 512, ...more };
  const reading = { catalog: catalog.url, namespace, extensions: extensions as string };
  return {
    options,
    rows: async (table) =>
      (await catalog.tables(namespace)).includes(table)
        ? icebergRows(endpoint === undefined ? reading : { ...reading, endpoint }, table)
        : [],
    through: (port) => ({ ...options, catalog: `http://127.0.0.1:${port}` }),
    ...(endpoint === undefined ? {} : { withoutPermission: async () => ({ ...options, access_key_id: readerKeyId }) }),
    contents: () => catalog.contents(namespace),
    close: async () => undefined,
  };
}

afterAll(() => inFolder?.stop());

describe.skipIf(skipped)('format 2, in a folder', () => {
  const server = { host: '127.0.0.1', port: Number(new URL(inFolder?.url ?? 'http://x:1').port) };
  tableConformance({ connector: iceberg, server, place: () => placeOf(inFolder as IcebergCatalog, {}) });
});

describe.skipIf(skipped)('format 3, partitioned, in an S3 store', () => {
  let store: ObjectStore;
  let catalog: IcebergCatalog;
  beforeAll(async () => {
    store = await ObjectStore.open();
    const client = store.client();
    await client.send(new CreateBucketCommand({ Bucket: 'lake' }));
    client.destroy();
    catalog = (await IcebergCatalog.start({ endpoint: store.bareUrl, bucket: 'lake' })) as IcebergCatalog;
  });
  afterAll(async () => {
    await catalog?.stop();
    await store?.close();
  });
  const login = { access_key_id: 'AKIDEXAMPLE', secret_access_key: 'a-secret-of-the-test' };
  tableConformance({
    connector: iceberg,
    place: () =>
      placeOf(
        catalog,
        { ...login, endpoint: store.url, format_version: 3, partition_by: ['bucket(id, 4)'] },
        store.bareUrl,
      ),
  });
});
