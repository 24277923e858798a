import type { ParquetFile } from '../store/parquet.js';
import { type SnapshotFiles, writeUnwritten } from './snapshot-files.js';
import type { SnapshotStore } from './snapshot-store.js';

/** A stream, and the files of its new snapshot. */
export type StreamFiles = SnapshotFiles & { readonly stream: string };

/**
 * Writes what snapshots still lack, one file after the other, in a session of its own. It reads the store as it is before the
 * commit: the commit waits for the files before it counts, because it names them.
 */
export class SnapshotWriter {
  readonly #stop = new AbortController();
  readonly #written: Promise<ReadonlyMap<string, readonly ParquetFile[]>>;

  private constructor(store: SnapshotStore, streams: readonly StreamFiles[], signal: AbortSignal) {
    const either = AbortSignal.any([signal, this.#stop.signal]);
    this.#written = store.beside((session) =>
      session.until(either, async () => {
        const written = new Map<string, readonly ParquetFile[]>();
        for (const each of streams) written.set(each.stream, await writeUnwritten(session, each));
        return written;
      }),
    );
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
