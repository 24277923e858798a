import { z } from 'zod';
import { type Finding, map, option } from '../sdk/option.js';
import { choice, flag, text, verbatim, whole } from '../sdk/option-types.js';
import { columns, contract, unsuitableRules } from './column-options.js';
import { guards } from './guard-options.js';
import { nameRule, streamNameSchema } from './names.js';
import { keyList, moment } from './read-option-types.js';

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

/** What every stream may say. */
const common = { guards, columns, contract };

/** Values of the last snapshot are no use where they are hashed, masked or not there. */
function hiddenPartition(value: unknown): Finding[] {
  const { columns: rules, partition_by: partition } = value as {
    columns?: Record<string, Record<string, unknown> | undefined>;
    partition_by?: { attribute?: unknown; values?: unknown };
  };
  const rule = rules?.[String(partition?.attribute)];
  if (partition?.values !== undefined || !(rule?.hash || rule?.mask || rule?.drop)) return [];
  return [{ path: ['partition_by'], message: 'the attribute is not kept as it is, so its values must be given here' }];
}

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
    ...common,
  }),
  {
    description: 'All profiles of an index, or those that a filter matches.',
    check: (value) => [...filteredPartition(value), ...hiddenPartition(value)],
  },
);

/** Keys that every list of the service takes. */
const listKeys = { name, page_size: pageSize, ...common };

const indexes = option(map({ ...listKeys, source: z.literal('indexes') }), {
  description: 'The indexes of the tenant.',
});

const segments = option(map({ ...listKeys, source: z.literal('segments') }), {
  description: 'The segments of the tenant.',
});

const template = verbatim({
  description: 'Only those whose destination data template has this id.',
  example: 'ddt-1',
}).optional();

const campaigns = option(map({ ...listKeys, source: z.literal('campaigns'), destination_data_template_id: template }), {
  description: 'The campaigns of the tenant.',
});

const campaignDrafts = option(
  map({ ...listKeys, source: z.literal('campaign_drafts'), destination_data_template_id: template }),
  { description: 'The drafts of campaigns. Asked for under `service.api_versions.campaign_drafts`.' },
);

const segmentMembers = option(
  map({
    ...listKeys,
    source: z.literal('segment_members'),
    segment: verbatim({ description: 'Id of the real-time segment whose members are read.', example: 'seg-vip' }),
  }),
  { description: 'The members of a real-time segment: each run tells who entered and who left.' },
);

const collection = verbatim({ description: 'Id of the profile collection.', example: 'col-1' });

const ids = option(keyList(z.array(verbatim({ description: 'One id.', example: 'p-0001' })), 'ids'), {
  description: 'The ids that are asked for, one request each.',
  allowed: 'a list of ids, or a map with file: or sql:',
});

const identityKeys = option(
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
    description: 'The identity keys that profiles are looked up by, one lookup each.',
    allowed: 'a list of maps of key names to values, or a map with file: or sql:',
  },
);

const profiles = option(
  map({
    name,
    source: z.literal('profiles'),
    index: verbatim({ description: 'Id or name of the index.', example: 'loyalty_members' }),
    ids,
    ...common,
  }),
  {
    description: 'Single profiles of an index, by id. An id that is not there is no row; if it was one, it is deleted.',
  },
);

const profileSegments = option(
  map({
    name,
    source: z.literal('profile_segments'),
    collection,
    ids,
    page_size: pageSize,
    ...common,
  }),
  { description: 'The real-time segments that each of some profiles is a member of.' },
);

function idsOrKeys(value: unknown): Finding[] {
  const { ids: byId, keys } = value as { ids?: unknown; keys?: unknown };
  if ((byId === undefined) !== (keys === undefined)) return [];
  return [{ path: byId === undefined ? [] : ['keys'], message: 'give either ids or keys' }];
}

const realtimeProfiles = option(
  map({
    name,
    source: z.literal('realtime_profiles'),
    collection,
    ids: ids.optional(),
    keys: identityKeys.optional(),
    enrich: flag({ description: 'Asks for enriched attributes as well.', example: true }).prefault(false),
    method: choice(['post', 'get'], {
      description:
        'How profiles are looked up by `keys`. `post` sends them in the body; with `get` they stand in the URL, where proxies log them.',
      example: 'get',
    }).prefault('post'),
    ...common,
  }),
  { description: 'Real-time profiles of a collection, by profile id or by identity keys.', check: idsOrKeys },
);

const collectionStats = option(map({ name, source: z.literal('collection_stats'), collection, ...common }), {
  description: 'One sample of the statistics of a collection in each run.',
});

const collectionHistory = option(
  map({
    name,
    source: z.literal('collection_history'),
    collection,
    scale: choice(['minute', 'hour', 'day'], { description: 'Width of a bucket.', example: 'hour' }).prefault('day'),
    ...common,
  }),
  { description: 'Profile counts of a collection over time. Buckets that had not ended are read again.' },
);

/** Keys of the lists that are read in windows of time. */
const windowKeys = {
  ...listKeys,
  since: moment({
    description:
      'The first run reads from here on; left out: from 30 days before it. An earlier time is filled in later.',
    example: '2026-01-01',
  }).optional(),
  lag_ms: whole(0, 604_800_000, {
    description:
      'Each run reads so much again of what the run before has read: what the service lists late is found then.',
    unit: 'ms',
    example: 600_000,
  }).prefault(600_000),
};

const auditEvents = option(map({ ...windowKeys, source: z.literal('audit_events') }), {
  description: 'The audit events of the tenant. Events are never deleted.',
});

const ingestJobs = option(map({ ...windowKeys, source: z.literal('ingest_jobs') }), {
  description: 'The ingest jobs of the tenant; those that have not ended are read again, by id, until they have.',
});

const workflowRuns = option(map({ ...windowKeys, source: z.literal('workflow_runs') }), {
  description: 'The workflow runs of the tenant; those that have not ended are read again, by id, until they have.',
});

const sql = option(
  map({
    name,
    source: z.literal('sql'),
    query: text({
      description:
        'A SELECT over the other streams of the job, by their names, and over local files, whose paths are relative to the YAML file.',
      example: 'select id, ltv from members where ltv > 1000',
    }),
    key: option(z.array(text({ description: 'A column of the query.', example: 'id' })).min(1), {
      description: 'The columns that tell one row from another.',
      example: ['id'],
      allowed: 'a list of columns of the query',
    }),
    ...common,
  }),
  { description: 'The rows of a query, computed after the streams it names, compared and delivered like any other.' },
);

/** One stream; `source` says which keys it takes. */
export const streamSchema = option(
  z.discriminatedUnion('source', [
    indexProfiles,
    indexes,
    profiles,
    segments,
    segmentMembers,
    profileSegments,
    realtimeProfiles,
    collectionStats,
    collectionHistory,
    campaigns,
    campaignDrafts,
    auditEvents,
    ingestJobs,
    workflowRuns,
    sql,
  ]),
  { description: 'Where the records of a stream come from.', check: unsuitableRules },
);
