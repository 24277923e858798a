import type { Operation } from '../client/client.js';
import type { DeclaredColumn } from '../core/columns.js';

/** What a page is asked for by. */
export interface PageRequest {
  /** Null asks for the first page. */
  readonly token: string | null;
  readonly limit: number;
  /** Attribute to text; several narrow the result. */
  readonly filter: ReadonlyMap<string, string>;
  readonly withTotal: boolean;
}

/** A list of the service, as extraction reads it: page by page to its end. */
export interface ListSource {
  /** What tells this list from others in a fingerprint: its source and the ids in its path. */
  readonly identity: Readonly<Record<string, string>>;
  readonly declared: readonly DeclaredColumn[];
  /** The member whose members become columns of their own; null where all members are columns. */
  readonly container: 'attributes' | null;
  /** Columns that make the key, all of them declared. */
  readonly key: readonly string[];
  page(request: PageRequest): Operation;
  /** One record by its key, where the service can give it: what confirms that an absent key was deleted. */
  one?(key: string): Operation;
}
