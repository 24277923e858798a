import { join } from 'node:path';
import type { CdsyncError } from '../core/errors.js';

/** A file of a job that is whole in another place. */
export interface RemoteFile {
  readonly bytes: number;
  readonly sha256: string;
  /** The time of its last change: milliseconds since 1970. */
  readonly changedMs: number;
}

/** A removal that is due. */
export interface RemovalOwed {
  /** ISO 8601, UTC. */
  readonly since: string;
  /** Why the last attempt failed; undefined if this process has made none. */
  readonly error?: CdsyncError;
}

/**
 * Files of a job that are not on this disk, but whole in another place. They belong to the job as if they were there; their
 * folders are. Paths are absolute.
 */
export interface RemoteFiles {
  find(path: string): RemoteFile | undefined;
  /** The names of such files directly in a folder. */
  names(folder: string): readonly string[];
  /** Downloads the file to its path, if it is one of these. @throws {CdsyncError} `bucket_unavailable`, `bucket_object_changed` */
  download(path: string): Promise<void>;
  /** Gives the same content another path as well. @returns false if the file is not one of these */
  share(from: string, to: string): boolean;
  /** The file no longer belongs to the job. */
  drop(path: string): void;
  /** Objects with erased or hidden values that the bucket still has. */
  readonly removalOwed: RemovalOwed | undefined;
  /** Values were erased or hidden: objects that no file needs any more go with the next upload, not after a day. */
  collectImmediately(): void;
  /** Paths whose content people read in the bucket, and that another program altered there. They are read whole. */
  alteredCopies(): AsyncIterable<string>;
}

/** The paths of one job's files, below `<storage>/<job>/`. Nothing here touches the disk. */
export class JobLayout {
  readonly folder: string;
  readonly job: string;
  /** Where the files are that are not on this disk; undefined if all are. */
  readonly remoteFiles: RemoteFiles | undefined;

  constructor(storage: string, job: string, remoteFiles?: RemoteFiles) {
    this.folder = join(storage, job);
    this.job = job;
    this.remoteFiles = remoteFiles;
  }

  /** The link that users open. */
  get link(): string {
    return join(this.folder, `${this.job}.duckdb`);
  }
  get publishedFolder(): string {
    return join(this.folder, 'published');
  }
  /** The file of a published version: many programs call a database as its file, so it is called as the job. */
  published(version: number | string): string {
    return join(this.publishedFolder, String(version), `${this.job}.duckdb`);
  }
  get reports(): string {
    return join(this.folder, 'reports');
  }
  report(runId: string): string {
    return join(this.reports, `${runId}.json`);
  }
  /** The report for people. */
  page(runId: string): string {
    return join(this.reports, `${runId}.html`);
  }
  get indexPage(): string {
    return join(this.reports, 'index.html');
  }
  get parquet(): string {
    return join(this.folder, 'parquet');
  }
  stream(stream: string): string {
    return join(this.parquet, stream);
  }
  manifest(stream: string): string {
    return join(this.stream(stream), 'manifest.json');
  }
  /** The link to the folder of the newest snapshot. */
  current(stream: string): string {
    return join(this.stream(stream), 'current');
  }
  snapshots(stream: string): string {
    return join(this.stream(stream), 'snapshot');
  }
  snapshot(stream: string, runId: string): string {
    return join(this.snapshots(stream), runId);
  }
  changes(stream: string, runId: string): string {
    return join(this.stream(stream), 'changes', runId);
  }

  get private(): string {
    return join(this.folder, '.cdsync');
  }
  get format(): string {
    return join(this.private, 'format.json');
  }
  get store(): string {
    return join(this.private, 'store.duckdb');
  }
  get locks(): string {
    return join(this.private, 'locks');
  }
  /** The run that owns the job holds this file open, and nothing else may open it: see JobLock. */
  get lock(): string {
    return join(this.locks, 'job.duckdb');
  }
  /** Says who holds {@link lock}. */
  get lockOwner(): string {
    return join(this.locks, 'job.json');
  }
  /** The workflows that a run has started; kept until the run ends. */
  get startedWorkflows(): string {
    return join(this.private, 'workflows.json');
  }
  /** The state of the job's notifications. */
  get notified(): string {
    return join(this.private, 'told.json');
  }
  /** Says that old files have values that were erased or hidden; there until they are gone. */
  get removal(): string {
    return join(this.private, 'removal.json');
  }
  /** The figures of the job's runs, for metrics. */
  get metrics(): string {
    return join(this.private, 'metrics.json');
  }
  /** The record caches: a folder for each stream. */
  get knownFolder(): string {
    return join(this.private, 'known');
  }
  known(stream: string): string {
    return join(this.knownFolder, stream);
  }
  get figuresFolder(): string {
    return join(this.private, 'figures');
  }
  /** Statistics of the streams' columns after a run. */
  figures(runId: string): string {
    return join(this.figuresFolder, `${runId}.json`);
  }
  /** Files rewritten from the store, before they are published. */
  get restored(): string {
    return join(this.private, 'restored');
  }
  /** For each query that needs it, a folder for data that does not fit in memory. */
  get queries(): string {
    return join(this.private, 'queries');
  }
  get runs(): string {
    return join(this.private, 'runs');
  }
  run(runId: string): string {
    return join(this.runs, runId);
  }
  runState(runId: string): string {
    return join(this.run(runId), 'run.json');
  }
  streamRun(runId: string, stream: string): string {
    return join(this.run(runId), 'streams', stream);
  }

  /** The feed of a stream: its data for destinations. */
  feed(stream: string): string {
    return join(this.private, 'feeds', `${stream}.json`);
  }
  get erasuresFolder(): string {
    return join(this.private, 'erasures');
  }
  /** The erasures of a stream, for destinations that still have the rows: a folder of one file each. */
  erasures(stream: string): string {
    return join(this.erasuresFolder, stream);
  }
  /** The log of decisions, and the file with its key. */
  get decisions(): string {
    return join(this.private, 'decisions.jsonl');
  }
  get decisionsHead(): string {
    return join(this.private, 'decisions.json');
  }
  get decisionsLock(): string {
    return join(this.locks, 'decisions.lock');
  }
  get deliveries(): string {
    return join(this.private, 'deliveries');
  }
  /** The records that cdsync keeps about a destination, and the working files of a delivery to it. */
  delivery(destination: string): string {
    return join(this.deliveries, destination);
  }
  /** The progress of a stream's records, for a destination that can store none. */
  deliveredStream(destination: string, stream: string): string {
    return join(this.delivery(destination), 'streams', stream);
  }
  /** The delivery to the destination holds `file` open, and nothing else may open it; `owner` says which process that is. */
  destinationLock(destination: string): { file: string; owner: string } {
    const folder = this.delivery(destination);
    return { file: join(folder, 'lock.duckdb'), owner: join(folder, 'lock.json') };
  }
}
