import type { Secret } from '../core/secret.js';
import type { ServiceOptions } from '../core/service-options.js';
import type { z } from '../core/zod.js';
import type { BudgetOptions } from '../rate-limit/budget-options.js';
import type { StreamSource } from '../sources/declaration.js';
import type { DestinationConfig } from './destination-config.js';
import type { Limit } from './guard-options.js';
import type { fileSchema, jobSchema, StreamPart } from './job-options.js';
import type { RunEvent } from './outcome-options.js';
import type { BucketOptions } from './storage-options.js';

type FileOptions = z.output<typeof fileSchema>;
type JobOptions = z.output<typeof jobSchema>;

/** The conditions that a stream's result must meet before it is committed. */
export interface GuardOptions {
  /** What happens if one fails. */
  readonly action: 'hold' | 'warn';
  /** The fewest rows of the snapshot after the run. 0 lets a stream come back empty; undefined forbids only an empty one. */
  readonly minRows: number | undefined;
  readonly maxDeleted: Limit;
  readonly maxChanged: Limit;
  readonly maxRejected: Limit;
  readonly maxNull: Readonly<Record<string, Limit>>;
  readonly unique: readonly string[];
  /** Queries that must give no rows. */
  readonly expect: readonly string[];
}

type Completed<P extends StreamPart> = P extends unknown
  ? Omit<P, 'guards' | 'select' | 'strings'> & {
      readonly guards: GuardOptions;
      /** The stream's own choice, or its job's; this one and the next. */
      readonly select: readonly string[] | undefined;
      readonly strings: 'keep' | 'infer';
      readonly reads: StreamSource;
    }
  : never;

/**
 * One stream; `source` is its kind. Keys are the YAML's in camelCase; `reads` is the source with the stream's options.
 */
export type StreamConfig = Completed<StreamPart>;

export type ResourceOptions = FileOptions['resources'];

export type { DeliveredColumnRule, DestinationConfig } from './destination-config.js';

/** Something done before the streams of a job are read. */
export type BeforeStep = NonNullable<JobOptions['before']>[number];

export type { RunEvent } from './outcome-options.js';
export type { BucketOptions } from './storage-options.js';

/** A receiver of notifications, and its events. Exactly one of `webhook`, `ping` and `email` is set. */
export interface NotifyOptions {
  readonly on: readonly RunEvent[];
  readonly webhook?: Secret | undefined;
  /** Default: json. */
  readonly format?: 'json' | 'slack' | 'teams' | 'text' | undefined;
  readonly ping?: Secret | undefined;
  readonly email?:
    | { readonly to: readonly string[]; readonly smtp: Secret; readonly from?: string | undefined }
    | undefined;
  /** Notified of each run, not only of changes. */
  readonly every: boolean;
}

/** Where figures of each run go. */
export interface MetricsOptions {
  /** Absolute path. */
  readonly textfile?: string | undefined;
  /** Undefined if nothing is sent. `headers` and `resource` as in OpenTelemetry's variables: `key=value,…`. */
  readonly otlp?:
    | { readonly endpoint: string; readonly headers: Secret | undefined; readonly resource: string | undefined }
    | undefined;
}

/** A command after each run; milliseconds. */
export type AfterCommand = JobOptions['after'][number];

/** One job, with everything that it inherits from `defaults:` and with every default. */
export interface JobConfig {
  readonly name: string;
  readonly streams: readonly StreamConfig[];
  /** Done one after the other, before anything is read. */
  readonly before: readonly BeforeStep[];
  /** A run that was cut short is resumed if it began at most this long ago. */
  readonly resumeWithinMs: number;
  readonly parquet: JobOptions['parquet'];
  /** `mode` as a number: 0o600; `history` in milliseconds. */
  readonly publish: JobOptions['publish'];
  /** Times in milliseconds. */
  readonly keep: JobOptions['keep'];
  readonly recognition: JobOptions['recognition'];
  /** How much is held if a guard fails. */
  readonly guardScope: 'stream' | 'job';
  /** How a new storage folder deals with tables of an older one. */
  readonly newStorage: 'hold' | 'warn';
  /** Empty for commands that do not talk to them. */
  readonly destinations: readonly DestinationConfig[];
  /** These three are empty for commands that notify no one. */
  readonly notify: readonly NotifyOptions[];
  readonly metrics: MetricsOptions;
  readonly after: readonly AfterCommand[];
}

/** The names in a job. They are known even if the variables of its other options are not set. */
export interface JobSummary {
  readonly name: string;
  readonly streams: readonly { readonly name: string; readonly source: string }[];
  readonly destinations: readonly {
    readonly name: string;
    readonly streams: readonly string[];
    /** What its connector says of erased rows. */
    readonly erasure?: string | undefined;
    /** False if, as it is configured, it sends no deletes. */
    readonly sendsDeletes: boolean;
  }[];
}

/** A configuration for commands that do not talk to the service. */
export interface LocalConfig {
  /** Absolute path of the file. */
  readonly file: string;
  /** Absolute path of the file that gave some of its variables. */
  readonly envFile?: string | undefined;
  readonly version: 1;
  /** Absolute path of the folder that holds everything kept and published; with a {@link bucket}, of its cache. */
  readonly storage: string;
  /** Where everything is kept and published, if that is not a folder. */
  readonly bucket?: BucketOptions | undefined;
  readonly resources: ResourceOptions;
  /** How long to wait for a service or a receiver that is away, in milliseconds: `retry.patience`. */
  readonly patienceMs: number;
  /** The jobs that were asked for. */
  readonly jobs: readonly JobConfig[];
  /** Every job of the file, asked for or not. */
  readonly jobSummaries: readonly JobSummary[];
  /** Names of the variables that give secrets, in any part of the file. */
  readonly secretVariables: readonly string[];
  /** The texts of all files that `${file:PATH}` names. */
  readonly secrets: readonly Secret[];
  /** One line for each value that is allowed but looks wrong. */
  readonly warnings: readonly string[];
}

/** The part `service:`. */
export interface ServiceConfig extends ServiceOptions {
  readonly budget: BudgetOptions;
}

/** The whole configuration. */
export interface Config extends LocalConfig {
  readonly service: ServiceConfig;
}
