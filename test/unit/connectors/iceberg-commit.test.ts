import { describe, expect, it } from 'vitest';
import { parseExact, stringifyExact } from '../../../connectors/iceberg/exact-json.js';
import {
  recordProperties,
  recordsOf,
  recordUpdates,
  stampOf,
  summaryOf,
} from '../../../connectors/iceberg/record-property.js';
import { TableDraft, type Update } from '../../../connectors/iceberg/table-draft.js';
import type { Snapshot, TableMetadata } from '../../../connectors/iceberg/table-metadata.js';

function snapshot(id: bigint, parent: bigint | undefined, summary: Record<string, string>): Snapshot {
  const of = parent === undefined ? {} : { 'parent-snapshot-id': parent };
  return { 'snapshot-id': id, ...of, 'timestamp-ms': Number(id), 'manifest-list': `s3://lake/${id}.avro`, summary };
}

function metadata(more: Partial<TableMetadata> = {}): TableMetadata {
  return {
    'format-version': 2,
    'table-uuid': 'uuid',
    location: 's3://lake/people',
    'last-column-id': 1,
    'current-schema-id': 0,
    schemas: [{ type: 'struct', 'schema-id': 0, fields: [{ id: 1, name: 'id', required: false, type: 'string' }] }],
    ...more,
  };
}

const old = 7097710513843488784n;
const base = metadata({
  'current-snapshot-id': old,
  snapshots: [snapshot(old, undefined, { 'total-records': '100', 'total-data-files': '2' })],
});

const removal: Update = {
  action: 'add-snapshot',
  snapshot: snapshot(11n, old, {
    operation: 'delete',
    'added-position-deletes': '15',
    'added-delete-files': '1',
    'total-records': '100',
  }),
};
const insert: Update = {
  action: 'add-snapshot',
  snapshot: snapshot(12n, 11n, {
    operation: 'append',
    'added-records': '10',
    'added-data-files': '1',
    'total-records': '110',
  }),
};
const moved: Update = { action: 'set-snapshot-ref', 'ref-name': 'main', type: 'branch', 'snapshot-id': 12n };
const property: Update = { action: 'set-properties', updates: { a: 'b' } };

/** The commit that the catalog gets for a load in which an engine makes these commits, one after the other. */
function commitOf(of: TableMetadata, ...commits: readonly (readonly Update[])[]) {
  const draft = new TableDraft({ metadata: of });
  for (const updates of commits) draft.apply(updates);
  const { requirements, updates } = draft.commit({ 'cdsync.load': '7:a' }, [property]);
  const added = updates.filter(({ action }) => action === 'add-snapshot');
  return { requirements, updates, added, one: (added[0] as { snapshot: Snapshot } | undefined)?.snapshot };
}

describe('the commit of a load', () => {
  it('makes one snapshot of a delete and an insert, on the one that the load began from', () => {
    const { added, one } = commitOf(base, [removal], [insert, moved]);
    expect(added).toHaveLength(1);
    expect(one).toMatchObject({
      'snapshot-id': 12n,
      'parent-snapshot-id': old,
      'manifest-list': 's3://lake/12.avro',
    });
    expect(one?.summary).toMatchObject({
      operation: 'overwrite',
      'added-position-deletes': '15',
      'added-records': '10',
      'total-records': '110',
      'cdsync.load': '7:a',
    });
  });

  it('sets the record with the rows', () => {
    expect(commitOf(base, [removal, insert, moved]).updates.slice(1)).toEqual([moved, property]);
  });

  it('holds only on the same table, snapshot and schema', () => {
    expect(commitOf(base, [insert]).requirements).toEqual([
      { type: 'assert-table-uuid', uuid: 'uuid' },
      { type: 'assert-ref-snapshot-id', ref: 'main', 'snapshot-id': old },
      { type: 'assert-current-schema-id', 'current-schema-id': 0 },
    ]);
    const none = { type: 'assert-ref-snapshot-id', ref: 'main', 'snapshot-id': null };
    expect(commitOf(metadata(), [insert]).requirements).toContainEqual(none);
  });

  it('keeps an insert alone an append', () => {
    expect(commitOf(base, [insert]).one?.summary.operation).toBe('append');
  });

  it('has the new schema too, which the engine has seen before', () => {
    const draft = new TableDraft({ metadata: base });
    const column = { name: 'score', type: 'long', kind: { kind: 'int64' } } as const;
    draft.changeSchema([column], []);
    expect(draft.loaded.metadata).toMatchObject({ 'current-schema-id': 1, 'last-column-id': 2 });
    draft.apply([insert]);
    const { requirements, updates } = draft.commit({}, []);
    expect(requirements).toContainEqual({ type: 'assert-last-assigned-field-id', 'last-assigned-field-id': 1 });
    expect(updates.map(({ action }) => action)).toEqual([
      'add-schema',
      'set-current-schema',
      'add-snapshot',
      'set-snapshot-ref',
    ]);
  });

  it('counts the rows and files that a replacement removes, and follows the snapshot that it replaces', () => {
    const draft = new TableDraft({ metadata: base });
    draft.apply([removal]);
    draft.truncate();
    expect(draft.loaded.metadata).toMatchObject({ snapshots: [] });
    expect(draft.loaded.metadata).not.toHaveProperty('current-snapshot-id');
    draft.apply([{ action: 'add-snapshot', snapshot: snapshot(13n, undefined, { operation: 'append' }) }]);
    const added = draft.commit({}, []).updates.filter(({ action }) => action === 'add-snapshot');
    expect(added).toHaveLength(1);
    const { snapshot: replaced } = added[0] as unknown as { snapshot: Snapshot };
    expect(replaced['parent-snapshot-id']).toBe(old);
    expect(replaced.summary).toEqual({
      operation: 'overwrite',
      'deleted-records': '100',
      'deleted-data-files': '2',
    });
  });

  it('adds up the row ids of format 3', () => {
    const lineage = [removal, insert].map((update, index) => ({
      ...update,
      snapshot: { ...(update.snapshot as Snapshot), 'first-row-id': 100, 'added-rows': index * 10 },
    }));
    expect(commitOf(base, lineage).one).toMatchObject({ 'first-row-id': 100, 'added-rows': 10 });
  });

  it('has the record alone if no row changes', () => {
    expect(commitOf(base).updates).toEqual([property]);
  });

  it('refuses an update that is not a change of rows', () => {
    expect(() => commitOf(base, [{ action: 'add-schema' }])).toThrow('add-schema');
  });
});

it('shows the engine the present snapshot alone, whatever the times of others are', () => {
  const draft = new TableDraft({ metadata: base });
  draft.apply([removal]);
  draft.apply([insert]);
  const { snapshots, ...shown } = draft.loaded.metadata;
  expect(snapshots?.map((each) => each['snapshot-id'])).toEqual([12n]);
  expect(shown).toMatchObject({
    'current-snapshot-id': 12n,
    'last-updated-ms': 12,
    refs: { main: { type: 'branch' } },
  });
});

describe('the record of a table', () => {
  const key = { destination: 'lake', stream: '2024', table: 'people' };
  const record = (length: number) => JSON.stringify({ sequence: 7, why: '"é\u{1f600}'.repeat(length) });
  const withRecord = (length: number) =>
    metadata({ properties: { ...recordProperties(key, 3, record(length)), x: 'y' } });

  it('is read as it was written', () => {
    expect(recordsOf(withRecord(1), 'people')).toEqual([{ ...key, version: 3, record: record(1) }]);
  });

  it('is in several properties, of less than 4,000 bytes each, if it is long', () => {
    const long = withRecord(2000);
    const values = Object.values(long.properties ?? {});
    expect(values.length).toBeGreaterThan(3);
    expect(Math.max(...values.map((value) => Buffer.byteLength(value)))).toBeLessThan(4000);
    expect(recordsOf(long, 'people')).toEqual([{ ...key, version: 3, record: record(2000) }]);
  });

  it('leaves no part of a longer record before it, nor of the records that it replaces', () => {
    const other = { ...key, stream: 'other' };
    const properties = {
      ...withRecord(2000).properties,
      ...recordProperties(other, 1, record(1)),
    };
    const before = metadata({ properties });
    const [set, removed] = recordUpdates(before, { ...key, version: 4, record: record(1) }, [other]);
    const gone = new Set(removed?.removals as string[]);
    const rest = Object.entries(properties).filter(([name]) => !gone.has(name));
    const after = metadata({ properties: { ...Object.fromEntries(rest), ...(set?.updates as object) } });
    expect(recordsOf(after, 'people')).toEqual([{ ...key, version: 4, record: record(1) }]);
    expect(Object.keys(after.properties ?? {}).sort()).toEqual(['cdsync.record.lake.2024', 'x']);
  });

  it('is returned as it is if it is damaged', () => {
    const damaged = metadata({ properties: { 'cdsync.record.lake.2024': '{"x' } });
    expect(recordsOf(damaged, 'people')).toEqual([{ ...key, version: 0, record: '{"x' }]);
  });
});

describe('the load that a table is of', () => {
  const table = (...snapshots: readonly Snapshot[]) =>
    metadata({ snapshots, 'current-snapshot-id': snapshots.at(-1)?.['snapshot-id'] ?? null });
  const ours = snapshot(1n, undefined, { operation: 'append', 'cdsync.load': '3:abc' });

  it.each([
    ['is that of its snapshot', table(ours), '3:abc'],
    ['stays the same after a compaction', table(ours, snapshot(2n, 1n, { operation: 'replace' })), '3:abc'],
    ['is another if others have changed rows', table(ours, snapshot(2n, 1n, { operation: 'overwrite' })), '3:changed'],
    ['is none if the table never had rows', table(), null],
    ['is none if others have made all of its rows', table(snapshot(2n, undefined, { operation: 'append' })), null],
    [
      'is not known if a compaction has followed one that expired',
      table(snapshot(2n, 1n, { operation: 'replace' })),
      undefined,
    ],
    ['is none if a change has followed one that expired', table(snapshot(2n, 1n, { operation: 'delete' })), null],
  ])('%s', (_, found, stamp) => {
    expect(stampOf(found)).toBe(stamp);
  });

  it('is in the summary, with everything that is known of the load', () => {
    const line = { load: '3:abc', run_id: 'r', rows_after: 7, why: '' };
    expect(summaryOf(line)).toEqual({ 'cdsync.load': '3:abc', 'cdsync.run-id': 'r', 'cdsync.rows-after': '7' });
  });
});

describe('ids of 64 bits', () => {
  it('survive a way through JSON', () => {
    const text =
      '{"a":7097710513843488784,"b":-9223372036854775808,"c":"7097710513843488784","d":1.5,"e":12,"f":"\\"1"}';
    const value = parseExact(text) as Record<string, unknown>;
    expect(value).toMatchObject({ a: 7097710513843488784n, c: '7097710513843488784', d: 1.5, e: 12 });
    expect(stringifyExact(value)).toBe(text);
  });

  it('are distinguished from doubles of many digits', () => {
    const texts = ['0.1234567890123456789', '12345678901234567.5', '1e20'];
    expect(parseExact(`[${texts.join()}]`)).toEqual(texts.map(Number));
  });
});
