import { join } from 'node:path';
import pLimit from 'p-limit';
import { type RequestCounts, type ServiceClient, ServiceError } from '../../api/client.js';
import { ColumnSet } from '../../columns/columns.js';
import { rowKey } from '../../columns/row-hash.js';
import { widen } from '../../columns/widen.js';
import { CdsyncError } from '../../core/errors.js';
import { sqlTexts } from '../../core/sql.js';
import type { ReadResult } from '../../extract/read-result.js';
import { copyTrimmed } from '../../extract/scan/json-bytes.js';
import type { ConcurrencyController } from '../../rate-limit/concurrency.js';
import { previousRows } from '../../snapshot/diff.js';
import { rowBytesOf } from '../../snapshot/large-rows.js';
import type { SnapshotStore } from '../../snapshot/snapshot-store.js';
import type { StreamState } from '../../snapshot/stream-state.js';
import { type ParquetCompression, writeParquet } from '../../storage/parquet.js';
import { keysVersion, partFiles, writeKeys } from '../../storage/part.js';
import type { Confirmable } from './stream-reader.js';

export interface ConfirmTask {
  readonly stream: string;
  readonly keys: readonly string[];
  /** The request for one record. */
  readonly one: NonNullable<Confirmable['one']>;
  /** Adds a record to the reading. @returns whether it was kept */
  readonly add: Confirmable['addSingle'];
  readonly meter: RequestCounts;
  readonly client: ServiceClient;
  readonly signal: AbortSignal;
  readonly atOnce: ConcurrencyController;
}

/**
 * Requests each record that is absent from a reading. An index changes while it is read, so an absent key is only a candidate for a
 * delete. A 404 confirms the delete; a record that is returned is added to the reading.
 * @returns the number of records that were added
 */
export async function confirmDeletes(task: ConfirmTask): Promise<number> {
  const { one, add, client, signal, keys, atOnce, meter } = task;
  const limit = pLimit(atOnce.count);
  const end = atOnce.govern(limit);
  let present = 0;
  let failed = false;
  const ask = async (key: string) => {
    if (failed) return;
    try {
      const body = await client.send(one(key), copyTrimmed, { signal, meter });
      if (await add(key, body)) present += 1;
    } catch (error) {
      if (error instanceof ServiceError && error.status === 404) return;
      failed = true;
      throw error;
    }
  };
  const outcomes = await Promise.allSettled(keys.map((key) => limit(() => ask(key))));
  end();
  const failure = outcomes.find((outcome) => outcome.status === 'rejected');
  if (failure !== undefined) throw confirmError(failure.reason, task.stream);
  return present;
}

function confirmError(reason: unknown, stream: string): unknown {
  if (reason instanceof CdsyncError) reason.stream ??= stream;
  return reason;
}

interface KeptRows {
  readonly previous: StreamState;
  readonly keys: readonly string[];
  /** The Parquet files of the previous snapshot, if only they have the sign of each zero. */
  readonly previousFiles: readonly string[] | undefined;
  /** The stream's private folder in the run. */
  readonly folder: string;
  readonly compression: ParquetCompression;
}

/** A reading with some rows of the previous snapshot, as they are there, as one more part. */
export async function withKeptRows(
  { session }: SnapshotStore,
  read: ReadResult,
  { previous, keys, previousFiles, folder, compression }: KeptRows,
): Promise<ReadResult> {
  const { columns, key, stream } = previous;
  const number = Math.max(0, ...read.parts.map((part) => part.number)) + 1;
  const { path, keysPath } = partFiles(join(folder, 'parts'), number);
  const rows = `SELECT * FROM ${previousRows({ stream, previousFiles })} WHERE ${rowKey(key)} IN (SELECT unnest(${sqlTexts(keys)}::VARCHAR[]))`;
  const query = `SELECT ${widen(columns, columns, 'file')} FROM (${rows})`;
  const rowBytes = await rowBytesOf(session, previousFiles ?? []);
  const form = { compression, keepsZeroSigns: previousFiles !== undefined, rowBytes };
  const file = await writeParquet(session, query, path, form);
  await writeKeys(session, { number, path, columns: ColumnSet.restore(columns).list, key }, keysPath);
  const part = {
    ...file,
    number,
    segments: [],
    rejects: 0,
    columns: [...columns],
    keysPath,
    hash_version: keysVersion(),
  };
  const { counters } = read;
  return { ...read, parts: [...read.parts, part], counters: { ...counters, read: counters.read + file.rows } };
}
