import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import iceberg from '../../../connectors/iceberg/index.js';
import { workTables } from '../../../connectors/iceberg/work-tables.js';
import { tableConformance } from '../../../src/conformance/index.js';
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

describe.skipIf(extensions === undefined)('Iceberg, merged by Trino', () => {
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
    const engine = { trino: trino.url };
    const reading = { catalog: catalog.url, namespace, extensions: extensions as string, endpoint: store.url };
    return {
      reading,
      options: { catalog: catalog.url, namespace, extensions, memory_mb: 512, engine, ...login },
      rows: async (table: string) =>
        (await catalog.tables(namespace)).includes(table) ? icebergRows(reading, table) : [],
      close: async () => undefined,
    };
  };

  tableConformance({ connector: iceberg, place });

  it('drops the work table of a killed delivery, also if the next load merges nothing', async () => {
    const at = await place();
    const subject = await TestTarget.open({ connector: iceberg, place: at, destination: { mode: 'replace' } });
    delivered(await subject.run(before));
    const { namespace } = at.reading;
    const { 'metadata-location': location } = await catalog.table(namespace, 'people');
    const { merged } = workTables(['target', 'people']);
    const left = { name: `${merged}0a1b2c3d`, 'metadata-location': location };
    await catalog.ask('POST', `/v1/namespaces/${namespace}/register`, left);
    expect(await catalog.tables(namespace)).toContain(left.name);
    delivered(await subject.push({ full: true }));
    expect(await catalog.tables(namespace)).toEqual(['people']);
    expect(await at.rows('people')).toHaveLength(95);
    await subject.close();
  });

  it('commits rows and record in one snapshot, leaves no table behind, and every engine reads the same', async () => {
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
