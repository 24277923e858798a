import { outOfMemory } from '../core/sql.js';
import { type CdsyncError, loadRefused } from './errors.js';

/**
 * The error for a statement that DuckDB refused for a reason that is not the connector's own, without DuckDB's message: that may quote rows.
 * @param did what it refused, for the message
 * @param told what is kept beside the message: the cause
 */
export function duckdbRefused(did: string, message: string, told: { readonly cause: unknown }): CdsyncError {
  if (/no space left|disk quota|max_temp_directory_size/i.test(message))
    return loadRefused('there is no space left for the work of a load', {
      ...told,
      causeQuotesValues: true,
      hint: 'the storage folder of the job needs room for about the whole table, twice',
    });
  if (outOfMemory.test(message))
    return loadRefused('DuckDB needs more memory than it may use to load', {
      ...told,
      hint: 'raise `memory_mb` of the destination',
    });
  const kind = /^[A-Z][A-Za-z ]{2,40}(?=:)/.exec(message)?.[0] ?? 'error';
  return loadRefused(`${did} (${kind})`, { ...told, causeQuotesValues: true });
}
