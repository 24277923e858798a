import { realpath } from 'node:fs/promises';
import { DuckDBInstance, type DuckDBResult } from '@duckdb/node-api';
import { CdsyncError } from '../core/errors.js';
import { queryError } from './duckdb.js';
import type { JobLayout } from './layout.js';

/** A published snapshot, open for reading. */
export interface Published {
  /** The file that the link pointed to when it was opened. */
  readonly path: string;
  /** Rows come in chunks. */
  query(sql: string): Promise<DuckDBResult>;
  close(): void;
}

/** @throws {CdsyncError} `not_published`; `published_busy` if somebody has that version open for writing; `sql_failed` */
export async function openPublished(
  layout: JobLayout,
  { memoryMb, threads }: { memoryMb: number; threads: number },
): Promise<Published> {
  const path = await realpath(layout.link).catch(() => undefined);
  if (path === undefined) {
    throw new CdsyncError(`job "${layout.job}" has published nothing yet: there is no ${layout.link}`, {
      code: 'not_published',
      hint: 'run it first: cdsync run',
    });
  }
  let instance: DuckDBInstance;
  try {
    const options = { access_mode: 'READ_ONLY', memory_limit: `${memoryMb}MB`, threads: String(threads) };
    instance = await DuckDBInstance.create(path, options);
  } catch (error) {
    throw new CdsyncError(`${path} cannot be opened: somebody has it open for writing, or it is damaged`, {
      code: 'published_busy',
      hint: 'open it with -readonly; the next run publishes a new version beside it',
      cause: error,
    });
  }
  const connection = await instance.connect();
  return {
    path,
    query: async (sql) => {
      try {
        return await connection.stream(sql);
      } catch (error) {
        throw queryError(error, 'the tables: cdsync query "show tables"', 'configuration');
      }
    },
    close: () => {
      connection.closeSync();
      instance.closeSync();
    },
  };
}
