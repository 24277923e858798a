import { afterAll, beforeAll, describe } from 'vitest';
import iceberg from '../../../connectors/iceberg/index.js';
import { tableConformance } from '../../../src/conformance/index.js';
import { duckdbExtensions } from '../../fixtures/duckdb-extensions.js';
import { IcebergCatalog } from '../../fixtures/iceberg-catalog.js';
import { icebergPlace } from '../../fixtures/iceberg-place.js';
import { ObjectStore } from '../../fixtures/object-store.js';

const extensions = (await duckdbExtensions(['avro', 'httpfs', 'iceberg'])) ?? '';
const inFolder = extensions === '' ? undefined : await IcebergCatalog.start();
const skipped = inFolder === undefined;

afterAll(() => inFolder?.stop());

describe.skipIf(skipped)('format 2, in a folder', () => {
  const server = { host: '127.0.0.1', port: Number(new URL(inFolder?.url ?? 'http://x:1').port) };
  const place = () => icebergPlace(inFolder as IcebergCatalog, { extensions });
  tableConformance({ connector: iceberg, server, place });
});

describe.skipIf(skipped)('format 3, partitioned, in an S3 store', () => {
  let store: ObjectStore;
  let catalog: IcebergCatalog;
  beforeAll(async () => {
    store = await ObjectStore.open();
    await store.createBucket('lake');
    catalog = (await IcebergCatalog.start({ endpoint: store.bareUrl, bucket: 'lake' })) as IcebergCatalog;
  });
  afterAll(async () => {
    await catalog?.stop();
    await store?.close();
  });
  const place = () => {
    const login = { access_key_id: 'AKIDEXAMPLE', secret_access_key: 'a-secret-of-the-test', endpoint: store.url };
    const options = { ...login, format_version: 3, partition_by: ['bucket(id, 4)'] };
    return icebergPlace(catalog, { extensions, options, endpoint: store.bareUrl });
  };
  tableConformance({ connector: iceberg, place });
});
