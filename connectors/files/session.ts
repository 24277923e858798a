import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import {
  type ConnectedDuckdb,
  connectDuckdb,
  DuckdbSession,
  duckdbRefused,
  keepSignOfZero,
  type LoadData,
  type memorySettings,
  type TableColumn,
} from '../../src/sdk/index.js';
import { withoutUnfoldable } from './folder-names.js';
import type { Format } from './manifest.js';

/** The error for a failure of DuckDB, without DuckDB's message: that may quote rows. */
function refusal(cause: unknown): Error {
  return duckdbRefused('DuckDB could not prepare the files', cause);
}

/**
 * A DuckDB for one delivery, in the delivery's own folder. A table's next set is made there, by the statements of every SQL
 * destination, before its files are written.
 */
export class Workbench extends DuckdbSession {
  /** Writes rows into files at once, in place of a table. @returns the number of rows that arrived */
  direct: ((target: string, data: LoadData) => Promise<number>) | undefined;
  /** Whether the first column of the rows, `_op`, says which are only deleted: of those nothing but the key counts. */
  isMerged = false;
  /** Columns of the rows whose values must be names of folders. */
  partitionBy: readonly string[] = [];
  /** The table, if it is a view over its files, and their format. Lists and objects of CSV are JSON texts there. */
  viewed: { readonly table: string; readonly columns: readonly TableColumn[]; readonly format: Format } | undefined;
  readonly #file: string;

  private constructor(connected: ConnectedDuckdb, file: string) {
    super(connected, refusal);
    this.#file = file;
  }

  static async open(
    folder: string,
    memory: ReturnType<typeof memorySettings>,
    hasLargeRows: boolean,
  ): Promise<Workbench> {
    const file = join(folder, 'workbench.duckdb');
    await rm(file, { force: true });
    // Its rows are read once: merged row groups would only cost memory, 2 GB for 2,000 columns.
    const settings = { ...memory, temp_directory: join(folder, 'spill'), max_vacuum_tasks: '0' };
    const workbench = new Workbench(await connectDuckdb({ path: file, settings }, keepSignOfZero), file);
    if (hasLargeRows) await workbench.expectLargeRows();
    return workbench;
  }

  override async fill(target: string, data: LoadData): Promise<number> {
    if (this.direct !== undefined) return this.direct(target, data);
    const where = this.isMerged ? `"_op" = 'upsert'` : 'true';
    let arrived = 0;
    for await (const handed of data.files()) {
      const { path } = await withoutUnfoldable(handed, this, this.partitionBy, where);
      arrived += await this.insert(target, data, path);
    }
    return arrived;
  }

  override async close(): Promise<void> {
    await super.close();
    await rm(this.#file, { force: true });
  }
}
