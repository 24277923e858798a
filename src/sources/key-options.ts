import { z } from '../core/zod.js';
import { map, option, text, verbatim } from '../sdk/option.js';

/** The keys of a stream's single requests, as its options give them; the path of a file is absolute. */
export type KeyListOptions<K> =
  | readonly K[]
  | { readonly file?: string | undefined; readonly sql?: string | undefined };

/** The option for keys of single requests: a list in the configuration, or where to read one. */
function keyList<L extends z.ZodArray>(list: L, what: 'ids' | 'keys') {
  const columns =
    what === 'ids'
      ? 'cdsync takes the column `id` or `profile_id`, or the only one.'
      : 'Its columns are the names of the keys.';
  const from = map({
    file: text({
      description: `A file with the ${what}: .csv, .parquet, .jsonl${what === 'ids' ? ', or text with one id a line' : ''}. ${columns}`,
      example: `./${what}.csv`,
      path: true,
    }).optional(),
    sql: text({
      description: `A query over the other streams of the job that returns the ${what}. ${columns}`,
      example: what === 'ids' ? 'select profile_id from vip' : 'select email from members',
    }).optional(),
  });
  const written = option(list, { description: `The ${what} themselves.`, allowed: `a list of ${what}` });
  return z.union([written, option(from, { description: `Where the ${what} come from.`, forms: [['file'], ['sql']] })]);
}

/** The ids that a source asks for. */
export const ids = option(keyList(z.array(verbatim({ description: 'One id.', example: 'p-0001' })), 'ids'), {
  description: 'The ids to ask for, one request each.',
  allowed: 'a list of ids, or a map with file: or sql:',
});

/** The identity keys that a source looks profiles up by. */
export const identityKeys = option(
  keyList(
    z.array(
      option(
        z.record(z.string().min(1), verbatim({ description: 'A value of the key.', example: 'ada@example.com' })),
        {
          description: 'Keys of one profile, by name; several narrow the lookup.',
          allowed: 'text that is not empty',
          check: (value) => (Object.keys(value as object).length === 0 ? [{ path: [], message: 'names no key' }] : []),
        },
      ),
    ),
    'keys',
  ),
  {
    description: 'The identity keys to look profiles up by, one lookup each.',
    allowed: 'a list of maps of key names to values, or a map with file: or sql:',
  },
);

/** The collection that a source reads. */
export const collection = verbatim({ description: 'Id of the profile collection.', example: 'col-1' });

/** The query that gives the keys; undefined if they do not come from a query. */
export function queryOfKeys(list: KeyListOptions<unknown> | undefined): string | undefined {
  return list !== undefined && 'sql' in list ? list.sql : undefined;
}
