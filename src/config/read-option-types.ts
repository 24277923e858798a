import { z } from 'zod';
import { parseMoment } from '../core/quantities.js';
import { map, type OptionFacts, option } from '../sdk/option.js';
import { text } from '../sdk/option-types.js';

/** A date or a time: ISO 8601, UTC where no offset is given, as milliseconds since 1970; not in the future. */
export function moment(facts: OptionFacts) {
  const schema = z
    .string()
    .regex(/^\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2}(\.\d{1,3})?)?(Z|[+-]\d{2}:?\d{2})?)?$/)
    .refine((written) => !Number.isNaN(parseMoment(written)), 'must be a date or a time that the calendar has')
    .transform(parseMoment);
  return option(schema, {
    allowed: 'a date or a time of the past, such as 2026-01-31 or 2026-01-31T12:00:00Z',
    verbatim: true,
    check: (written) =>
      parseMoment(String(written)) > Date.now() ? [{ path: [], message: 'this time is in the future' }] : [],
    ...facts,
  });
}

/** Keys of single requests: written in the configuration, or where to take them from. */
export function keyList<L extends z.ZodArray>(list: L, what: 'ids' | 'keys') {
  const columns =
    what === 'ids' ? 'Its column `id` or `profile_id`, or its only one.' : 'Its columns are the names of the keys.';
  const from = map({
    file: text({
      description: `A file that lists them: .csv, .parquet${what === 'ids' ? ', or one a line' : ', or .jsonl'}. ${columns}`,
      example: `./${what}.csv`,
    }).optional(),
    sql: text({
      description: `A query over the other streams of the job that gives them. ${columns}`,
      example: what === 'ids' ? 'select profile_id from vip' : 'select email from members',
    }).optional(),
  });
  const written = option(list, { description: `The ${what} themselves.`, allowed: `a list of ${what}` });
  return z.union([written, option(from, { description: `Where the ${what} come from.`, forms: [['file'], ['sql']] })]);
}
