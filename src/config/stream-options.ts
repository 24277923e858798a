import { z } from 'zod';
import { nameRule, streamNameSchema } from './names.js';
import { type Finding, map, notYet, option } from './option.js';
import { flag, onlyNow, verbatim, whole } from './option-types.js';

const laterSources = [
  'profiles',
  'segments',
  'campaigns',
  'campaign_drafts',
  'segment_members',
  'profile_segments',
  'realtime_profiles',
  'collection_stats',
  'collection_history',
  'audit_events',
  'ingest_jobs',
  'workflow_runs',
  'sql',
];

const name = option(streamNameSchema, {
  description: 'Name of the stream: its tables and its folder of Parquet files are called so.',
  example: 'members',
  allowed: `${nameRule}; not cdsync`,
});

const pageSize = whole(1, 10_000, {
  description: 'Records asked for in one page of this stream; left out: `service.page_size`.',
  unit: 'records',
  example: 1000,
}).optional();

const minRows = option(z.literal(0), {
  description: '0 lets a stream come back empty after a run in which it was not; otherwise such a result is held.',
  example: 0,
  allowed: '0',
  notYet: (found) => (/^[1-9]\d*$/.test(found) ? 'not yet: this version takes min_rows: 0 only' : undefined),
});

const judges = 'this version judges no changes before it commits them';

/** Rules about the result of a run; the same for one stream and for all streams of a job. */
export const guards = option(
  map({
    min_rows: minRows.optional(),
    max_deleted: notYet(judges),
    max_changed: notYet(judges),
    max_rejected: notYet(judges),
    scope: notYet(judges),
    unique: notYet('this version checks no columns'),
    max_null: notYet('this version checks no columns'),
    expect: notYet('this version runs no checks of your own'),
  }),
  { description: 'What must hold before a result is committed.' },
).optional();

const laterContracts = ['freeze', 'discard_value', 'discard_row'];

const contract = map({
  columns: onlyNow('evolve', laterContracts, 'columns:', {
    description: 'What happens when a new attribute appears: `evolve` adds a column.',
    example: 'evolve',
  }).prefault('evolve'),
  types: onlyNow('evolve', laterContracts, 'types:', {
    description: 'What happens when a value does not fit its column: `evolve` widens the type, and never narrows it.',
    example: 'evolve',
  }).prefault('evolve'),
});

const attribute = z.string().min(1);

function repeatedValues(value: unknown): Finding[] {
  if (!Array.isArray(value)) return [];
  return value.flatMap((entry, index) => {
    const first = value.indexOf(entry);
    if (typeof entry !== 'string' || first === index) return [];
    return [{ path: [index], message: `the same value as [${first}]; a partition is read once` }];
  });
}

const partitionBy = map({
  attribute: option(attribute, {
    description: 'A filterable attribute; each of its values is read on its own, several at a time.',
    example: 'country',
    allowed: 'the name of an attribute',
    verbatim: true,
  }),
  values: option(z.array(verbatim({ description: 'A value of the attribute.', example: 'DE' })).min(1), {
    description:
      'The values to read; left out: those of the last snapshot. What no value covers is found by one more pass, so a list that is too short costs time and no records.',
    example: ['US', 'DE'],
    allowed: 'a list of values',
    check: repeatedValues,
  }).optional(),
});

const filterValue = option(z.string(), {
  description: 'The value to match, kept as written: `02134` is not 2134.',
  example: 'gold',
  verbatim: true,
  allowed: 'text',
});

function filteredPartition(value: unknown): Finding[] {
  const { filter, partition_by: partition } = value as { filter?: object; partition_by?: { attribute?: unknown } };
  const attributeName = partition?.attribute;
  if (typeof attributeName !== 'string' || !Object.hasOwn(filter ?? {}, attributeName)) return [];
  return [{ path: ['partition_by', 'attribute'], message: 'the filter fixes this attribute; partition by another' }];
}

const indexProfiles = option(
  map({
    name,
    source: z.literal('index_profiles'),
    index: verbatim({
      description: 'Id or name of the index whose profiles are read.',
      example: 'loyalty_members',
    }),
    filter: option(z.record(z.string().min(1), filterValue), {
      description: 'Only profiles whose attributes equal these values. The attributes must be filterable in the index.',
      example: { tier: 'gold' },
    }).prefault({}),
    partition_by: option(partitionBy, {
      description: 'Reads the index in parts, in parallel, by the values of one attribute.',
    }).optional(),
    page_size: pageSize,
    check_total: flag({
      description:
        'Asks the service for its total as well, and looks for what is missing where it differs. Can be expensive.',
      example: true,
    }).prefault(false),
    confirm_deletes: whole(0, 1_000_000_000, {
      description:
        'Up to so many profiles that are missing are asked for one by one before they count as deleted; above it, a second pass decides.',
      unit: 'profiles',
      example: 10_000,
    }).prefault(10_000),
    contract: option(contract, { description: 'What happens when columns or types change.' }).prefault({}),
    guards,
    columns: notYet('this version has no rules for columns'),
  }),
  { description: 'All profiles of an index, or those that a filter matches.', check: filteredPartition },
);

const indexes = option(
  map({
    name,
    source: z.literal('indexes'),
    page_size: pageSize,
    guards,
    contract: notYet('contracts of this source'),
    confirm_deletes: notYet('confirmed deletes of this source'),
    columns: notYet('this version has no rules for columns'),
  }),
  { description: 'The indexes of the tenant.' },
);

/** One stream; `source` says which keys it takes. */
export const streamSchema = option(z.discriminatedUnion('source', [indexProfiles, indexes]), {
  description: 'Where the records of a stream come from.',
  notYet: (source) =>
    laterSources.includes(source) ? 'not yet: this version reads index_profiles and indexes' : undefined,
});

/** Sources that are known, and refused until they are built. */
export const notYetSources: readonly string[] = laterSources;
