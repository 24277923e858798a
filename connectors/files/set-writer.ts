import { rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { loadRefused, quoteIdentifier, sha256OfFile, type TableColumn } from '../../src/sdk/index.js';
import { partitionPath } from './folder-names.js';
import { writeSql } from './formats.js';
import type { Layout, SetFile } from './manifest.js';
import type { Workbench } from './session.js';
import type { FileStore } from './store.js';

/** Most rows in one file that is written from a table. */
const rowsInFile = 1_000_000;
const maxPartitions = 10_000;
/** Most files on their way to the store at the same time. */
const filesAtOnce = 8;

interface SetTask {
  readonly store: FileStore;
  readonly bench: Workbench;
  /** A folder on this machine, for files on their way. */
  readonly folder: string;
  /** The table's folder in the store. */
  readonly table: string;
  /** The folder below that for the set's new files. */
  readonly data: string;
  readonly layout: Layout;
}

type Partition = Readonly<Record<string, string | null>>;

/** A range of rows of a workbench table, by their `rowid`s; both ends included. */
interface Range {
  readonly from: number;
  readonly to: number;
  readonly partition?: Partition;
}

/** Writes the files of a set, and collects their entries for the manifest. */
export class SetWriter {
  readonly files: SetFile[] = [];
  readonly #task: SetTask;
  readonly #underWay = new Set<Promise<void>>();
  #failure: { readonly cause: unknown } | undefined;

  constructor(task: SetTask) {
    this.#task = task;
  }

  /** The table's folder in the store. */
  get table(): string {
    return this.#task.table;
  }

  /** The number of rows in all files so far. */
  get rows(): number {
    return this.files.reduce((total, { rows }) => total + rows, 0);
  }

  /** Adds an existing local file to the set, unchanged. */
  async take(local: string, rows: number, partition?: Partition): Promise<void> {
    const { store, table, data, layout } = this.#task;
    const index = this.files.length;
    const name = `part-${String(index).padStart(5, '0')}.${layout.format}`;
    const path = `${data}/${partition === undefined ? '' : partitionPath(partition)}${name}`;
    const file = { path, rows, bytes: 0, sha256: '', ...(partition === undefined ? {} : { partition }) };
    this.files.push(file);
    const [{ size: bytes }, sum] = await Promise.all([stat(local), sha256OfFile(local)]);
    this.files[index] = { ...file, bytes, sha256: sum };
    await store.put(local, `${table}/${path}`);
  }

  /** Writes the rows of a query into one file. */
  async write(rows: string, columns: readonly TableColumn[]): Promise<void> {
    await this.#begin(rows, columns);
    await this.#settle();
  }

  /** Writes a table of the workbench. Its rows must be in the order of {@link orderSql}. */
  async writeTable(name: string, columns: readonly TableColumn[]): Promise<void> {
    const { partition_by: partitionBy } = this.#task.layout;
    const storedColumns = columns.filter((column) => !partitionBy.includes(column.name));
    for (const { from, to, partition } of await this.#ranges(name)) {
      await this.#begin(`(FROM ${name} WHERE rowid BETWEEN ${from} AND ${to})`, storedColumns, partition);
      if (this.#failure !== undefined) break;
    }
    await this.#settle();
    // A table without rows gets a file too, so that readers find its columns.
    if (this.files.length === 0) await this.write(`(FROM ${name} WHERE false)`, columns);
  }

  /** Writes a local file, and begins to send it to the store, beside other files. */
  async #begin(rows: string, columns: readonly TableColumn[], partition?: Partition): Promise<void> {
    const { bench, folder, layout } = this.#task;
    const local = join(folder, `part-${this.files.length}.${layout.format}`);
    const count = await bench.run(writeSql(rows, columns, layout, local));
    while (this.#underWay.size >= filesAtOnce) await Promise.race(this.#underWay);
    const going = this.take(local, count, partition)
      .catch((cause: unknown) => {
        this.#failure ??= { cause };
      })
      .finally(async () => {
        await rm(local, { force: true });
        this.#underWay.delete(going);
      });
    this.#underWay.add(going);
  }

  async #settle(): Promise<void> {
    await Promise.all(this.#underWay);
    if (this.#failure !== undefined) throw this.#failure.cause;
  }

  async #ranges(name: string): Promise<Range[]> {
    const { bench, layout } = this.#task;
    const { partition_by: partitionBy } = layout;
    const values = partitionBy.map((column) => `${quoteIdentifier(column)}::VARCHAR AS ${quoteIdentifier(column)}`);
    const groups = await bench.rows(
      `SELECT ${[...values, 'min(rowid) AS "_from"', 'max(rowid) AS "_to"', 'count(*) AS "_count"'].join(', ')}
       FROM ${name} GROUP BY ${values.length === 0 ? '()' : 'ALL'} ORDER BY "_from"`,
    );
    if (groups.length > maxPartitions) throw tooManyPartitions(partitionBy);
    return groups.flatMap(({ _from, _to, _count, ...partition }) => {
      if (Number(_count) === 0) return [];
      const [first, last] = [Number(_from), Number(_to)];
      if (partitionBy.length > 0 && last - first + 1 !== Number(_count))
        throw new Error('the rows of a partition are not next to each other');
      return cut(first, last).map((range) => ({
        ...range,
        ...(partitionBy.length === 0 ? {} : { partition: partition as Partition }),
      }));
    });
  }
}

function cut(first: number, last: number): Range[] {
  const ranges: Range[] = [];
  for (let from = first; from <= last; from += rowsInFile)
    ranges.push({ from, to: Math.min(last, from + rowsInFile - 1) });
  return ranges;
}

function tooManyPartitions(columns: readonly string[]): Error {
  const names = columns.map((name) => `"${name}"`).join(', ');
  const hint = 'give `partition_by` columns with fewer values';
  return loadRefused(`${names} would make more than ${maxPartitions} folders`, { hint });
}

/** SQL for the order that {@link SetWriter.writeTable} needs. */
export function orderSql(partitionBy: readonly string[]): string {
  return partitionBy.length === 0
    ? ''
    : `ORDER BY ${partitionBy.map((name) => `${quoteIdentifier(name)}::VARCHAR`).join(', ')}`;
}
