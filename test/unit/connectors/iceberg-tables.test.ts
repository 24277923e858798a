import { describe, expect, it } from 'vitest';
import { checkIceberg } from '../../../connectors/iceberg/options.js';
import { parsePartition } from '../../../connectors/iceberg/partition.js';
import { createRequest, schemaChange } from '../../../connectors/iceberg/schema-update.js';
import type { IcebergField, TableMetadata } from '../../../connectors/iceberg/table-metadata.js';
import { mapColumn, parseTypeText, typeText, widens } from '../../../connectors/iceberg/types.js';
import { parseColumnType, type StreamColumn } from '../../../src/sdk/index.js';

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

  it.each(['bucket(absent, 4)', 'tags'])('is refused with a partition by %s, which it cannot have', (written) => {
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
  const changed = (name: string, type: string) => schemaChange(present, [], [{ name, type }]);

  it('gets new columns with new ids, once', () => {
    const { lastId, schema } = schemaChange(present, [{ name: 'score', type: 'list<long>' }], []) ?? {};
    expect(lastId).toBe(6);
    expect(schema).toMatchObject({ 'schema-id': 4 });
    expect(schema?.fields[3]).toMatchObject({
      id: 5,
      name: 'score',
      type: { 'element-id': 6, element: 'long' },
    });
    expect(schemaChange(present, [{ name: 'ADDRESS', type: 'string' }], [])).toBeUndefined();
  });

  it('keeps the ids of what stays, so that older files stay readable', () => {
    const [, address] = changed('address', 'struct<"zip": string, "city": string>')?.schema.fields ?? [];
    expect(address).toMatchObject({
      id: 2,
      type: {
        fields: [
          { id: 5, name: 'zip' },
          { id: 3, name: 'city' },
        ],
      },
    });
    const [, , points] = changed('points', 'decimal(38, 2)')?.schema.fields ?? [];
    expect(points).toEqual({ id: 4, name: 'points', required: false, type: 'decimal(38, 2)' });
    expect(changed('points', 'decimal(10, 2)')).toBeUndefined();
  });

  it('changes only if no one else changes it in between', () => {
    expect(schemaChange(present, [{ name: 'x', type: 'long' }], [])?.commit.requirements).toEqual([
      { type: 'assert-last-assigned-field-id', 'last-assigned-field-id': 4 },
    ]);
  });
});

describe('types', () => {
  it.each([
    ['BIGINT', 'BIGINT', true],
    ['BIGINT', 'DOUBLE', false],
    ['BIGINT', 'HUGEINT', false],
    ['BIGINT', 'VARCHAR', false],
    ['VARCHAR', 'JSON', false],
    ['DECIMAL(10,2)', 'DECIMAL(12,2)', true],
    ['DECIMAL(10,2)', 'DECIMAL(12,3)', false],
    ['DECIMAL(10,0)', 'HUGEINT', true],
    ['STRUCT(a BIGINT)', 'STRUCT(a BIGINT, b VARCHAR)', true],
    ['STRUCT(a BIGINT, b VARCHAR)', 'STRUCT(a BIGINT)', false],
    ['STRUCT(a VARCHAR)', 'STRUCT(a JSON)', false],
    ['STRUCT(a DECIMAL(3,0))[]', 'STRUCT(a HUGEINT)[]', true],
  ])('%s widens to %s: %s', (from, to, may) => {
    expect(widens(parseColumnType(from), parseColumnType(to))).toBe(may);
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

describe('options', () => {
  it.each([
    [{ token: 'x', client_id: 'y', client_secret: 'z' }, 'not both'],
    [{ client_id: 'y' }, 'or neither'],
    [{ scope: 'x' }, 'needs `client_id`'],
    [{ access_key_id: 'x' }, 'or neither'],
    [{ endpoint: 'https://x' }, 'needs `access_key_id`'],
    [{ access_key_id: 'x', secret_access_key: 'y', credentials: 'environment' }, 'of no use'],
  ])('%j are refused', (input, message) => {
    expect(
      checkIceberg(input)
        .map((finding) => finding.message)
        .join(),
    ).toContain(message);
  });

  it('are taken with a login of the environment and an endpoint', () => {
    expect(checkIceberg({ credentials: 'environment', endpoint: 'https://x', region: 'y' })).toEqual([]);
  });
});
