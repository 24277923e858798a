import type { LocalConfig } from '../config/config.js';
import type { CdsyncError } from '../core/errors.js';
import type { BucketTraffic } from '../core/run-report.js';
import type { FileSet } from '../object-store/required-files.js';
import { JobLayout } from '../storage/layout.js';
import { assertNoUntrustedLinks } from '../storage/untrusted-links.js';

/** The bucket of a job that a command works on. */
export interface RemoteJobHandle {
  /** Aborts when another machine has taken the job over. */
  readonly lost: AbortSignal;
  /** Transfers so far. */
  readonly figures: BucketTraffic;
  /** From now on, checkpoints of the run go to the bucket as long as `isReading` says so. */
  keepCheckpoints(isReading: () => boolean): void;
  /** Uploads the run's state now, before a step that must not be repeated. @throws {CdsyncError} `superseded`, `bucket_unavailable` */
  checkpoint(): Promise<void>;
  /** After damage to a local file: the next command compares all files with the bucket. @returns the error, with a hint */
  invalidateCache(error: CdsyncError): CdsyncError;
  /** @throws {CdsyncError} `superseded`, `bucket_unavailable` and others: the bucket then stays as it is */
  upload(): Promise<void>;
}

/** Where the files of a job are for a command: in its folder, or in the cache of a bucket. */
export interface JobFiles {
  readonly layout: JobLayout;
  /** Undefined if the job has no bucket, or the command only reads. */
  readonly bucket?: RemoteJobHandle | undefined;
}

interface JobFilesTask {
  readonly config: Pick<LocalConfig, 'storage' | 'bucket'>;
  readonly job: string;
  /** If the job is in a bucket: the files to download first. */
  readonly need: FileSet;
  readonly notice: (line: string) => void;
  readonly signal?: AbortSignal | undefined;
}

/**
 * Works with the files of a job, and changes none that another machine should see. It needs no lock.
 * @throws {CdsyncError} `storage_link`
 */
export async function readJobFiles<T>(task: JobFilesTask, work: (place: JobFiles) => Promise<T>): Promise<T> {
  const { config, job } = task;
  const { bucket, storage } = config;
  const reading = async (layout: JobLayout) => {
    await assertNoUntrustedLinks(layout, { isReader: true });
    return work({ layout });
  };
  if (bucket === undefined) return reading(new JobLayout(storage, job));
  const { readRemoteJob } = await import('../object-store/open-remote-job.js');
  return readRemoteJob({ ...task, bucket, cache: storage }, (remote) => reading(new JobLayout(storage, job, remote)));
}

/**
 * Changes the files of a job. If it is in a bucket, its lease keeps other machines away, and the changes are uploaded at the end.
 * @throws {CdsyncError} of a bucket: `locked`, `superseded`, `bucket_unconditional`, `clock_off` and others
 */
export async function withJobFiles<T>(task: JobFilesTask, work: (place: JobFiles) => Promise<T>): Promise<T> {
  const { config, job } = task;
  const { bucket, storage } = config;
  if (bucket === undefined) return work({ layout: new JobLayout(storage, job) });
  const { withRemoteJob } = await import('../object-store/open-remote-job.js');
  return withRemoteJob({ ...task, bucket, cache: storage }, (remote) =>
    work({ layout: new JobLayout(storage, job, remote), bucket: remote }),
  );
}
