import { afterAll, describe, expect, it } from 'vitest';
import iceberg from '../../../connectors/iceberg/index.js';
import { isWorkTable } from '../../../connectors/iceberg/work-tables.js';
import { differences } from '../../../src/conformance/compare.js';
import { after, before, delivered, ownless, undelivered } from '../../../src/conformance/rows.js';
import { TestTarget } from '../../../src/conformance/test-target.js';
import { duckdbExtensions } from '../../fixtures/duckdb-extensions.js';
import { IcebergCatalog } from '../../fixtures/iceberg-catalog.js';
import { icebergPlace } from '../../fixtures/iceberg-place.js';
import { icebergRun } from '../../fixtures/iceberg-rows.js';
import { type Outcome, TrinoCoordinator } from '../../fixtures/trino-coordinator.js';

const extensions = (await duckdbExtensions(['avro', 'httpfs', 'iceberg'])) ?? '';
const catalog = extensions === '' ? undefined : await IcebergCatalog.start();
afterAll(() => catalog?.stop());

/** A place whose MERGE statements DuckDB carries out: everything but Trino is real. */
async function open(broken = false) {
  let merges = 0;
  const merge = async (sql: string): Promise<Outcome> => {
    merges += 1;
    const error = { message: 'no worker', errorName: 'NO_NODES_AVAILABLE', errorType: 'INSUFFICIENT_RESOURCES' };
    if (broken) return { error };
    const [, target = '', rows = ''] = /^MERGE INTO \S+\."(\w+)" AS t USING \S+\."(\w+)" AS s/.exec(sql) ?? [];
    const [t, s] = [target, rows].map((name) => `ice.${namespace}.${name}`);
    const [, columns = ''] = / INSERT \((.*?)\) VALUES/.exec(sql) ?? [];
    await icebergRun({ catalog: catalog?.url ?? '', namespace, extensions }, [
      'SET unsafe_iceberg_ignore_sort_order = true',
      `DELETE FROM ${t} AS t WHERE EXISTS (SELECT 1 FROM ${s} AS s WHERE t.id = s.id)`,
      `INSERT INTO ${t} (${columns}) SELECT ${columns} FROM ${s} WHERE _op = 'upsert'`,
    ]);
    return {};
  };
  const trino = await TrinoCoordinator.open((sql) => {
    if (sql.startsWith('MERGE')) return merge(sql);
    return sql.includes('system.metadata.catalogs')
      ? { columns: ['name'], pages: [[['lake']]] }
      : { columns: ['found'], pages: [[['1']]] };
  });
  const options = { engine: { trino: trino.url }, memory_mb: 256 };
  const place = await icebergPlace(catalog as IcebergCatalog, { extensions, options });
  const namespace = String(place.options.namespace);
  const subject = await TestTarget.open({ connector: iceberg, place });
  return { trino, place, namespace, subject, merges: () => merges };
}

describe.runIf(catalog)('changes that a Trino server merges', () => {
  it('are in the table with their record, and no work table is left', async () => {
    const { trino, place, namespace, subject, merges } = await open();
    delivered(await subject.run(before));
    expect(merges()).toBe(0);
    delivered(await subject.run(after));
    expect([merges(), trino.complaints]).toEqual([1, []]);
    expect(differences(await subject.published(), ownless(await place.rows('people')))).toEqual([]);
    expect(await catalog?.tables(namespace)).toEqual(['people']);
    expect(delivered(await subject.push()).action).toBe('nothing');
    // A new column, and all rows, are DuckDB's work.
    delivered(await subject.run(`SELECT *, id AS more FROM (${before})`));
    delivered(await subject.push({ full: true }));
    expect(merges()).toBe(1);
    await subject.close();
    await trino.close();
  });

  it('leave the table as it was, and no work table, if Trino fails', async () => {
    const { trino, place, namespace, subject } = await open(true);
    delivered(await subject.run(before));
    const rows = await place.rows('people');
    undelivered(await subject.run(after));
    expect(differences(rows, await place.rows('people'))).toEqual([]);
    expect((await catalog?.tables(namespace))?.filter(isWorkTable)).toEqual([]);
    await subject.close();
    await trino.close();
  });
});
