import { describe, expect, it } from 'vitest';
import type { RestCatalog } from '../../../connectors/iceberg/catalog.js';
import { newSnapshots, type TableMetadata } from '../../../connectors/iceberg/table-metadata.js';
import { changesSql } from '../../../connectors/iceberg/trino-merger.js';
import { dropWorkTables, isWorkTable, workTables } from '../../../connectors/iceberg/work-tables.js';

function metadata(...ids: (number | bigint)[]): TableMetadata {
  const snapshots = ids.map((id) => ({
    'snapshot-id': id,
    'timestamp-ms': 1,
    'manifest-list': `s3://lake/${id}.avro`,
    summary: {},
  }));
  return {
    'format-version': 2,
    'table-uuid': 'uuid',
    location: 's3://lake/people',
    'last-column-id': 2,
    'current-schema-id': 0,
    schemas: [{ type: 'struct', 'schema-id': 0, fields: [] }],
    snapshots,
  };
}

describe('what Trino has merged', () => {
  it('is the snapshots that the table did not have, with ids of 64 bits', () => {
    const found = newSnapshots(
      metadata(7097710513843488784n, 5),
      metadata(7097710513843488784n, 5, 7097710513843488785n),
    );
    expect(found.map((each) => each['snapshot-id'])).toEqual([7097710513843488785n]);
    expect(newSnapshots(metadata(), metadata(1, 2))).toHaveLength(2);
    expect(newSnapshots(metadata(1), metadata(1))).toEqual([]);
  });
});

describe('the tables of a merge', () => {
  const one = workTables(['lake', 'people']);

  it('are known by their names, and those of another table by others', () => {
    expect([one.rows, one.merged].map(isWorkTable)).toEqual([true, true]);
    expect(isWorkTable('people')).toBe(false);
    expect(workTables(['lake', 'people'])).toEqual(one);
    expect(workTables(['lake', 'orders']).rows).not.toBe(one.rows);
  });

  it('take files with them only where the files are their own, and leave those of other tables', async () => {
    const other = workTables(['lake', 'orders']);
    const names = ['people', `${one.rows}1a2b3c4d`, `${one.merged}1a2b3c4d`, `${other.rows}1a2b3c4d`];
    const dropped: unknown[] = [];
    const catalog = {
      tables: async () => names,
      drop: async (name: string, how: object) => dropped.push([name, how]) > 0,
    } as Partial<RestCatalog> as RestCatalog;
    await dropWorkTables(catalog, { destination: 'lake', table: 'people' });
    expect(dropped).toEqual([
      [names[1], { withFiles: true }],
      [names[2], { withFiles: false }],
    ]);
  });
});

it('changes the table by one MERGE, which leaves columns of others alone', () => {
  const column = (name: string) => ({ name, type: 'string', kind: { kind: 'text' } }) as const;
  const table = { name: 'people', columns: [column('t'), column('a "b"')], key: ['t'], isKeyed: true };
  expect(changesSql({ table }, '"i"."n"."m"', '"i"."n"."r"').split('\n')).toEqual([
    'MERGE INTO "i"."n"."m" AS t_ USING "i"."n"."r" AS s ON t_."t" = s."t"',
    `WHEN MATCHED AND s."_op" = 'delete' THEN DELETE`,
    'WHEN MATCHED THEN UPDATE SET "a ""b""" = s."a ""b"""',
    `WHEN NOT MATCHED AND s."_op" = 'upsert' THEN INSERT ("t", "a ""b""") VALUES (s."t", s."a ""b""")`,
  ]);
  const keyOnly = { ...table, columns: [column('t')] };
  expect(changesSql({ table: keyOnly }, 'm', 'r')).not.toContain('UPDATE');
});
