import type { LocalConfig } from '../config/config.js';
import type { CdsyncError } from '../core/errors.js';
import type { BucketTraffic } from '../core/run-report.js';
import type { FileSet } from '../object-store/required-files.js';
import { JobLayout } from '../storage/layout.js';

/** The bucket that a job under way is kept in. */
export interface RemoteJobHandle {
  /** Aborts when another machine has taken the job over. */
  readonly gone: AbortSignal;
  /** What was moved so far. */
  readonly figures: BucketTraffic;
  /** From now on, checkpoints of the run go to the bucket as long as `isReading` says so. */
  keepCheckpoints(isReading: () => boolean): void;
  /** Puts how far the run is at once, for what must not be done twice. @throws {CdsyncError} `superseded`, `bucket_unavailable` */
  checkpoint(): Promise<void>;
  /** A file of this machine is damaged: the next command compares all of them with the bucket. @returns the error, with what to do */
  doubtCache(error: CdsyncError): CdsyncError;
  /** What was erased goes from the bucket at once. */
  collectAtOnce(): void;
  /** @throws {CdsyncError} `superseded`, `bucket_unavailable` and others: the bucket then stays as it is */
  putBack(): Promise<void>;
}

/** Where the files of a job are for a command: in its folder, or in the cache of a bucket. */
export interface JobFiles {
  readonly layout: JobLayout;
  /** Given while the command may change the job. */
  readonly bucket?: RemoteJobHandle | undefined;
}

interface PlaceTask {
  readonly config: Pick<LocalConfig, 'storage' | 'bucket'>;
  readonly job: string;
  /** Of a job in a bucket: what is brought at once. */
  readonly need: FileSet;
  readonly notice: (line: string) => void;
  readonly signal?: AbortSignal | undefined;
}

/** Works with the files of a job, and changes none that another machine should see. It needs no lock. */
export async function readJobFiles<T>(task: PlaceTask, work: (place: JobFiles) => Promise<T>): Promise<T> {
  const { config, job } = task;
  const { bucket, storage } = config;
  if (bucket === undefined) return work({ layout: new JobLayout(storage, job) });
  const { readRemoteJob } = await import('../object-store/open-remote-job.js');
  return readRemoteJob({ ...task, bucket, cache: storage }, (brought) =>
    work({ layout: new JobLayout(storage, job, brought) }),
  );
}

/**
 * Changes the files of a job. In a bucket, no other machine does so meanwhile, and the changes are put back at the end.
 * @throws {CdsyncError} of a bucket: `locked`, `superseded`, `bucket_unconditional`, `clock_off` and others
 */
export async function withJobFiles<T>(task: PlaceTask, work: (place: JobFiles) => Promise<T>): Promise<T> {
  const { config, job } = task;
  const { bucket, storage } = config;
  if (bucket === undefined) return work({ layout: new JobLayout(storage, job) });
  const { withRemoteJob } = await import('../object-store/open-remote-job.js');
  return withRemoteJob({ ...task, bucket, cache: storage }, (brought) =>
    work({ layout: new JobLayout(storage, job, brought), bucket: brought }),
  );
}
