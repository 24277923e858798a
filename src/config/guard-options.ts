import { z } from '../core/zod.js';
import { choice, map, option, text, whole } from '../sdk/option.js';

/** The most rows that are allowed: a share of a whole, but never fewer than `atLeast`, a number, or any number of them. */
export type Limit =
  | { readonly share: number; readonly atLeast: number }
  | { readonly count: number }
  | { readonly off: true };

const partOfAll = /^(off|(\d{1,2}(\.\d+)?|100(\.0+)?)%|\d+( rows?)?)$/;
/** Changes may be more than the rows that there were: a list that grows tenfold changes by 900%. */
const anyShare = /^(off|\d+(\.\d+)?%|\d+( rows?)?)$/;

function limit(description: string, example: string, form = partOfAll) {
  const schema = z
    .string()
    .regex(/^(off|\d+(\.\d+)?%?|\d+ rows?)$/)
    .refine((written) => form.test(written), {
      error: ({ input }) => {
        if (String(input).endsWith('%')) return 'a share has at most 100%: write off if any number may go';
        const share = Number(input) < 1 ? `; write ${Number((Number(input) * 100).toFixed(6))}% for a share` : '';
        return `a share needs a %, and a number of rows must be whole${share}`;
      },
    })
    .meta({ pattern: form.source })
    .transform((written): Limit => {
      if (written === 'off' || /^100(\.0+)?%$/.test(written)) return { off: true };
      return written.endsWith('%')
        ? { share: Number.parseFloat(written) / 100, atLeast: 0 }
        : { count: Number.parseInt(written, 10) };
    });
  return option(schema, {
    description,
    example,
    verbatim: true,
    allowed: 'a share such as 10%, a number such as 5 rows, or off',
  });
}

/** Warnings about numbers that may be meant as percent, such as `max_deleted: 5`, by their path below `guards`. */
export function bareLimits(guards: unknown): { readonly path: readonly string[]; readonly message: string }[] {
  return Object.entries(guards ?? {}).flatMap(([name, limit]) => {
    if (!name.startsWith('max_')) return [];
    const isByColumn = typeof limit === 'object' && limit !== null;
    const limits = isByColumn
      ? Object.entries(limit).map(([column, columnLimit]) => ({ path: [name, column], bound: columnLimit }))
      : [{ path: [name], bound: limit }];
    return limits
      .filter(({ bound }) => /^([1-9]\d?|100)$/.test(String(bound)))
      .map(({ path, bound }) => ({
        path,
        message: `${bound} means ${bound} rows: write ${bound}% for a share, "${bound} rows" for the number`,
      }));
  });
}

const minRows = whole(0, 1_000_000_000_000, {
  description:
    'The fewest rows that the stream may have after the run. 0 lets a stream come back empty after it was not; otherwise such a result is held.',
  unit: 'rows',
  example: 1,
});

const streamGuards = {
  action: choice(['hold', 'warn'], {
    description:
      'What happens if a guard fails: `hold` keeps the result back until it is approved, `warn` publishes it and says so in the report, the notifications and the last lines.',
    example: 'warn',
  }).optional(),
  min_rows: minRows.optional(),
  max_deleted: limit(
    'The most deletes: a share of the last snapshot, or a number; 100% or `off` allows any. Default: 10%, but 10 rows may always go.',
    '10%',
  ).optional(),
  max_changed: limit(
    'The most inserts, updates and deletes together. New rows of a list that only grows do not count. 100% or `off` allows any. Default: 50%, but 10 rows may always change.',
    '50%',
    anyShare,
  ).optional(),
  max_rejected: limit(
    'The most records that could not be kept, as a share of those read or a number. Default: 0.',
    '0',
  ).optional(),
  max_null: option(z.record(z.string().min(1), limit('The most rows without a value in this column.', '5%')), {
    description: 'By column: the most rows without a value.',
    example: { email: '5%' },
  }).optional(),
  unique: option(z.array(text({ description: 'A column.', example: 'email' })), {
    description: 'Columns in which no two rows may have the same value.',
    example: ['email'],
    allowed: 'a list of columns',
  }).optional(),
  expect: option(z.array(text({ description: 'A query.', example: 'select id from members where tier is null' })), {
    description: 'Queries over the streams of the run, by their names, that must return no rows.',
    example: ['select id from members where tier is null'],
    allowed: 'a list of SELECTs',
  }).optional(),
};

/** Rules about the result of one stream. */
export const guards = option(map(streamGuards), {
  description: 'Conditions for the result before it is committed. What you leave out is as the job says.',
}).optional();

/** The same for all streams of a job. */
export const jobGuards = option(
  map({
    ...streamGuards,
    scope: choice(['stream', 'job'], {
      description: 'What to hold if a guard fails: its stream, or the whole run.',
      example: 'job',
    }).prefault('stream'),
    new_storage: choice(['hold', 'warn'], {
      description:
        'What happens if the storage folder is new, and a table at a destination has rows of an older one: `hold` leaves the table as it is until `cdsync push --adopt`, `warn` says so and loads it from this folder. Default: as `action`.',
      example: 'warn',
    }).optional(),
  }),
  {
    description:
      'Conditions for a result before it is committed. The changes of the first run of a stream are not checked.',
  },
).prefault({});
