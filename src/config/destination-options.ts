import { z } from '../core/zod.js';
import type { Connector, Mode } from '../sdk/destination.js';
import {
  choice,
  durationOrNever,
  flag,
  map,
  type OptionInfo,
  type OptionProblem,
  option,
  text,
} from '../sdk/option.js';
import { select } from './column-options.js';
import { nameRule, nameSchema, repeatedNames, streamNameSchema } from './names.js';

/** A connector, and the word that `connector:` uses for it: its name, a file, or a package. */
export type NamedConnector = readonly [word: string, connector: Connector];

const name = option(nameSchema, {
  description: 'Name of the destination in reports and records.',
  example: 'warehouse',
  allowed: nameRule,
});

const streams = option(
  z.array(option(streamNameSchema, { description: 'A stream of the job.', example: 'members' })).min(1),
  {
    description: 'The streams to deliver. Default: all of the job.',
    example: ['members', 'vip'],
    allowed: 'a list of at least one stream of the job',
  },
).optional();

const columnRule = map({
  drop: flag({ description: 'Leaves the column out.', example: true }).prefault(false),
  rename: text({ description: 'Name of the column in the destination.', example: 'postcode' }).optional(),
});

function contradicting(value: unknown): OptionProblem[] {
  return Object.entries(value as Record<string, { drop?: unknown; rename?: unknown } | undefined>).flatMap(
    ([column, rule]) =>
      rule?.drop === true && rule.rename !== undefined
        ? [{ path: [column], message: 'a dropped column has no other name' }]
        : [],
  );
}

const columns = option(z.record(z.string().min(1), option(columnRule, { description: 'One column.' })), {
  description:
    'Columns to leave out or to rename in the destination. `"*": { drop: true }` leaves out all columns that you do not name. The key always goes.',
  example: { email: { drop: true }, zip: { rename: 'postcode' } },
  check: contradicting,
}).prefault({});

const onReject = choice(['continue', 'fail'], {
  description:
    'What to do if the destination cannot hold a value: `continue` leaves it empty (NULL) and lists it (`cdsync rejects`), `fail` delivers nothing of the stream.',
  example: 'fail',
}).prefault('continue');

const tableKeys = {
  table: option(z.string().regex(/\S/), {
    description:
      'Name of the table. `{stream}` is replaced by the name of the stream, `{job}` by that of the job. With several streams the name needs `{stream}`.',
    example: 'crm_{stream}',
    allowed: 'the name of a table',
  }).prefault('{stream}'),
  verify: choice(['rows', 'none'], {
    description:
      'Whether each load reads back its rows, and compares every value, before it is committed: `rows`, or `none`.',
    example: 'none',
  }).prefault('rows'),
  verify_every: durationOrNever({
    description:
      'How often the whole table is compared with the snapshot, by a hash of every row. A table that differs is loaded whole again, and the delivery ends as partial.',
    example: '1d',
  }).prefault('7d'),
  on_type_change: choice(['variant_column', 'fail'], {
    description:
      "What to do if a column's new type does not fit the column of the table, and that cannot widen: `variant_column` adds one column such as `score__text` with the text of every value, and leaves in the old one the values that fit it exactly; `fail` delivers nothing of the stream.",
    example: 'fail',
  }).prefault('variant_column'),
};

const modeWords: Record<Mode, string> = {
  append: '`append` writes every change as one more row',
  upsert: '`upsert` keeps one row a key and deletes nothing',
  mirror: '`mirror` keeps one row a key, deletes included',
  replace: '`replace` exchanges all rows at once',
};

function chosen<V extends string>(values: readonly V[], preferred: V, info: OptionInfo) {
  const words = values as readonly [V, ...V[]];
  const fallback = values.includes(preferred) ? preferred : (values[0] as V);
  const example = values.find((value) => value !== fallback) ?? fallback;
  return choice(words, { ...info, example }).prefault(fallback as never);
}

/** All keys of a destination of one connector: those of every destination, then the connector's own. */
function destinationShape(word: string, connector: Connector): Record<string, z.ZodType> {
  const ownShape = { name, connector: z.literal(word), streams, columns, on_reject: onReject };
  if (connector.kind === 'files') return { ...ownShape, ...connector.options };
  const modes: readonly Mode[] =
    connector.capabilities.modes ??
    (connector.kind === 'tables' ? ['append', 'upsert', 'mirror', 'replace'] : ['append', 'upsert', 'mirror']);
  const common = {
    ...ownShape,
    mode: chosen(modes, 'mirror', {
      description: `How changes become rows: ${modes.map((mode) => modeWords[mode]).join(', ')}.`,
    }),
    select,
  };
  if (connector.kind === 'records') return { ...common, ...connector.options };
  const deletes = chosen(connector.capabilities.deletes ?? ['hard', 'soft'], 'hard', {
    description:
      'What `mirror` does with a deleted row: `hard` deletes it, `soft` keeps it and sets `_deleted_at`. Every row then has that column.',
  });
  return { ...common, ...tableKeys, deletes, ...connector.options };
}

function branch([word, connector]: NamedConnector) {
  const info: OptionInfo = { description: connector.summary, ...connector.optionRules };
  return option(map(destinationShape(word, connector)) as z.ZodType, info);
}

/** A destination as the reader gives it: the keys of all kinds, in camelCase, and those of its connector. */
export interface DestinationPart {
  readonly name: string;
  readonly connector: string;
  readonly streams?: readonly string[] | undefined;
  readonly mode?: Mode;
  readonly select?: readonly string[] | undefined;
  readonly columns: Readonly<Record<string, { readonly drop: boolean; readonly rename?: string | undefined }>>;
  readonly onReject: 'continue' | 'fail';
  readonly table?: string;
  readonly deletes?: 'hard' | 'soft';
  readonly verify?: 'rows' | 'none';
  readonly verifyEvery?: number | 'never';
  readonly onTypeChange?: 'variant_column' | 'fail';
}

/** The `destinations:` of a job, each of one of these connectors. */
export function destinationsSchema(connectors: readonly NamedConnector[]) {
  const kinds = z.discriminatedUnion('connector', connectors.map(branch) as never);
  const one = option(kinds as unknown as z.ZodType<DestinationPart>, {
    description: 'A destination; `connector` says which keys it takes.',
    otherKinds: './file.js or a package that exports a connector',
  });
  return option(z.array(one).min(1), {
    description: 'Where the changes go after each run. One that is down delays no other.',
    allowed: 'a list of at least one destination',
    check: repeatedNames('destinations'),
  }).optional();
}
