import { join } from 'node:path';

/** Where everything of one job lies: `<storage>/<job>/`. Paths only; nothing here touches the disk. */
export class JobLayout {
  readonly folder: string;
  readonly job: string;

  constructor(storage: string, job: string) {
    this.folder = join(storage, job);
    this.job = job;
  }

  /** The link that people open. */
  get link(): string {
    return join(this.folder, `${this.job}.duckdb`);
  }
  get publishedFolder(): string {
    return join(this.folder, 'published');
  }
  published(sequence: number): string {
    return join(this.publishedFolder, `${sequence}.duckdb`);
  }
  get reports(): string {
    return join(this.folder, 'reports');
  }
  report(runId: string): string {
    return join(this.reports, `${runId}.json`);
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
  /** Held open by the run that owns the job, and by nothing else: see JobLock. */
  get lock(): string {
    return join(this.locks, 'job.duckdb');
  }
  /** Tells who holds {@link lock}. */
  get lockOwner(): string {
    return join(this.locks, 'job.json');
  }
  /** Workflows that a run has started, while it has not come to an end. */
  get startedWorkflows(): string {
    return join(this.private, 'workflows.json');
  }
  /** Files that are written anew from the store, on their way to being published. */
  get restored(): string {
    return join(this.private, 'restored');
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
  /** DuckDB's spill files and whatever else may go with the process. */
  runTemporary(runId: string): string {
    return join(this.run(runId), 'tmp');
  }
  streamRun(runId: string, stream: string): string {
    return join(this.run(runId), 'streams', stream);
  }

  /** What a stream has for destinations. */
  feed(stream: string): string {
    return join(this.private, 'feeds', `${stream}.json`);
  }
  get deliveries(): string {
    return join(this.private, 'deliveries');
  }
  /** What is known here of a destination, and what a delivery to it works with. */
  delivery(destination: string): string {
    return join(this.deliveries, destination);
  }
  /** What is kept of a stream's records for a destination that can store nothing. */
  deliveredStream(destination: string, stream: string): string {
    return join(this.delivery(destination), 'streams', stream);
  }
  /** Held open by the process that delivers to the destination, and by nothing else; beside it the name of that process. */
  destinationLock(destination: string): { file: string; owner: string } {
    const folder = this.delivery(destination);
    return { file: join(folder, 'lock.duckdb'), owner: join(folder, 'lock.json') };
  }
}
