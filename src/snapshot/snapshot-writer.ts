import type { Session } from '../storage/duckdb.js';
import type { ParquetFile } from '../storage/parquet.js';
import { type SnapshotFiles, writePendingFiles } from './snapshot-files.js';
import type { SnapshotStore } from './snapshot-store.js';

/** A stream, and the files of its new snapshot. */
type StreamFiles = SnapshotFiles & { readonly stream: string };

/**
 * Writes what snapshots still lack, one stream after the other, in sessions of their own. They read the store as it is before the
 * commit: the commit waits for the files before it counts, because it names them. Meanwhile each statement has one thread: two threads
 * that write one file take almost half more CPU time.
 */
export class SnapshotWriter {
  readonly #stop = new AbortController();
  readonly #written: Promise<ReadonlyMap<string, readonly ParquetFile[]>>;

  private constructor(store: SnapshotStore, streams: readonly StreamFiles[], signal: AbortSignal) {
    const either = AbortSignal.any([signal, this.#stop.signal]);
    const beside = <T>(work: (session: Session) => Promise<T>) =>
      store.beside((session) => session.until(either, () => work(session)));
    const write = async () => {
      const written = new Map<string, readonly ParquetFile[]>();
      for (const each of streams) written.set(each.stream, await writePendingFiles(beside, each));
      return written;
    };
    this.#written = streams.some(({ again }) => again !== undefined) ? store.onOneThread(write) : write();
    // Reported when somebody asks for the files.
    this.#written.catch(() => undefined);
  }

  /** Begins to write. Call {@link close} in any case. */
  static begin(store: SnapshotStore, streams: readonly StreamFiles[], signal: AbortSignal): SnapshotWriter {
    return new SnapshotWriter(store, streams, signal);
  }

  /** The new files of a stream's snapshot, once they are written. @throws {CdsyncError} `disk_full`, `interrupted` */
  async filesOf(stream: string): Promise<readonly ParquetFile[]> {
    return (await this.#written).get(stream) ?? [];
  }

  /** Stops the writing if it is still under way, and waits until it has stopped. */
  async close(): Promise<void> {
    this.#stop.abort();
    await this.#written.catch(() => undefined);
  }
}
