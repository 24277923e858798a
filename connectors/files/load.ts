import { createHash } from 'node:crypto';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import {
  type ColumnSum,
  type DestinationContext,
  isNested,
  type Load,
  loadRefused,
  parseColumnType,
  type SchemaChange,
  sameWatermark,
  type TableColumn,
  type TableDescription,
  type TableDestination,
  type TargetTable,
  type Watermark,
  watermarkMoved,
} from '../../src/sdk/index.js';
import { checksumSql } from './checksum.js';
import { folderOf, type Layout, type Manifest, savedWatermark, setName, TableSets, watermarkOf } from './manifest.js';
import { makeSet } from './new-set.js';
import type { FilesShape } from './options.js';
import { orderSql, SetWriter } from './set-writer.js';
import type { FileStore } from './store.js';
import { TableReader } from './table-reader.js';
import { identifier } from './types.js';
import { Workbench } from './workbench.js';

/** Tables made of files, in a folder or an object store. */
export class FilesDestination implements TableDestination {
  readonly #store: FileStore;
  readonly #context: DestinationContext<FilesShape>;
  readonly #reader: TableReader;
  /** The manifest of each table's folder, as last read. */
  readonly #seen = new Map<string, Manifest>();
  #bench: Workbench | undefined;

  constructor(store: FileStore, context: DestinationContext<FilesShape>) {
    this.#store = store;
    this.#context = context;
    this.#reader = new TableReader(store, context.folder);
  }

  async watermarks(): Promise<Watermark[]> {
    const folders = await this.#store.folders();
    await Promise.all(
      folders.map(async (folder) => {
        const manifest = await this.#look(folder);
        // A load may have been cut short between its commit and this step.
        if (manifest !== undefined) await new TableSets(this.#store, folder).publish(manifest);
      }),
    );
    return this.#watermarks();
  }

  async describe(table: string): Promise<TableDescription | undefined> {
    const found = await this.#look(folderOf(table));
    return found === undefined ? undefined : { columns: found.schema, isEmpty: found.rows === 0 };
  }

  async prepare(table: TargetTable, change: SchemaChange): Promise<void> {
    const found = await this.#look(folderOf(table.name));
    if (change.type === 'create') return found === undefined ? this.#create(table) : undefined;
    const manifest = found ?? (await this.#known(table.name));
    if (change.type === 'change_type') return this.#changeType(manifest, change.column);
    const there = new Set(manifest.schema.map(({ name }) => name));
    const added = change.columns.filter(({ name }) => !there.has(name)).map(({ name, type }) => ({ name, type }));
    if (added.length > 0) await this.#moveOn(manifest, { schema: [...manifest.schema, ...added] }, table.name);
  }

  async isColumnEmpty(table: string, column: string): Promise<boolean> {
    const found = await this.#known(table);
    const columns = found.schema.filter(({ name }) => name === column);
    const rows = await this.#reader.query(found, columns);
    return (await (await this.#workbench()).number(`SELECT count(${identifier(column)}) FROM (${rows})`)) === 0;
  }

  async load(load: Load): Promise<void> {
    load.signal.throwIfAborted();
    const bench = await this.#workbench();
    const interrupt = () => bench.interrupt();
    load.signal.addEventListener('abort', interrupt);
    try {
      const { table, after, before, stream, signal } = load;
      const found = await this.#known(table.name, true);
      const own = this.#watermarks().find((each) => each.destination === after.destination && each.stream === stream);
      if (!sameWatermark(own, before)) throw watermarkMoved(stream);
      this.#checkPartitions(table.columns, table.name);
      const [reader, folder] = [this.#reader, join(this.#context.folder, 'staged')];
      const writer = this.#writer(bench, found, load.id);
      const set = await makeSet({ load, found, bench, reader, writer, layout: this.#layout, folder });
      signal.throwIfAborted();
      await this.#moveOn(found, { ...set, watermark: savedWatermark(after) }, stream);
    } finally {
      load.signal.removeEventListener('abort', interrupt);
    }
  }

  /** The number that the manifest states, after a check that every file exists with its full length. */
  async count(table: string, live: boolean): Promise<number> {
    const found = await this.#known(table);
    await this.#reader.checkAll(found);
    return live ? found.live_rows : found.rows;
  }

  async checksum(
    table: string,
    columns: readonly TableColumn[],
    live: boolean,
  ): Promise<ReadonlyMap<string, ColumnSum>> {
    const found = await this.#known(table);
    const rows = await this.#reader.query(found, found.schema);
    const [sums = {}] = await (await this.#workbench()).rows(checksumSql(rows, columns, live));
    return new Map(
      columns.map(({ name }, index) => {
        const sum = sums[`s${index}`];
        return [name, { values: Number(sums[`n${index}`]), sum: typeof sum === 'string' ? sum : undefined }];
      }),
    );
  }

  async close(): Promise<void> {
    await this.#bench?.close();
    this.#store.close();
  }

  async #workbench(): Promise<Workbench> {
    const { folder, options } = this.#context;
    await mkdir(folder, { recursive: true, mode: 0o700 });
    this.#bench ??= await Workbench.open(folder, options.memoryMb);
    return this.#bench;
  }

  async #look(folder: string): Promise<Manifest | undefined> {
    const manifest = await new TableSets(this.#store, folder).newest();
    if (manifest === undefined) this.#seen.delete(folder);
    else this.#seen.set(folder, manifest);
    return manifest;
  }

  /** @param anew reads the manifest again, because another delivery may have changed it */
  async #known(table: string, anew = false): Promise<Manifest> {
    const folder = folderOf(table);
    const found = (anew ? undefined : this.#seen.get(folder)) ?? (await this.#look(folder));
    if (found === undefined)
      throw loadRefused(`table "${table}" is gone from ${this.#store.place}`, { hint: 'push once more' });
    return found;
  }

  /** One watermark for each stream of each destination: from the table that the stream was delivered to last. */
  #watermarks(): Watermark[] {
    const latest = new Map<string, Watermark>();
    for (const manifest of this.#seen.values()) {
      const watermark = watermarkOf(manifest);
      if (watermark === undefined) continue;
      const owner = JSON.stringify([watermark.destination, watermark.stream]);
      if ((latest.get(owner)?.deliveredAt ?? '') <= watermark.deliveredAt) latest.set(owner, watermark);
    }
    return [...latest.values()];
  }

  async #create({ name, columns }: TargetTable): Promise<void> {
    this.#checkPartitions(columns, name);
    const schema = columns.map((column) => ({ name: column.name, type: column.type }));
    const empty = { ...this.#layout, schema, rows: 0, live_rows: 0, files: [], watermark: null };
    await this.#moveOn({ version: 1, table: name, set: 0, ...empty }, {}, name);
  }

  /** How this destination writes files. */
  get #layout(): Layout {
    const { format, partitionBy, csvFormulas } = this.#context.options;
    const formulas = format === 'csv' && csvFormulas === 'escape' ? { csv_formulas: csvFormulas } : {};
    return { format, partition_by: [...partitionBy], csv_formulas: undefined, ...formulas };
  }

  #checkPartitions(columns: readonly TableColumn[], table: string): void {
    const { partitionBy } = this.#context.options;
    const all = columns.map(({ name }) => name);
    const hint = `its columns are ${all.join(', ')}`;
    for (const name of partitionBy) {
      const found = columns.find((column) => column.name === name);
      const type = found && parseColumnType(found.type);
      if (type !== undefined && !isNested(type) && type.kind !== 'json') continue;
      const what = type === undefined ? 'is not a column' : 'has nested values';
      throw loadRefused(`\`partition_by\`: "${name}" ${what} of table "${table}"`, { hint });
    }
    if (all.every((name) => partitionBy.includes(name)))
      throw loadRefused('`partition_by` leaves no column for the files', { hint });
  }

  /**
   * Commits and publishes the next set, and removes old files.
   * @param what the table or the stream, for the error of a delivery that came too late
   */
  async #moveOn(found: Manifest, changes: Partial<Manifest>, what: string): Promise<void> {
    const sets = new TableSets(this.#store, folderOf(found.table));
    const manifest = { ...found, ...changes, set: found.set + 1 };
    if (!(await sets.commit(manifest))) throw watermarkMoved(what);
    this.#seen.set(sets.folder, manifest);
    await sets.publish(manifest);
    // The load is committed: a failure to remove old files must not fail it.
    await sets.prune(manifest, this.#context.options.keep).catch((error: unknown) => {
      this.#context.notice(`old files of table "${found.table}" were not removed: ${(error as Error).message}`);
    });
  }

  async #changeType(found: Manifest, { name, type }: TableColumn): Promise<void> {
    const schema = found.schema.map((column) => (column.name === name ? { name, type } : column));
    if (found.files.length === 0) return this.#moveOn(found, { schema }, found.table);
    const bench = await this.#workbench();
    const rows = await this.#reader.query(found, schema);
    const order = orderSql(this.#layout.partition_by);
    await bench.run(`CREATE OR REPLACE TABLE result AS SELECT * FROM (${rows}) ${order}`);
    const writer = this.#writer(bench, found, `${name} ${type}`);
    await writer.writeTable('result', schema);
    await bench.run('DROP TABLE result');
    await this.#moveOn(found, { ...this.#layout, schema, files: writer.files }, found.table);
  }

  #writer(bench: Workbench, found: Manifest, id: string): SetWriter {
    const { folder } = this.#context;
    const suffix = createHash('sha256').update(id).digest('hex').slice(0, 8);
    return new SetWriter({
      store: this.#store,
      bench,
      folder,
      table: folderOf(found.table),
      data: `data/${setName(found.set + 1)}-${suffix}`,
      layout: this.#layout,
    });
  }
}
