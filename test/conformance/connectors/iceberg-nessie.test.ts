import { afterAll, beforeAll, describe, vi } from 'vitest';
import iceberg from '../../../connectors/iceberg/index.js';
import { tableConformance } from '../../../src/conformance/index.js';
import { duckdbExtensions } from '../../fixtures/duckdb-extensions.js';
import { icebergPlace } from '../../fixtures/iceberg-place.js';
import { NessieCatalog, nessieIsThere } from '../../fixtures/nessie.js';
import { ObjectStore } from '../../fixtures/object-store.js';

vi.setConfig({ testTimeout: 300_000, hookTimeout: 600_000 });

const extensions = nessieIsThere() ? await duckdbExtensions(['avro', 'httpfs', 'iceberg']) : undefined;

describe.skipIf(extensions === undefined)('Iceberg, with the catalog Nessie and an S3 store', () => {
  let store: ObjectStore;
  let catalog: NessieCatalog;
  const proxied = { host: '127.0.0.1', port: 0 };
  beforeAll(async () => {
    store = await ObjectStore.open();
    await store.createBucket('lake');
    catalog = await NessieCatalog.start({ endpoint: store.bareUrl, bucket: 'lake' });
    proxied.port = Number(new URL(catalog.url).port);
  });
  afterAll(async () => {
    await catalog?.stop();
    await store?.close();
  });

  const place = () => {
    const login = { access_key_id: 'AKIDEXAMPLE', secret_access_key: 'a-secret-of-the-test', endpoint: store.url };
    const options = { ...login, warehouse: 'lake' };
    return icebergPlace(catalog, { extensions: extensions as string, options, endpoint: store.bareUrl });
  };
  tableConformance({ connector: iceberg, server: proxied, place });
});
