import { getProfileOperation, profilesPageOperation } from '../api/profile-api.js';
import { hidesValues } from '../columns/column-rules.js';
import { CdsyncError } from '../core/errors.js';
import { z } from '../core/zod.js';
import { flag, map, type OptionProblem, option, verbatim, whole } from '../sdk/option.js';
import { type SourceContext, source } from './declaration.js';
import { completeSource, type ListSource, type ListSourceInput, type RecordProperties } from './source.js';
import { resolveIndex } from './whole-list.js';

const name = 'index_profiles';

/** Profiles of an index, however they are asked for. */
export const profileRecords: RecordProperties = {
  coverage: 'everything',
  declared: { id: 'VARCHAR', index_id: 'VARCHAR' },
  container: 'attributes',
  key: ['id'],
};

function profileList(indexId: string): ListSourceInput {
  return {
    kind: 'list',
    page: ({ token, limit, filter, withTotal }) =>
      profilesPageOperation({ indexId, nextToken: token, limit, filter, withTotal }),
    one: (id) => getProfileOperation(indexId, id),
  };
}

/** The profiles of an index by its id, for code that reads the service without a stream. */
export function profilesOfIndex(indexId: string): ListSource {
  return completeSource({ name, ...profileRecords }, profileList(indexId), { index: indexId });
}

function repeatedValues(value: unknown): OptionProblem[] {
  if (!Array.isArray(value)) return [];
  return value.flatMap((entry, index) => {
    const first = value.indexOf(entry);
    if (typeof entry !== 'string' || first === index) return [];
    return [{ path: [index], message: `the same value as [${first}]; a partition is read once` }];
  });
}

const partitionAttribute = map({
  attribute: option(z.string().min(1), {
    description: 'A filterable attribute. cdsync reads each of its values on its own, several at a time.',
    example: 'country',
    allowed: 'the name of an attribute',
    verbatim: true,
  }),
  values: option(z.array(verbatim({ description: 'A value of the attribute.', example: 'DE' })).min(1), {
    description:
      'The values to read. Default: those of the last snapshot. One more pass finds the profiles that no value covers, so a list that is too short costs time and no records.',
    example: ['US', 'DE'],
    allowed: 'a list of values',
    check: repeatedValues,
  }).optional(),
});

const partitionBy = z.union([
  option(z.literal('auto'), {
    description:
      'Each run chooses one attribute or two by the last snapshot: those that split the list most evenly, without nulls. A first run, and a list of a few pages, are read as one.',
    example: 'auto',
  }),
  option(partitionAttribute, { description: 'Reads each value of this attribute on its own.' }),
]);

const filterValue = option(z.string(), {
  description: 'The value to match, kept as written: `02134` is not 2134.',
  example: 'gold',
  verbatim: true,
  allowed: 'text, one value: several values are several streams',
});

/** The last snapshot cannot give the values of an attribute that is hashed, masked or dropped. */
function hiddenPartition(value: unknown): OptionProblem[] {
  const {
    columns: rules,
    select = rules?.['*'] === undefined ? undefined : Object.keys(rules),
    partition_by: partition,
  } = value as {
    select?: readonly string[];
    columns?: Record<string, Record<string, unknown> | undefined>;
    partition_by?: { attribute?: unknown; values?: unknown } | 'auto';
  };
  if (partition === 'auto') return [];
  if (partition === undefined || partition.values !== undefined) return [];
  const attribute = String(partition.attribute);
  const isLeftOut = select?.some((name) => name === attribute || name === `attributes.${attribute}`) === false;
  if (!isLeftOut && !hidesValues(rules?.[attribute])) return [];
  return [{ path: ['partition_by'], message: 'the attribute is not kept as it is, so its values must be given here' }];
}

function filteredPartition(value: unknown): OptionProblem[] {
  const { filter, partition_by: partition } = value as {
    filter?: object;
    partition_by?: { attribute?: unknown } | 'auto';
  };
  const attributeName = partition === 'auto' ? undefined : partition?.attribute;
  if (typeof attributeName !== 'string' || !Object.hasOwn(filter ?? {}, attributeName)) return [];
  return [{ path: ['partition_by', 'attribute'], message: 'the filter fixes this attribute; partition by another' }];
}

/** A variable that is not set gives an empty value, and that a selection of no profile. */
function assertNotEmpty(filter: Readonly<Record<string, string>>, { mayBeEmpty }: SourceContext): void {
  const emptyFilter = Object.entries(filter).find(([, value]) => value === '');
  if (emptyFilter === undefined || mayBeEmpty) return;
  throw new CdsyncError(`the value of the filter on "${emptyFilter[0]}" is empty`, {
    code: 'filter_empty',
    hint: 'is its variable set? If empty text is meant, set `guards: { min_rows: 0 }` for the stream',
  });
}

/** The profiles of one index (specification, sections 2.2, 4.4 and 4.5). */
export const indexProfiles = source({
  name,
  description: 'All profiles of an index, or those that match a filter.',
  options: {
    index: verbatim({
      description: 'Id or name of the index to read.',
      example: 'loyalty_members',
    }),
    filter: option(z.record(z.string().min(1), filterValue), {
      description: 'Only profiles whose attributes equal these values. The attributes must be filterable in the index.',
      example: { tier: 'gold' },
    }).prefault({}),
    partition_by: option(partitionBy, {
      description:
        'Reads the index in parts, in parallel, by the values of an attribute. `auto` lets each run choose the attribute.',
      example: 'auto',
      allowed: 'auto, or a map with attribute:',
    }).optional(),
    check_total: flag({
      description:
        'Also asks the service for its total, and looks for missing records if it differs. Can be expensive.',
      example: true,
    }).prefault(false),
    confirm_deletes: whole(0, 1_000_000_000, {
      description:
        'cdsync asks for up to this many missing profiles one by one before they count as deleted. Above it, a second pass decides.',
      unit: 'profiles',
      example: 10_000,
    }).prefault(10_000),
  },
  check: (stream) => [...filteredPartition(stream), ...hiddenPartition(stream)],
  notDefining: ['partition_by', 'check_total', 'confirm_deletes'],
  group: 'profile',
  ...profileRecords,
  hashesKey: true,
  pages: {},
  readOptions: ({ filter, partitionBy, checkTotal, confirmDeletes }) => ({
    filter: new Map(Object.entries(filter)),
    partitionBy,
    canPartition: true,
    checkTotal,
    confirmDeletes,
  }),
  open: async ({ index, filter }, context) => {
    assertNotEmpty(filter, context);
    const id = await resolveIndex(context, index);
    // A fingerprint holds the filter separately. It is sorted, for its order means nothing.
    return { ...profileList(id), asked: { index: id }, resolved: { index: id, filter: Object.entries(filter).sort() } };
  },
});
