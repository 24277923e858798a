import type { z } from 'zod';
import type { ServiceOptions } from '../core/service-options.js';
import type { StreamSource } from '../streams/stream-source.js';
import type { DestinationConfig } from './destination-config.js';
import type { Limit } from './guard-options.js';
import type { fileSchema, jobSchema } from './job-options.js';
import type { StreamPart } from './stream-options.js';

type FileOptions = z.output<typeof fileSchema>;
type JobOptions = z.output<typeof jobSchema>;

/** What must hold of a stream's result before it is committed. */
export interface GuardOptions {
  /** Of the snapshot after the run; 0 lets a stream come back empty. Undefined: only that it does not. */
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
  ? Omit<P, 'guards'> & { readonly guards: GuardOptions; readonly reads: StreamSource }
  : never;

/**
 * One stream; `source` tells them apart. Keys are the YAML's in camelCase; `reads` is the source with the stream's options,
 * and what is to be known of it.
 */
export type StreamConfig = Completed<StreamPart>;

export type ParquetOptions = JobOptions['parquet'];
export type Compression = ParquetOptions['compression'];
/** Times in milliseconds. */
export type KeepOptions = JobOptions['keep'];
/** `mode` as a number: 0o600; `history` in milliseconds. */
export type PublishOptions = JobOptions['publish'];
export type ResourceOptions = FileOptions['resources'];

export type { ColumnRule, DestinationConfig } from './destination-config.js';

/** Something done before the streams of a job are read. */
export type BeforeStep = NonNullable<JobOptions['before']>[number];

/** One job, with what it inherits from `defaults:` and with every default filled in. */
export interface JobConfig {
  readonly name: string;
  readonly streams: readonly StreamConfig[];
  /** Done in turn before anything is read. */
  readonly before: readonly BeforeStep[];
  /** A run that was cut short is continued if it began at most so long ago. */
  readonly resumeWithinMs: number;
  readonly parquet: ParquetOptions;
  readonly publish: PublishOptions;
  readonly keep: KeepOptions;
  /** What a guard that fails holds. */
  readonly guardScope: 'stream' | 'job';
  /** Empty for commands that do not talk to them. */
  readonly destinations: readonly DestinationConfig[];
}

/** What is known of a job without any variable. */
export interface JobOutline {
  readonly name: string;
  readonly streams: readonly { readonly name: string; readonly source: string }[];
  readonly destinations: readonly { readonly name: string; readonly streams: readonly string[] }[];
}

/** A configuration for commands that do not talk to the service. */
export interface LocalConfig {
  /** Absolute path of the file. */
  readonly file: string;
  readonly version: 1;
  /** Absolute path of the folder that holds everything kept and published. */
  readonly storage: string;
  readonly resources: ResourceOptions;
  /** The jobs that were asked for. */
  readonly jobs: readonly JobConfig[];
  /** Every job of the file, asked for or not. */
  readonly outline: readonly JobOutline[];
  /** What is allowed and yet looks wrong, one line each. */
  readonly warnings: readonly string[];
}

/** The whole configuration. */
export interface Config extends LocalConfig {
  readonly service: ServiceOptions;
}
