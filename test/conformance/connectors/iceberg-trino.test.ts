import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import iceberg from '../../../connectors/iceberg/index.js';
import { after, before, delivered } from '../../../src/conformance/rows.js';
import { TestTarget } from '../../../src/conformance/test-target.js';
import { duckdbExtensions } from '../../fixtures/duckdb-extensions.js';
import { IcebergCatalog } from '../../fixtures/iceberg-catalog.js';
import { icebergQuery, icebergRows } from '../../fixtures/iceberg-rows.js';
import { ObjectStore } from '../../fixtures/object-store.js';
import { sparkIsThere, sparkRow } from '../../fixtures/spark.js';
import { TrinoServer, trinoIsThere } from '../../fixtures/trino.js';

vi.setConfig({ testTimeout: 600_000, hookTimeout: 600_000 });

const extensions = trinoIsThere() ? await duckdbExtensions(['avro', 'httpfs', 'iceberg']) : undefined;

describe.skipIf(extensions === undefined)('Iceberg, read by Trino and Spark', () => {
  let store: ObjectStore;
  let catalog: IcebergCatalog;
  let trino: TrinoServer;
  let inTrino: string;
  let places = 0;

  beforeAll(async () => {
    [store, trino] = await Promise.all([ObjectStore.open(), TrinoServer.start()]);
    await store.createBucket('lake');
    const started = await IcebergCatalog.start({ endpoint: store.bareUrl, bucket: 'lake' });
    if (started === undefined) throw new Error('Iceberg has no REST catalog');
    catalog = started;
    inTrino = await trino.rest(catalog.url, store.bareUrl);
  });
  afterAll(async () => {
    await trino?.stop();
    await catalog?.stop();
    await store?.close();
  });

  const place = async () => {
    places += 1;
    const namespace = `place_${places}`;
    await catalog.createNamespace(namespace);
    const login = { access_key_id: 'AKIDEXAMPLE', secret_access_key: 'a-secret-of-the-test', endpoint: store.url };
    const reading = { catalog: catalog.url, namespace, extensions: extensions as string, endpoint: store.url };
    return {
      reading,
      options: { catalog: catalog.url, namespace, extensions, memory_mb: 512, ...login },
      rows: async (table: string) =>
        (await catalog.tables(namespace)).includes(table) ? icebergRows(reading, table) : [],
      close: async () => undefined,
    };
  };

  it('has one snapshot for each load, and every engine reads the same', async () => {
    const at = await place();
    const subject = await TestTarget.open({ connector: iceberg, place: at, destination: { mode: 'mirror' } });
    try {
      delivered(await subject.run(before));
      delivered(await subject.run(after));
    } finally {
      await subject.close();
    }
    const { namespace } = at.reading;
    expect(await catalog.tables(namespace)).toEqual(['people']);
    const snapshots = await trino.query(
      `SELECT summary['cdsync.sequence'] FROM ${inTrino}.${namespace}."people$snapshots" ORDER BY committed_at`,
    );
    expect(snapshots).toEqual([['1'], ['2']]);
    const sum = 'count(*) AS n, sum(visits) AS visits, count(DISTINCT name) AS names';
    const [duckdb] = await icebergQuery(at.reading, `SELECT ${sum} FROM ice.${namespace}.people`);
    const wanted = [...(duckdb?.values() ?? [])];
    const [byTrino] = await trino.query(`SELECT ${sum} FROM ${inTrino}.${namespace}.people`);
    expect(byTrino?.map(String)).toEqual(wanted);
    if (sparkIsThere())
      expect(await sparkRow(catalog.url, store.bareUrl, `SELECT ${sum} FROM ice.${namespace}.people`)).toEqual(wanted);
  });
});
