import { type Marker, markerProperties, markerSummary } from './marker.js';
import type { TableCommit } from './schema-update.js';
import { currentSnapshotId, type Snapshot, type TableMetadata } from './table-metadata.js';

export type Update = Readonly<Record<string, unknown>>;

/** Counters of what a snapshot did; those that begin with `total-` say how the table is as of it. */
const counter = /^(added|deleted|removed|changed)-/;

function isSnapshotUpdate(update: Update): update is { readonly action: 'add-snapshot'; readonly snapshot: Snapshot } {
  return update.action === 'add-snapshot';
}

function summed(snapshots: readonly Snapshot[]): Record<string, string> {
  const sums = new Map<string, bigint>();
  for (const { summary } of snapshots) {
    for (const [name, value] of Object.entries(summary))
      if (counter.test(name) && /^\d+$/.test(value)) sums.set(name, (sums.get(name) ?? 0n) + BigInt(value));
  }
  return Object.fromEntries([...sums].map(([name, sum]) => [name, String(sum)]));
}

/** What a snapshot that replaces all of the base takes away. */
function takenAway(base: TableMetadata): Record<string, string> {
  const id = currentSnapshotId(base);
  const summary = base.snapshots?.find((each) => each['snapshot-id'] === id)?.summary ?? {};
  const pairs = [
    ['deleted-data-files', 'total-data-files'],
    ['deleted-records', 'total-records'],
    ['removed-delete-files', 'total-delete-files'],
  ] as const;
  return Object.fromEntries(
    pairs.flatMap(([name, total]) => (summary[total] === undefined ? [] : [[name, summary[total]]])),
  );
}

/**
 * The one snapshot that several, each upon the one before it, come to. The last one's manifest list names every file of the table, so
 * the others need not be kept: no reader, by time travel either, can then see the deletes of a load without its inserts.
 */
function folded(snapshots: readonly Snapshot[], base: TableMetadata, replaces: boolean): Record<string, unknown> {
  const last = snapshots.at(-1) as Snapshot;
  const { 'parent-snapshot-id': _, ...kept } = last;
  const operations = new Set(snapshots.map(({ summary }) => summary.operation));
  const operation = operations.size === 1 && !replaces ? (last.summary.operation ?? 'overwrite') : 'overwrite';
  const rowIds = snapshots.flatMap((each) => each['first-row-id'] ?? []);
  const lineage =
    rowIds.length === 0
      ? {}
      : {
          'first-row-id': Math.min(...rowIds),
          'added-rows': snapshots.reduce((sum, each) => sum + (each['added-rows'] ?? 0), 0),
        };
  const parent = currentSnapshotId(base);
  return {
    ...kept,
    ...(parent === null ? {} : { 'parent-snapshot-id': parent }),
    ...lineage,
    summary: { ...last.summary, ...summed(snapshots), ...(replaces ? takenAway(base) : {}), operation },
  };
}

/**
 * The commit of a load: the engine's snapshots as one, with the marker in its summary and in the properties of the table. It succeeds
 * only upon the snapshot that the load began from.
 * @param updates what the engine would commit; empty if no row changes
 * @param replaces whether the engine wrote its files as if the table had no others
 * @throws {Error} if the engine would change something else than the rows of the main branch
 */
export function loadCommit(
  { metadata: base, updates, replaces }: { metadata: TableMetadata; updates: readonly Update[]; replaces: boolean },
  marker: Marker,
): TableCommit {
  const snapshots = updates.filter(isSnapshotUpdate).map(({ snapshot }) => snapshot);
  const others = updates.filter(({ action }) => action !== 'add-snapshot' && action !== 'set-snapshot-ref');
  if (others.length > 0) throw new Error(`the engine would also ${others.map(({ action }) => action).join(', ')}`);
  const requirements = [
    { type: 'assert-table-uuid', uuid: base['table-uuid'] },
    { type: 'assert-ref-snapshot-id', ref: 'main', 'snapshot-id': currentSnapshotId(base) },
  ];
  const properties = { action: 'set-properties', updates: markerProperties(marker) };
  if (snapshots.length === 0) return { requirements, updates: [properties] };
  const snapshot = folded(snapshots, base, replaces);
  const summary = { ...(snapshot.summary as Record<string, string>), ...markerSummary(marker) };
  const reference = { 'ref-name': 'main', type: 'branch', 'snapshot-id': snapshot['snapshot-id'] };
  return {
    requirements,
    updates: [
      { action: 'add-snapshot', snapshot: { ...snapshot, summary } },
      { action: 'set-snapshot-ref', ...reference },
      properties,
    ],
  };
}

/** The metadata of a table as if it had no rows: what an engine writes upon it replaces all rows. */
export function withoutRows(metadata: TableMetadata): TableMetadata {
  const { 'current-snapshot-id': _, ...rest } = metadata;
  return { ...rest, snapshots: [], refs: {}, 'snapshot-log': [] } as TableMetadata;
}
