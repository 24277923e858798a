import type { z } from 'zod';
import type { RequestMeter, ServiceClient } from '../client/client.js';
import type { ApiGroup, ServiceOptions } from '../core/service-options.js';
import type { Camel, Finding } from '../sdk/option.js';
import type { Session } from '../store/duckdb.js';
import type { GivenSource, RecordFacts } from './source.js';

/** Options by their YAML keys, each declared with `option` or what is built on it. */
export type OptionShape = Readonly<Record<string, z.ZodType>>;

/** Options as code sees them: in camelCase, defaults filled in. */
export type OptionsOf<S extends OptionShape> = Camel<z.output<z.ZodObject<S, z.core.$strict>>>;

/** What opening a source works with. */
export interface SourceContext {
  readonly client: ServiceClient;
  readonly service: ServiceOptions;
  readonly signal: AbortSignal;
  readonly meter: RequestMeter;
  /** Where lists of keys are read; it sees the streams that they may be made of. */
  readonly session: Session;
  /** Milliseconds since 1970. */
  readonly now: number;
  /** When the last run that has read this stream began; undefined before the first. */
  readonly lastRunAt: string | undefined;
}

/** How a list is read in parts: by the values of one attribute. */
export interface Partitioning {
  readonly attribute: string;
  /** Undefined: those of the last snapshot. */
  readonly values?: readonly string[] | undefined;
}

/** How a list is read in windows of time. */
export interface WindowManners {
  /** The first run reads from here on, in milliseconds since 1970; undefined: from {@link WindowManners.reachMs} before it. */
  readonly since: number | undefined;
  readonly reachMs: number;
  /** So much of what the run before has read is read again. */
  readonly lagMs: number;
}

/** How a stream is read, as its options have it. */
export interface Manners {
  /** Attribute to text: only records that match are asked for. Default: none. */
  readonly filter: ReadonlyMap<string, string>;
  /** Default: undefined, the list is read as one. */
  readonly partitionBy: Partitioning | undefined;
  /** Whether the service's total is asked for, and what it says to be missing is looked for. Default: false. */
  readonly checkTotal: boolean;
  /** Up to so many absent keys are asked for one by one; above it, the list is read a second time. Default: 10,000. */
  readonly confirmDeletes: number;
  /** Given where the source is read in windows of time. */
  readonly windows: WindowManners | undefined;
  /** A query over other streams of the job that this one is made of. Default: undefined, none. */
  readonly query: string | undefined;
}

/** A record, as JSON values by column. */
export type StoredRecord = Readonly<Record<string, unknown>>;

/**
 * A source: everything that cdsync knows of it. Loading a file with a declaration must be quick, for the configuration
 * loads them all: the client, DuckDB and what reads files are imported when {@link SourceDeclaration.open} needs them.
 */
// biome-ignore lint/suspicious/noExplicitAny: of any options, where nobody needs to know which
export interface SourceDeclaration<N extends string = string, S extends OptionShape = any>
  extends Omit<RecordFacts, 'key'> {
  /** What `source:` calls it. */
  readonly name: N;
  readonly description: string;
  /** Its own options. Those of every stream, and `page_size` for {@link SourceDeclaration.pages}, are added to them. */
  readonly options: S;
  /** Rules between options. Sees the whole stream as it is written, as far as it was readable, before defaults. */
  readonly check?: (stream: unknown) => readonly Finding[];
  /**
   * Options that only say how records are read, or which keys are asked for. Each other option is part of the stream's
   * definition: a new value means other records, and is refused as `definition_changed`. An option that is added later
   * has no default, or every snapshot from before has another definition.
   */
  readonly notDefining?: readonly (keyof S & string)[];
  /** Whose budget its requests take; null where it asks the service for nothing. */
  readonly group: ApiGroup | null;
  /** Columns that make the key, all of them declared; or the option that lists them. */
  readonly key: readonly string[] | { readonly option: keyof S & string };
  /** The key may be hashed: nothing is asked for by it. */
  readonly hashesKey?: true;
  /** Columns that decide what is read again, and so are kept as they are. */
  readonly watched?: readonly string[];
  /** Rules of columns that it has no use for, and what to do instead. */
  readonly refusedRules?: { readonly names: readonly string[]; readonly instead: string };
  /** Given where it is read in pages of a size, which then is an option; `size` where the service's own is not its default. */
  readonly pages?: { readonly size?: number };
  /** How its options want it read; what is left out has its default. */
  manners?(options: OptionsOf<S>): Partial<Manners>;
  /** Whether a stored record has not ended, and is to be asked for again. Sees the columns that are `watched`. */
  isUnfinished?(record: StoredRecord): boolean;
  /**
   * Finds out what its requests are; left out where a stream is a query.
   * @throws {CdsyncError} what of its options does not hold at the service; what the client throws
   */
  open?(options: OptionsOf<S>, context: SourceContext): GivenSource | Promise<GivenSource>;
}

/** Declares a source; gives back what it is given, with its types. */
export function source<const N extends string, S extends OptionShape>(
  declaration: SourceDeclaration<N, S>,
): SourceDeclaration<N, S> {
  return declaration;
}
