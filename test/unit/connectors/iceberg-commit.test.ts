import { describe, expect, it } from 'vitest';
import { parseExact, stringifyExact } from '../../../connectors/iceberg/exact-json.js';
import { isDone, knownEmpty } from '../../../connectors/iceberg/load.js';
import { loadCommit, type Update, withoutRows } from '../../../connectors/iceberg/load-commit.js';
import { type Marker, markerProperties, markersOf } from '../../../connectors/iceberg/marker.js';
import type { Snapshot, TableMetadata } from '../../../connectors/iceberg/table-metadata.js';
import type { Load, Watermark } from '../../../src/sdk/index.js';

const watermark: Watermark = {
  destination: 'lake',
  stream: 'people',
  table: 'people',
  storeId: 'store',
  sequence: 7,
  definition: 'd',
  deliveredAt: '2026-01-02T03:04:05.678Z',
};
const marker: Marker = { watermark, load: 'load-7' };

function snapshot(id: bigint, parent: bigint | undefined, summary: Record<string, string>): Snapshot {
  const of = parent === undefined ? {} : { 'parent-snapshot-id': parent };
  return { 'snapshot-id': id, ...of, 'timestamp-ms': 1, 'manifest-list': `s3://lake/${id}.avro`, summary };
}

function metadata(more: Partial<TableMetadata> = {}): TableMetadata {
  return {
    'format-version': 2,
    'table-uuid': 'uuid',
    location: 's3://lake/people',
    'last-column-id': 2,
    'current-schema-id': 0,
    schemas: [{ type: 'struct', 'schema-id': 0, fields: [] }],
    ...more,
  };
}

const base = metadata({
  'current-snapshot-id': 7097710513843488784n,
  snapshots: [snapshot(7097710513843488784n, undefined, { 'total-records': '100', 'total-data-files': '2' })],
});

/** What DuckDB commits for a delete and an insert. */
const updates: readonly Update[] = [
  {
    action: 'add-snapshot',
    snapshot: snapshot(11n, 7097710513843488784n, {
      operation: 'delete',
      'added-position-deletes': '15',
      'added-delete-files': '1',
      'total-records': '100',
    }),
  },
  {
    action: 'add-snapshot',
    snapshot: snapshot(12n, 11n, {
      operation: 'append',
      'added-records': '10',
      'added-data-files': '1',
      'total-records': '110',
    }),
  },
  { action: 'set-snapshot-ref', 'ref-name': 'main', type: 'branch', 'snapshot-id': 12n },
];

describe('the commit of a load', () => {
  const commit = loadCommit({ metadata: base, updates, replaces: false }, marker);
  const added = commit.updates.filter(({ action }) => action === 'add-snapshot');
  const { snapshot: one } = added[0] as { snapshot: Snapshot };

  it('makes one snapshot of a delete and an insert, upon the one that the load began from', () => {
    expect(added).toHaveLength(1);
    expect(one).toMatchObject({
      'snapshot-id': 12n,
      'parent-snapshot-id': 7097710513843488784n,
      'manifest-list': 's3://lake/12.avro',
    });
    expect(one.summary).toMatchObject({
      operation: 'overwrite',
      'added-position-deletes': '15',
      'added-records': '10',
      'total-records': '110',
    });
  });

  it('sets the watermark with the rows, in the properties and in the summary of the snapshot', () => {
    expect(commit.updates.at(-1)).toEqual({ action: 'set-properties', updates: markerProperties(marker) });
    expect(one.summary).toMatchObject({ 'cdsync.sequence': '7', 'cdsync.load': 'load-7' });
  });

  it('holds only upon the same table and snapshot', () => {
    expect(commit.requirements).toEqual([
      { type: 'assert-table-uuid', uuid: 'uuid' },
      { type: 'assert-ref-snapshot-id', ref: 'main', 'snapshot-id': 7097710513843488784n },
    ]);
    const first = loadCommit({ metadata: metadata(), updates, replaces: false }, marker);
    expect(first.requirements).toContainEqual({ type: 'assert-ref-snapshot-id', ref: 'main', 'snapshot-id': null });
  });

  it('keeps an insert alone an append', () => {
    const insert = updates.slice(1);
    const { updates: made } = loadCommit({ metadata: base, updates: insert, replaces: false }, marker);
    expect((made[0] as { snapshot: Snapshot }).snapshot.summary.operation).toBe('append');
  });

  it('counts what a replacement takes away, and follows the snapshot that it replaces', () => {
    const insert = [{ action: 'add-snapshot', snapshot: snapshot(12n, undefined, { operation: 'append' }) }];
    const { updates: made } = loadCommit({ metadata: base, updates: insert, replaces: true }, marker);
    const { snapshot: replaced } = made[0] as { snapshot: Snapshot };
    expect(replaced['parent-snapshot-id']).toBe(7097710513843488784n);
    expect(replaced.summary).toMatchObject({
      operation: 'overwrite',
      'deleted-records': '100',
      'deleted-data-files': '2',
    });
    expect(withoutRows(base)).toMatchObject({ snapshots: [] });
    expect(withoutRows(base)).not.toHaveProperty('current-snapshot-id');
  });

  it('adds up the row ids of format 3', () => {
    const lineage = updates.map((update, index) =>
      update.action === 'add-snapshot'
        ? { ...update, snapshot: { ...(update.snapshot as Snapshot), 'first-row-id': 100, 'added-rows': index * 10 } }
        : update,
    );
    const { updates: made } = loadCommit({ metadata: base, updates: lineage, replaces: false }, marker);
    expect((made[0] as { snapshot: Snapshot }).snapshot).toMatchObject({ 'first-row-id': 100, 'added-rows': 10 });
  });

  it('moves only the watermark if no row changes', () => {
    expect(loadCommit({ metadata: base, updates: [], replaces: false }, marker).updates).toEqual([
      { action: 'set-properties', updates: markerProperties(marker) },
    ]);
  });

  it('refuses what is no change of rows', () => {
    const schema = [{ action: 'add-schema' }];
    expect(() => loadCommit({ metadata: base, updates: schema, replaces: false }, marker)).toThrow('add-schema');
  });
});

describe('the marker of a load', () => {
  const marked = metadata({ properties: { ...markerProperties(marker), other: 'x', 'cdsync.watermark.a.b': '{"x"' } });
  const load = (more: Partial<Load>) =>
    ({
      id: 'load-8',
      stream: 'people',
      table: { name: 'people', columns: [], key: [] },
      before: watermark,
      after: { ...watermark, sequence: 8, deliveredAt: '2026-01-03T00:00:00.000Z' },
      ...more,
    }) as Load;

  it('is read as it was written; a damaged one counts as missing', () => {
    expect(markersOf(marked, 'people')).toEqual([marker]);
  });

  it('lets a load begin if it is as it was read', () => {
    expect(isDone(marked, load({}))).toBe(false);
    expect(isDone(metadata(), load({ before: undefined }))).toBe(false);
  });

  it('shows that an earlier attempt at the same rows has arrived', () => {
    expect(isDone(marked, load({ id: 'load-7', before: undefined }))).toBe(true);
  });

  it('begins again what is asked for once more, although the same rows have arrived before', () => {
    expect(isDone(marked, load({ id: 'load-7' }))).toBe(false);
  });

  it('shows that another delivery was quicker', () => {
    expect(() => isDone(marked, load({ before: undefined }))).toThrow('another delivery');
    expect(() => isDone(metadata(), load({}))).toThrow('another delivery');
  });

  it('may stand in the table that the stream had before', () => {
    expect(isDone(metadata(), load({ before: { ...watermark, table: 'old' } }))).toBe(false);
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

  it('are told from doubles of many digits', () => {
    const texts = ['0.1234567890123456789', '12345678901234567.5', '1e20'];
    expect(parseExact(`[${texts.join()}]`)).toEqual(texts.map(Number));
  });
});

it('knows from its summary whether a table has rows, if deletes leave no doubt', () => {
  const of = (summary: Record<string, string>) =>
    knownEmpty(
      metadata({ 'current-snapshot-id': 1, snapshots: [{ ...snapshot(1n, undefined, summary), 'snapshot-id': 1 }] }),
    );
  expect(knownEmpty(metadata())).toBe(true);
  expect(knownEmpty(metadata({ 'current-snapshot-id': -1 }))).toBe(true);
  expect(of({ 'total-records': '0' })).toBe(true);
  expect(of({ 'total-records': '10', 'total-position-deletes': '9' })).toBe(false);
  expect(of({ 'total-records': '10', 'total-position-deletes': '10' })).toBeUndefined();
  expect(of({})).toBeUndefined();
});
