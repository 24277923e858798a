import type { RequestCounts, ServiceClient } from '../api/client.js';
import type { ApiGroup, ServiceOptions } from '../core/service-options.js';
import type { z } from '../core/zod.js';
import { type Camel, camelKey, type OptionInfo, type OptionProblem } from '../sdk/option.js';
import type { Session } from '../storage/duckdb.js';
import { completeSource, type RecordProperties, type Source, type SourceInput, type WindowedSource } from './source.js';

/** Options by their YAML keys, each declared with `option` or a function built on it. */
type OptionShape = Readonly<Record<string, z.ZodType>>;

/** Options as code sees them: in camelCase, defaults filled in. */
export type OptionsOf<S extends OptionShape> = Camel<z.output<z.ZodObject<S, z.core.$strict>>>;

/** The environment in which a source is opened. */
export interface SourceContext {
  readonly client: ServiceClient;
  readonly service: ServiceOptions;
  readonly signal: AbortSignal;
  /** Shows the user a line. */
  readonly notice: (line: string) => void;
  readonly meter: RequestCounts;
  /** Reads lists of keys; a query for keys finds the other streams of the job in it. */
  readonly session: Session;
  /** Whether the stream may have no rows: `guards: { min_rows: 0 }`. */
  readonly mayBeEmpty: boolean;
  /** Milliseconds since 1970. */
  readonly now: number;
  /** When the last run that read this stream began; undefined before the first. */
  readonly lastRunAt: string | undefined;
}

/** How a list is read in parts: by the values of one attribute. */
interface Partitioning {
  readonly attribute: string;
  /** Undefined: those of the last snapshot. */
  readonly values?: readonly string[] | undefined;
}

/** How a list is read in windows of time. */
export interface WindowOptions {
  /** Where the first run begins, in milliseconds since 1970; undefined: {@link WindowOptions.reachMs} before the run. */
  readonly since: number | undefined;
  readonly reachMs: number;
  /** A run reads again this much before the end of what earlier runs have read. */
  readonly lagMs: number;
}

/** How the options of a stream want it read. */
export interface ReadOptions {
  /** Attribute to text: only records that match are asked for. Default: none. */
  readonly filter: ReadonlyMap<string, string>;
  /** `auto`: each run chooses, by the last snapshot. Default: undefined, the list is read as one. */
  readonly partitionBy: Partitioning | 'auto' | undefined;
  /** Whether the list could be read in parts. Default: false. */
  readonly canPartition: boolean;
  /** Whether to ask the service for its total, and to look for missing records if the numbers differ. Default: false. */
  readonly checkTotal: boolean;
  /** Up to this many absent keys are asked for one by one; for more, the list is read a second time. Default: 10,000. */
  readonly confirmDeletes: number;
  /** Given if the source is read in windows of time. */
  readonly windows: WindowOptions | undefined;
  /** `additions`: stored records that a reading does not return stay. Default: as the source declares it. */
  readonly coverage: RecordProperties['coverage'];
  /** A query over other streams of the job, for the rows of this one or the keys to ask for. Default: undefined, none. */
  readonly query: string | undefined;
}

/** A record, as JSON values by column. */
export type StoredRecord = Readonly<Record<string, unknown>>;

/**
 * Everything that cdsync knows of a source. A declaration must load quickly, for the configuration loads all of them:
 * {@link SourceDeclaration.open} imports the client, DuckDB and file readers only when it needs them.
 */
// biome-ignore lint/suspicious/noExplicitAny: any options, where it does not matter which
export interface SourceDeclaration<N extends string = string, S extends OptionShape = any>
  extends Omit<RecordProperties, 'key'> {
  /** What `source:` calls it. */
  readonly name: N;
  readonly description: string;
  /** Its own options. Those of every stream, and `page_size` for {@link SourceDeclaration.pages}, are added to them. */
  readonly options: S;
  /** Rules between options. Sees the whole stream as written, before defaults, without the values that were refused. */
  readonly check?: (stream: unknown) => readonly OptionProblem[];
  readonly editorRules?: OptionInfo['editorRules'];
  /**
   * Options that only say how records are read, or which keys are asked for. Each other option is part of the stream's
   * definition: a new value means other records, and is refused as `definition_changed`. An option that is added in a later
   * version must have no default: with one, every older snapshot would have another definition.
   */
  readonly notDefining?: readonly (keyof S & string)[];
  /** The API whose rate limit its requests count against; null if it sends none. */
  readonly group: ApiGroup | null;
  /** Columns that make the key, all of them declared; or the option that lists them. */
  readonly key: readonly string[] | { readonly option: keyof S & string };
  /**
   * Columns that only the details of a record have ({@link WindowedSource.details}). A stored record that has ended and has
   * none of them is requested once more, and a column that a record once had keeps its value if the record arrives without it.
   */
  readonly details?: readonly string[];
  /** The key may be hashed: no later run needs it to ask for a record. */
  readonly hashesKey?: true;
  /** Columns that decide which records are read again. No rule may change them. */
  readonly watched?: readonly string[];
  /** Column rules that it does not take, and what to do instead. */
  readonly refusedRules?: { readonly names: readonly string[]; readonly instead: string };
  /** Given if its pages have a size: `page_size` is then an option, with the default `size` or else `service.page_size`. */
  readonly pages?: { readonly size?: number };
  /** How its options want it read; members left out have their defaults. */
  readOptions?(options: OptionsOf<S>): Partial<ReadOptions>;
  /** Whether a stored record may still change, so that the next run asks for it again. Sees the `watched` columns. */
  isUnfinished?(record: StoredRecord): boolean;
  /** A record that is older than this counts as ended: the service no longer lists it. Default: no record does. */
  readonly forgottenAfterMs?: number;
  /**
   * Finds out which requests to send; left out if the source is a query.
   * @throws {CdsyncError} if an option does not fit the service, such as an unknown index; errors of the client
   */
  open?(options: OptionsOf<S>, context: SourceContext): SourceInput | Promise<SourceInput>;
}

/** Declares a source: returns its argument, with its exact type. */
export function source<const N extends string, S extends OptionShape>(
  declaration: SourceDeclaration<N, S>,
): SourceDeclaration<N, S> {
  return declaration;
}

/** Above this many absent keys a list is read a second time, unless the stream says otherwise. */
const defaultConfirmDeletes = 10_000;

/** The source of one stream, with the stream's options: everything that is known before it is opened. */
export interface StreamSource extends ReadOptions {
  readonly group: ApiGroup | null;
  readonly key: readonly string[];
  /** The fields that every record has; `select` leaves out none of them. */
  readonly envelope: readonly string[];
  /** Whether the other columns are members of a member of the record. */
  readonly hasContainer: boolean;
  /** The options that decide which records the stream has. */
  readonly definition: Readonly<Record<string, unknown>>;
  /** Records asked for in a page; undefined: `service.page_size` decides. */
  readonly pageSize: number | undefined;
  /** Given if stored records change until they have ended: {@link SourceDeclaration.isUnfinished}. */
  readonly unfinished:
    | { readonly watched: readonly string[]; is(record: StoredRecord, ageMs: number): boolean }
    | undefined;
  /** {@link SourceDeclaration.details} */
  readonly details: readonly string[] | undefined;
  /** Undefined if the stream is a query: {@link ReadOptions.query}. @throws {CdsyncError} as {@link SourceDeclaration.open} */
  readonly open: ((context: SourceContext) => Promise<Source>) | undefined;
}

type Options = Readonly<Record<string, unknown>>;

function definingOptions({ options: shape, notDefining = [] }: SourceDeclaration, options: Options): Options {
  const names = Object.keys(shape).filter((name) => !notDefining.includes(name));
  const values = names.map((name) => [camelKey(name), options[camelKey(name)]] as const);
  return Object.fromEntries(values.filter(([, value]) => value !== undefined));
}

/** @param options of the stream, in camelCase, defaults filled in */
export function streamSource(declaration: SourceDeclaration, options: Options): StreamSource {
  const { group, coverage, pages, watched = [] } = declaration;
  const definition = definingOptions(declaration, options);
  const key = 'option' in declaration.key ? (options[declaration.key.option] as readonly string[]) : declaration.key;
  const properties = { ...declaration, key };
  const { open, isUnfinished, forgottenAfterMs = Number.POSITIVE_INFINITY } = declaration;
  return {
    filter: new Map(),
    partitionBy: undefined,
    canPartition: false,
    checkTotal: false,
    confirmDeletes: defaultConfirmDeletes,
    windows: undefined,
    query: undefined,
    coverage,
    ...declaration.readOptions?.(options),
    group,
    key,
    envelope: [...Object.keys(declaration.declared), ...key, ...watched],
    hasContainer: declaration.container !== undefined,
    definition,
    pageSize: (options.pageSize as number | undefined) ?? pages?.size,
    details: declaration.details,
    unfinished: isUnfinished && {
      watched,
      is: (record, ageMs) => ageMs <= forgottenAfterMs && isUnfinished(record),
    },
    open: open && (async (context) => completeSource(properties, await open(options, context), definition)),
  };
}
