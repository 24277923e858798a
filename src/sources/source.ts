import type { Operation } from '../api/client.js';
import type { DeclaredColumn } from '../columns/columns.js';

/** A span of time, its end excluded: ISO 8601, UTC, milliseconds. */
export interface Window {
  readonly from: string;
  readonly to: string;
}

/** The parameters of a request for one page. */
interface PageRequest {
  /** Null asks for the first page. */
  readonly token: string | null;
  readonly limit: number;
  /** Attribute to text; several narrow the result. */
  readonly filter: ReadonlyMap<string, string>;
  readonly withTotal: boolean;
}

/** The properties of a source before it is opened, whatever its options. */
export interface RecordProperties {
  /** The columns that a stream has from the start, with their types. */
  readonly declared: Readonly<Record<string, NonNullable<DeclaredColumn['type']>>>;
  /** The member whose own members become columns; left out if records have no such member. */
  readonly container?: 'attributes';
  /** Columns that make the key. */
  readonly key: readonly string[];
  /** `everything`: a stored record that a reading does not return is gone. `additions`: a reading adds to the stored records. */
  readonly coverage: 'everything' | 'additions';
}

interface SourceProperties extends Omit<RecordProperties, 'declared' | 'container'> {
  readonly declared: readonly DeclaredColumn[];
  /** Null if records have no such member. */
  readonly container: 'attributes' | null;
  /** What identifies a reading in a fingerprint: the source, and everything that its requests are made of. */
  readonly identity: Readonly<Record<string, unknown>>;
  /** Options of the stream's definition that opening has made exact, such as an index by its id. */
  readonly resolved: Readonly<Record<string, unknown>>;
  /** Fields that the records lack and the request knows. */
  readonly added: Readonly<Record<string, string>>;
}

/** A list of the service, read page by page to its end. */
export interface ListSource extends SourceProperties {
  readonly kind: 'list';
  page(request: PageRequest): Operation;
  /** One record by its key, if the service can give it. It confirms that an absent key was deleted. */
  one?(key: string): Operation;
  /** The endpoint may give page tokens that it does not accept. Its total then decides whether the list is complete. */
  readonly distrustsTokens?: true;
  /**
   * The request without any parameter. Given if the endpoint may take none and respond with the whole list: it is then sent
   * first, and the list is read in pages only if the response does not prove whole.
   */
  plain?(): Operation;
}

/** A list that is asked for in windows of time, and only ever grows. */
export interface WindowedSource extends SourceProperties {
  readonly kind: 'windowed';
  /** The longest window. It bounds how much is read again after a failure, and stays within the service's own limit. */
  readonly maxWindowMs: number;
  /** Whether a window is read in pages. Otherwise one response is all of it: a request takes no page size and no token. */
  readonly takesLimit: boolean;
  /**
   * How far back the service is known to have data: an empty window before that does not prove that nothing was there, so each
   * run reads it again, and one that the service refuses counts as empty. Default: without end.
   */
  readonly certainMs?: number;
  page(request: PageRequest & { readonly window: Window }): Operation;
  /** One record by its key, if records change until they have ended. */
  one?(key: string): Operation;
  /** Given if pages, and {@link WindowedSource.one}, may leave out fields that another request returns. */
  readonly details?: RecordDetailsRequest;
}

/** How to ask for all fields of one record. A deployment may refuse it with 400 or 404. */
interface RecordDetailsRequest {
  /** The fields that pages are known to return. */
  readonly overview: readonly string[];
  one(key: string): Operation;
}

/** One request of a {@link KeyedSource}. */
export interface KeyedRequest {
  /** The id that it asks for. Left out: an id that no URL can carry fails the stream. */
  readonly key?: string;
  operation(request: { readonly token: string | null; readonly limit: number }): Operation;
  /** Whether the response is a page of records or one record. */
  readonly returns: 'page' | 'record';
  readonly added: Readonly<Record<string, string>>;
  /** Fields that the record must have, with these values. */
  readonly expected?: Readonly<Record<string, string>>;
}

/** The owner of the records that have the keys: a collection, an index. */
export interface KeyOwner {
  /** Succeeds if it exists. */
  operation(): Operation;
  /** The error if it does not, or if that cannot be known. */
  unknown(reason: string): Error;
}

/** Records that are asked for one by one. */
interface KeyedSource extends SourceProperties {
  readonly kind: 'keyed';
  readonly requests: readonly KeyedRequest[];
  /** Whether a response of 404 means that the record is not there; otherwise it fails the stream. */
  readonly mayMiss: boolean;
  /** Asked for if the service has none of the records. Given if {@link KeyedSource.mayMiss}. */
  readonly owner?: KeyOwner;
}

/** A source that was opened: all that a stream reads from the service. */
export type Source = ListSource | WindowedSource | KeyedSource;

/** What opening a source gives; the rest of a {@link Source} is in its declaration. */
type Input<S extends Source> = Omit<S, keyof SourceProperties> & {
  /** What its requests are made of; left out: the options that define the stream. */
  readonly asked?: Readonly<Record<string, unknown>>;
} & Partial<Pick<SourceProperties, 'resolved' | 'added'>>;

export type ListSourceInput = Input<ListSource>;
export type SourceInput = ListSourceInput | Input<WindowedSource> | Input<KeyedSource>;

/** Makes a source from its declaration and from the result of opening it. */
export function completeSource<G extends SourceInput>(
  { name, declared: types, container, key, coverage }: RecordProperties & { readonly name: string },
  input: G,
  definition: Readonly<Record<string, unknown>>,
) {
  const declared = Object.entries(types).map(([field, type]) => ({ field, type }));
  const records = { declared, container: container ?? null, key, coverage };
  const { asked = definition, resolved = {}, added = {} } = input;
  return { ...input, ...records, resolved, added, identity: { source: name, ...asked } };
}
