import { describe, expect, it } from 'vitest';
import type { StagedLoad } from '../../../connectors/iceberg/load-engine.js';
import { changeOf } from '../../../connectors/iceberg/merge-sql.js';
import { checkIceberg } from '../../../connectors/iceberg/options.js';
import { parsePartition } from '../../../connectors/iceberg/partition.js';
import { addColumns, changeType, createRequest } from '../../../connectors/iceberg/schema-update.js';
import type { IcebergField, IcebergSchema, TableMetadata } from '../../../connectors/iceberg/table-metadata.js';
import { mapColumn, parseTypeText, typeText, widens } from '../../../connectors/iceberg/types.js';
import type { LoadAction, StreamColumn } from '../../../src/sdk/index.js';

const table = {
  name: 'people',
  columns: [
    { name: 'id', type: 'string' },
    { name: 'tags', type: 'list<string>' },
    { name: 'updated_at', type: 'timestamptz' },
  ],
  key: ['id'],
};

function metadata(fields: readonly IcebergField[], lastId: number): TableMetadata {
  return {
    'format-version': 2,
    'table-uuid': 'uuid',
    location: '',
    'last-column-id': lastId,
    'current-schema-id': 3,
    schemas: [{ type: 'struct', 'schema-id': 3, fields }],
  };
}

describe('partition_by', () => {
  it.each([
    ['country', { column: 'country', transform: 'identity', name: 'country' }],
    ['bucket(id, 16)', { column: 'id', transform: 'bucket[16]', name: 'id_bucket' }],
    ['bucket(16, id)', { column: 'id', transform: 'bucket[16]', name: 'id_bucket' }],
    ['truncate(email, 4)', { column: 'email', transform: 'truncate[4]', name: 'email_trunc' }],
    ['day(updated_at)', { column: 'updated_at', transform: 'day', name: 'updated_at_day' }],
    ['day("a ""b""")', { column: 'a "b"', transform: 'day', name: 'a "b"_day' }],
  ])('takes %s', (written, parsed) => {
    expect(parsePartition(written)).toEqual(parsed);
  });

  it.each(['', 'bucket(id)', 'bucket(id, 0)', 'week(updated_at)', 'day()', 'bucket(id, x)', 'a)'])(
    'refuses "%s"',
    (written) => {
      expect(parsePartition(written)).toBeUndefined();
    },
  );
});

describe('a new table', () => {
  it('has partitions and a sort order by the ids of their columns', () => {
    const request = createRequest(table, { formatVersion: 3, partitionBy: ['bucket(ID, 4)', 'day(updated_at)'] });
    expect(request).toMatchObject({
      name: 'people',
      properties: { 'format-version': '3' },
      'partition-spec': {
        fields: [
          { 'source-id': 1, 'field-id': 1000, name: 'ID_bucket', transform: 'bucket[4]' },
          { 'source-id': 4, 'field-id': 1001, name: 'updated_at_day', transform: 'day' },
        ],
      },
      'write-order': { 'order-id': 1, fields: [{ 'source-id': 1, transform: 'identity', direction: 'asc' }] },
    });
  });

  it('has no sort order if the job asks for none, or if it has no key', () => {
    const layout = { formatVersion: 2, partitionBy: [] };
    const none = { 'order-id': 0, fields: [] };
    expect(createRequest(table, { ...layout, sort: [] })['write-order']).toEqual(none);
    expect(createRequest({ ...table, key: [] }, layout)['write-order']).toEqual(none);
  });

  it.each(['bucket(nobody, 4)', 'tags'])('is refused with a partition by %s, which it cannot have', (written) => {
    expect(() => createRequest(table, { formatVersion: 2, partitionBy: [written] })).toThrow('`partition_by` names');
  });
});

describe('a schema', () => {
  const fields: IcebergField[] = [
    { id: 1, name: 'id', required: false, type: 'string' },
    {
      id: 2,
      name: 'address',
      required: false,
      type: { type: 'struct', fields: [{ id: 3, name: 'city', required: false, type: 'string' }] },
    },
    { id: 4, name: 'points', required: false, type: 'decimal(10, 2)' },
  ];
  const present = metadata(fields, 4);
  const made = (commit: ReturnType<typeof addColumns>) =>
    (commit?.updates[0] as { schema: IcebergSchema; 'last-column-id': number } | undefined) ?? undefined;

  it('gets new columns with new ids, once', () => {
    const update = made(addColumns(present, [{ name: 'score', type: 'list<long>' }]));
    expect(update?.['last-column-id']).toBe(6);
    expect(update?.schema).toMatchObject({ 'schema-id': 4 });
    expect(update?.schema.fields[3]).toMatchObject({
      id: 5,
      name: 'score',
      type: { 'element-id': 6, element: 'long' },
    });
    expect(addColumns(present, [{ name: 'ADDRESS', type: 'string' }])).toBeUndefined();
  });

  it('keeps the ids of what stays, so that older files stay readable', () => {
    const type = 'struct<"city": string, "zip": string>';
    const [, address] = made(changeType(present, { name: 'address', type }))?.schema.fields ?? [];
    expect(address).toMatchObject({
      id: 2,
      type: {
        fields: [
          { id: 3, name: 'city' },
          { id: 5, name: 'zip' },
        ],
      },
    });
    const [, , points] = made(changeType(present, { name: 'points', type: 'decimal(38, 2)' }))?.schema.fields ?? [];
    expect(points).toEqual({ id: 4, name: 'points', required: false, type: 'decimal(38, 2)' });
  });

  it('has another field of the same name where Iceberg cannot widen a type', () => {
    const [, , points] = made(changeType(present, { name: 'points', type: 'string' }))?.schema.fields ?? [];
    expect(points).toEqual({ id: 5, name: 'points', required: false, type: 'string' });
    expect(changeType(present, { name: 'points', type: 'decimal(10, 2)' })).toBeUndefined();
  });

  it('changes only if nobody else changes it meanwhile', () => {
    expect(addColumns(present, [{ name: 'x', type: 'long' }])?.requirements).toEqual([
      { type: 'assert-table-uuid', uuid: 'uuid' },
      { type: 'assert-current-schema-id', 'current-schema-id': 3 },
      { type: 'assert-last-assigned-field-id', 'last-assigned-field-id': 4 },
    ]);
  });
});

describe('types', () => {
  it.each([
    ['long', 'long', true],
    ['int', 'long', true],
    ['long', 'double', false],
    ['long', 'string', false],
    ['decimal(10, 2)', 'decimal(12, 2)', true],
    ['decimal(10, 2)', 'decimal(12, 3)', false],
    ['struct<"a": long>', 'struct<"a": long, "b": string>', true],
    ['struct<"a": long, "b": string>', 'struct<"a": long>', false],
    ['list<struct<"a": decimal(3, 0)>>', 'list<struct<"a": decimal(38, 0)>>', true],
  ])('%s widens to %s: %s', (from, to, may) => {
    expect(widens(from, to)).toBe(may);
  });

  it('are read back from their texts', () => {
    const text = 'struct<"a, ""b"" <": list<struct<"x": decimal(38, 0)>>, "": string>';
    expect(typeText(parseTypeText(text, () => 0))).toBe(text);
  });

  it('hand over JSON as text, and integers of 128 bits as decimals', () => {
    const of = (type: StreamColumn['type']) => mapColumn(type);
    expect(of({ kind: 'json' })).toEqual({ type: 'string', as: 'VARCHAR' });
    expect(of({ kind: 'list', element: { kind: 'int128' } })).toEqual({
      type: 'list<decimal(38, 0)>',
      as: 'DECIMAL(38,0)[]',
    });
  });
});

describe('the statements of a load', () => {
  const fields = table.columns.map(({ name, type }, index) => ({ id: index, name, required: false, type }));
  const schema: IcebergSchema = { type: 'struct', 'schema-id': 0, fields };
  const own = { name: 'added by somebody', id: 9, required: false, type: 'string' };
  const change = (action: LoadAction, upserts: number, more: Partial<IcebergSchema> = {}) => {
    const task = {
      load: { table, action, deliveredAt: '2026-01-01T00:00:00.000Z' },
      files: ['/x'],
      rows: 5,
      sort: ['id'],
    };
    return changeOf(task as unknown as StagedLoad, { ...schema, ...more }, upserts);
  };
  const t = 'ice.ns.people';

  it('only insert what is appended, sorted', () => {
    const { remove, insert, replaces } = change({ type: 'append' }, 5);
    expect([remove, replaces]).toEqual([undefined, false]);
    expect(insert?.(t)).toMatch(/^INSERT INTO ice\.ns\.people .* ORDER BY "id"$/);
  });

  it('write all rows anew for a replacement, and for a mirror that is sent whole', () => {
    for (const action of [{ type: 'replace' }, { type: 'merge', absent: 'delete' }] as const) {
      expect(change(action, 5)).toMatchObject({ replaces: true, remove: undefined, inserted: 5 });
      const none = change(action, 0);
      expect([none.replaces, none.remove?.(t), none.insert]).toEqual([false, `DELETE FROM ${t}`, undefined]);
    }
  });

  it('delete once and insert once for a merge', () => {
    const { remove, insert, copies, replaces } = change({ type: 'merge', absent: 'keep' }, 5);
    expect([replaces, copies(t)]).toEqual([false, []]);
    expect(remove?.(t)).toContain('t."id" = s."id"');
    expect(insert?.(t)).toContain("_op = 'upsert'");
  });

  it('keep the values of columns that somebody else has added', () => {
    const merge = change({ type: 'merge', absent: 'keep' }, 5, { fields: [...fields, own] });
    expect(merge.copies(t)[0]).toContain('"added by somebody"');
    expect(merge.insert?.(t)).toContain('LEFT JOIN _cdsync_kept');
    expect(change({ type: 'merge', absent: 'delete' }, 5, { fields: [...fields, own] }).replaces).toBe(false);
  });

  it('write the rows that the load lacks once more, with their mark', () => {
    const { copies, remove, insert } = change({ type: 'merge', absent: 'mark' }, 5);
    expect(copies(t).join()).toContain("_deleted_at = '2026-01-01T00:00:00.000Z'");
    expect(remove?.(t)).toContain('_deleted_at IS NULL AND NOT EXISTS');
    expect(insert?.(t)).toContain('UNION ALL SELECT');
  });
});

describe('options', () => {
  it.each([
    [{ token: 'x', client_id: 'y', client_secret: 'z' }, 'not both'],
    [{ client_id: 'y' }, 'or neither'],
    [{ scope: 'x' }, 'needs `client_id`'],
    [{ access_key_id: 'x' }, 'or neither'],
    [{ endpoint: 'https://x' }, 'needs `access_key_id`'],
    [{ access_key_id: 'x', secret_access_key: 'y', credentials: 'environment' }, 'of no use'],
  ])('%j are refused', (given, message) => {
    expect(
      checkIceberg(given)
        .map((finding) => finding.message)
        .join(),
    ).toContain(message);
  });

  it('are taken with a login of the environment and an endpoint', () => {
    expect(checkIceberg({ credentials: 'environment', endpoint: 'https://x', region: 'y' })).toEqual([]);
  });
});
