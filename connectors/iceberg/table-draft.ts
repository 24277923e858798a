import type { TargetColumn } from '../../src/sdk/index.js';
import { schemaChange, type TableCommit } from './schema-update.js';
import {
  currentSnapshot,
  currentSnapshotId,
  type LoadedTable,
  type Snapshot,
  type TableMetadata,
} from './table-metadata.js';

export type Update = Readonly<Record<string, unknown>>;

/** Counters of a snapshot's changes; those that begin with `total-` describe the table after it. */
const counter = /^(added|deleted|removed|changed)-/;

function summed(snapshots: readonly Snapshot[]): Record<string, string> {
  const sums = new Map<string, bigint>();
  for (const { summary } of snapshots) {
    for (const [name, value] of Object.entries(summary))
      if (counter.test(name) && /^\d+$/.test(value)) sums.set(name, (sums.get(name) ?? 0n) + BigInt(value));
  }
  return Object.fromEntries([...sums].map(([name, sum]) => [name, String(sum)]));
}

/** The counters of a snapshot that removes all rows of the base. */
function takenAway(base: TableMetadata): Record<string, string> {
  const summary = currentSnapshot(base)?.summary ?? {};
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
 * A table as a load makes it. Engines read and change it while the load is under way. Each of their statements adds a snapshot here;
 * the catalog gets one commit in the end, or none.
 */
export class TableDraft {
  readonly base: LoadedTable;
  #metadata: TableMetadata;
  #snapshots: Snapshot[] = [];
  #replaces = false;
  #schema: TableCommit | undefined;

  constructor(base: LoadedTable) {
    this.base = base;
    this.#metadata = base.metadata;
  }

  /** The catalog's response for the table, as engines get it: with one snapshot, because DuckDB chooses among several by their times. */
  get loaded(): LoadedTable {
    const current = currentSnapshot(this.#metadata);
    const time = current === undefined ? {} : { 'last-updated-ms': current['timestamp-ms'] };
    const snapshots = current === undefined ? [] : [current];
    return { ...this.base, metadata: { ...this.#metadata, ...time, snapshots, 'snapshot-log': [] } };
  }

  get metadata(): TableMetadata {
    return this.#metadata;
  }

  get hasSnapshot(): boolean {
    return this.#snapshots.length > 0;
  }

  /** Adds columns, and gives others a wider type. Call it before any snapshot. */
  changeSchema(add: readonly TargetColumn[], widen: readonly TargetColumn[]): void {
    const change = schemaChange(this.#metadata, add, widen);
    if (change === undefined) return;
    const { schema, commit } = change;
    this.#schema = commit;
    this.#metadata = {
      ...this.#metadata,
      schemas: [...this.#metadata.schemas, schema],
      'current-schema-id': schema['schema-id'],
      'last-column-id': change.lastId,
    };
  }

  /** The table has no rows from here on: the next snapshot replaces all of them. */
  truncate(): void {
    const { 'current-snapshot-id': _, ...rest } = this.#metadata;
    this.#metadata = { ...rest, snapshots: [], refs: {}, 'snapshot-log': [] };
    this.#snapshots = [];
    this.#replaces = true;
  }

  /**
   * Takes the commit of an engine.
   * @throws {Error} if it has changed something else than the rows of the main branch
   */
  apply(updates: readonly Update[]): void {
    const others = updates.filter(({ action }) => action !== 'add-snapshot' && action !== 'set-snapshot-ref');
    if (others.length > 0) throw new Error(`the engine would also ${others.map(({ action }) => action).join(', ')}`);
    for (const { snapshot } of updates as readonly { readonly snapshot?: Snapshot }[]) {
      if (snapshot === undefined) continue;
      const id = snapshot['snapshot-id'];
      const rowIds = snapshot['first-row-id'];
      this.#snapshots.push(snapshot);
      this.#metadata = {
        ...this.#metadata,
        snapshots: [...(this.#metadata.snapshots ?? []), snapshot],
        'current-snapshot-id': id,
        refs: { ...this.#metadata.refs, main: { 'snapshot-id': id, type: 'branch' } },
        ...(snapshot['sequence-number'] === undefined ? {} : { 'last-sequence-number': snapshot['sequence-number'] }),
        ...(rowIds === undefined ? {} : { 'next-row-id': rowIds + (snapshot['added-rows'] ?? 0) }),
      };
    }
  }

  /**
   * The commit of it all: schema, rows and properties at once, as one snapshot. It holds only on the schema and the snapshot that the
   * load began from.
   * @param about the load, for the summary of its snapshot
   * @param properties updates of the table's properties
   */
  commit(about: Readonly<Record<string, string>>, properties: readonly Update[]): TableCommit {
    const { metadata } = this.base;
    const requirements = [
      { type: 'assert-table-uuid', uuid: metadata['table-uuid'] },
      { type: 'assert-ref-snapshot-id', ref: 'main', 'snapshot-id': currentSnapshotId(metadata) },
      { type: 'assert-current-schema-id', 'current-schema-id': metadata['current-schema-id'] },
      ...(this.#schema?.requirements ?? []),
    ];
    const updates: Update[] = [...(this.#schema?.updates ?? [])];
    if (this.hasSnapshot) {
      const snapshot = this.#folded();
      const summary = { ...(snapshot.summary as Record<string, string>), ...about };
      const reference = { 'ref-name': 'main', type: 'branch', 'snapshot-id': snapshot['snapshot-id'] };
      updates.push({ action: 'add-snapshot', snapshot: { ...snapshot, summary } });
      updates.push({ action: 'set-snapshot-ref', ...reference });
    }
    return { requirements, updates: [...updates, ...properties] };
  }

  /**
   * The one snapshot that several, each on the one before it, come to. The last one's manifest list names every file of the table, so
   * the others need not be kept: no reader, by time travel either, can then see the deletes of a load without its inserts.
   */
  #folded(): Record<string, unknown> {
    const base = this.base.metadata;
    const snapshots = this.#snapshots;
    const last = snapshots.at(-1) as Snapshot;
    const { 'parent-snapshot-id': _, ...kept } = last;
    const operations = new Set(snapshots.map(({ summary }) => summary.operation));
    const isOne = operations.size === 1 && !this.#replaces;
    const operation = isOne ? (last.summary.operation ?? 'overwrite') : 'overwrite';
    const rowIds = snapshots.flatMap((snapshot) => snapshot['first-row-id'] ?? []);
    const lineage =
      rowIds.length === 0
        ? {}
        : {
            'first-row-id': Math.min(...rowIds),
            'added-rows': snapshots.reduce((sum, snapshot) => sum + (snapshot['added-rows'] ?? 0), 0),
          };
    const parent = currentSnapshotId(base);
    return {
      ...kept,
      ...(parent === null ? {} : { 'parent-snapshot-id': parent }),
      ...lineage,
      summary: { ...last.summary, ...summed(snapshots), ...(this.#replaces ? takenAway(base) : {}), operation },
    };
  }
}
