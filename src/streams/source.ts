import type { Operation } from '../client/client.js';
import type { DeclaredColumn } from '../rows/columns.js';

/** A span of time, its end excluded: ISO 8601, UTC, milliseconds. */
export interface Window {
  readonly from: string;
  readonly to: string;
}

/** What a page is asked for by. */
export interface PageRequest {
  /** Null asks for the first page. */
  readonly token: string | null;
  readonly limit: number;
  /** Attribute to text; several narrow the result. */
  readonly filter: ReadonlyMap<string, string>;
  readonly withTotal: boolean;
}

interface SourceFacts {
  /** What tells what is read from anything else, in a fingerprint: the source, and all that its requests are made of. */
  readonly identity: Readonly<Record<string, unknown>>;
  readonly declared: readonly DeclaredColumn[];
  /** The member whose members become columns of their own; null where all members are columns. */
  readonly container: 'attributes' | null;
  /** Columns that make the key, all of them declared. */
  readonly key: readonly string[];
  /** Whether one reading brings everything there is, so that what it lacks is gone, or adds to what is known. */
  readonly brings: 'everything' | 'additions';
  /** Fields that the request tells and the records lack. */
  readonly added: Readonly<Record<string, string>>;
}

/** A list of the service, read page by page to its end. */
export interface ListSource extends SourceFacts {
  readonly kind: 'list';
  page(request: PageRequest): Operation;
  /** One record by its key, where the service can give it: what confirms that an absent key was deleted. */
  one?(key: string): Operation;
  /** The endpoint may give page tokens that it does not accept; what it says to be its total then decides. */
  readonly distrustsTokens?: true;
}

/** A list that is asked for in windows of time, and only ever grows. */
export interface WindowedSource extends SourceFacts {
  readonly kind: 'windowed';
  readonly brings: 'additions';
  /** Windows are no longer than this: what is read again after a failure, and what the service allows. */
  readonly longestWindowMs: number;
  /** Whether pages have a size at all. */
  readonly takesLimit: boolean;
  page(request: PageRequest & { readonly window: Window }): Operation;
  /** A record by its key, where records change until they have ended. */
  one?(key: string): Operation;
  /** Whether a stored record, as JSON values by column, has not ended and is to be asked for again. */
  isUnfinished?(record: Readonly<Record<string, unknown>>): boolean;
  /** Columns that {@link WindowedSource.isUnfinished} looks at. */
  readonly watched?: readonly string[];
}

/** One request of a {@link KeyedSource}. */
export interface KeyedRequest {
  operation(request: { readonly token: string | null; readonly limit: number }): Operation;
  /** Whether a page of records answers, or one record. */
  readonly answers: 'page' | 'record';
  readonly added: Readonly<Record<string, string>>;
  /** What the record must say of itself. */
  readonly expected?: Readonly<Record<string, string>>;
}

/** Records that are asked for one by one. */
export interface KeyedSource extends SourceFacts {
  readonly kind: 'keyed';
  readonly requests: readonly KeyedRequest[];
  /** Whether an answer of 404 means that the record is not there; otherwise it fails the stream. */
  readonly mayMiss: boolean;
}

/** What a stream reads from the service. */
export type Source = ListSource | WindowedSource | KeyedSource;
