import { fullTime, momentForm } from '../core/quantities.js';
import { z } from '../core/zod.js';
import {
  choice,
  duration,
  flag,
  map,
  type OptionInfo,
  type OptionProblem,
  option,
  verbatim,
  whole,
} from '../sdk/option.js';
import type { OptionsOf, SourceDeclaration } from '../sources/declaration.js';
import { sources as knownSources, type sources } from '../sources/sources.js';
import { columns, contract, select, strings, unsuitableRules } from './column-options.js';
import { destinationsSchema, type NamedConnector } from './destination-options.js';
import { guards, jobGuards } from './guard-options.js';
import { jobNameRule, jobNameSchema, nameRule, repeatedNames, streamNameSchema } from './names.js';
import { outcomeKeys } from './outcome-options.js';
import { plainAddresses, serviceSchema } from './service-options.js';
import { storageSchema } from './storage-options.js';

const name = option(streamNameSchema, {
  description: 'Name of the stream, and of its tables and its folder of Parquet files.',
  example: 'members',
  allowed: `${nameRule}; not cdsync`,
});

/** Options of the sources that are read in pages. */
const paged = {
  page_size: whole(1, 10_000, {
    description: 'Records to ask for in one page of this stream. Default: `service.page_size`.',
    unit: 'records',
    example: 1000,
  }).optional(),
};

/** Options of every stream. */
const common = { guards, select, columns, strings, contract };

type Common = OptionsOf<typeof common & { name: typeof name }> & Partial<OptionsOf<typeof paged>>;

type PartOf<D extends SourceDeclaration> = D extends unknown
  ? Common & { readonly source: D['name'] } & OptionsOf<D['options']>
  : never;

/** One stream as the reader gives it: the options of every stream and those of its source, in camelCase. */
export type StreamPart = PartOf<(typeof sources)[number]>;

function branch(source: SourceDeclaration) {
  const info: OptionInfo = {
    description: source.description,
    editorRules: source.editorRules,
    check: (stream) => [...(source.check?.(stream) ?? []), ...unsuitableRules(source, stream)],
  };
  const shape = { ...source.options, ...(source.pages && paged) };
  return option(map({ name, source: z.literal(source.name), ...shape, ...common }), info);
}

/** One stream of these sources; `source` says which keys it takes. */
export function streamSchemaWith(sources: readonly SourceDeclaration[]) {
  const kinds = z.discriminatedUnion('source', sources.map(branch) as never);
  return option(kinds as unknown as z.ZodType<StreamPart>, { description: 'Where the records of a stream come from.' });
}

const parquet = map({
  enabled: flag({ description: 'Writes Parquet files of each snapshot and of its changes.', example: false }).prefault(
    true,
  ),
  compression: choice(['zstd', 'snappy', 'gzip', 'none'], {
    description: 'How to compress the files. zstd gives the smallest files; every reader knows snappy.',
    example: 'snappy',
  }).prefault('zstd'),
});

const fileMode = z
  .string()
  .regex(/^(0o?)?[4-7][0-7]{2}$/)
  .transform((written) => Number.parseInt(written.replace(/^0o?/, ''), 8));

const publish = map({
  duckdb: flag({
    description: 'Writes a DuckDB file of each snapshot, `<storage>/<job>/<job>.duckdb`.',
    example: false,
  }).prefault(true),
  mode: option(fileMode, {
    description:
      'Permissions of published files, as octal digits. The default forbids writing, because a program that opens a DuckDB file without -readonly may change it. Everything else is 0600.',
    example: '0640',
    verbatim: true,
    allowed: 'octal permissions that let the owner read, such as "0600" or "0640"',
  }).prefault('0400'),
  history: duration({
    description: 'How far back changes and history reach in the DuckDB file.',
    example: '90d',
  }).prefault('35d'),
});

const keep = map({
  snapshots: whole(1, 1000, {
    description: 'Snapshots of each stream, the newest included.',
    example: 7,
  }).prefault(3),
  changes: duration({
    description: 'Changes of runs that began within this time. A destination further behind gets everything again.',
    example: '30d',
  }).prefault('90d'),
});

const recognition = map({
  enabled: flag({
    description:
      'Whether a run skips records that have the same bytes as in the last run. It never changes the result, only its cost.',
    example: false,
  }).prefault(true),
  verify_every: duration({
    description: 'After this time, a run converts and compares every record again. `--full` does so at once.',
    example: '7d',
  }).prefault('30d'),
});

/** One end of a range: code sees a full time in UTC. */
function rangeBound(info: OptionInfo) {
  const schema = z
    .string()
    .regex(momentForm)
    .refine((written) => fullTime(written) !== undefined, 'must be a date or a time that the calendar has')
    .transform((written) => fullTime(written) as string);
  return option(schema, {
    allowed: 'a date or a time, such as 2026-01-31 or 2026-01-31T12:00:00Z',
    verbatim: true,
    ...info,
  });
}

/** A range without its beginning is none; `range_from` alone means that one day. */
function endlessRange(step: unknown): OptionProblem[] {
  const { range_from: from, range_to: to } = step as Record<string, unknown>;
  if (from !== undefined || to === undefined) return [];
  return [{ path: [], message: 'range_from is missing: range_to is only its end' }];
}

const startWorkflow = map({
  config_id: verbatim({
    description: 'Id of the workflow configuration to run.',
    example: 'cg-1',
  }),
  run_mode: choice(['source', 'refresh', 'full'], {
    description: "How much of the workflow runs. Default: as in the workflow's own schedule.",
    example: 'refresh',
  }).optional(),
  range_from: rangeBound({
    description:
      'Beginning of the range of the workflow; without `range_to`, that one day. A workflow that pulls files needs it. cdsync sends a full time in UTC.',
    example: '2026-01-01',
  }).optional(),
  range_to: rangeBound({
    description: 'End of that range, not included.',
    example: '2026-02-01T00:00:00Z',
  }).optional(),
  deadline_ms: whole(1_000, 604_800_000, {
    description: 'If the workflow has not ended by then, cdsync stops it, and the run fails.',
    unit: 'ms',
    example: 7_200_000,
  }).prefault(86_400_000),
});

const beforeStep = option(
  map({
    start_workflow: option(startWorkflow, {
      description: 'Starts a workflow and waits for its end. A resumed run does not start it again.',
      check: endlessRange,
    }),
  }),
  { description: 'One step.' },
);

/** The keys of a job, without its streams and destinations. */
const jobKeys = {
  guards: jobGuards,
  select,
  strings,
  resume_within: duration({
    description:
      'The next run resumes a run that was cut short, if that run began within this time. Otherwise it reads everything again.',
    example: '12h',
  }).prefault('12h'),
  parquet: option(parquet, { description: 'The Parquet files of the job.' }).prefault({}),
  publish: option(publish, { description: 'The published files.' }).prefault({}),
  keep: option(keep, { description: 'How long Parquet files of the past stay.' }).prefault({}),
  recognition: option(recognition, { description: 'How a run skips unchanged records.' }).prefault({}),
  before: option(z.array(beforeStep).min(1), {
    description: 'Steps before the streams are read, one after the other. If a step fails, nothing is read.',
    allowed: 'a list of at least one step, such as { start_workflow: { config_id: cg-1 } }',
  }).optional(),
  ...outcomeKeys,
};

/** The names that a configuration may use. */
interface Named {
  readonly connectors: readonly NamedConnector[];
  readonly sources: readonly SourceDeclaration[];
}

/** The schema of a job, and of `defaults:`, which every job inherits. */
export function jobSchemaWith({ connectors, sources }: Named) {
  const streams = option(z.array(streamSchemaWith(sources)).min(1), {
    description: 'The streams of the job. A job has at least one, its own or from `defaults`.',
    allowed: 'a list of at least one stream',
    check: repeatedNames('streams'),
  }).optional();
  return map({ streams, ...jobKeys, destinations: destinationsSchema(connectors) });
}

/** The `resources:` part: what one process may use of the machine. */
export const resourcesSchema = map({
  memory_mb: whole(128, 1_048_576, {
    description:
      'Memory for the whole process, within a tenth; DuckDB has a part of it, and works on disk beyond that. ' +
      'A run of hundreds of thousands of rows takes about 400, even if less is set.',
    unit: 'MB',
    example: 768,
  }).prefault(768),
  threads: whole(1, 256, { description: 'Threads that DuckDB may use.', example: 2 }).prefault(2),
});

/** The schema of a job. */
type JobSchema = ReturnType<typeof jobSchemaWith>;

/** The schema of the whole file. Every option is declared once, here or in a file that this one imports. */
export function fileSchemaWith(jobSchema: JobSchema) {
  return map({
    version: option(z.literal(1), { description: 'Version of this file format.', example: 1 }).prefault(1),
    service: option(serviceSchema, {
      description: 'Where the service is, and how cdsync reads from it.',
      check: plainAddresses,
    }),
    storage: storageSchema.prefault('./data'),
    resources: option(resourcesSchema, { description: 'What one process may use of the machine.' }).prefault({}),
    jobs: option(z.record(jobNameSchema, option(jobSchema, { description: 'One job.' })), {
      description: 'The jobs, by name. Each is a folder in `storage`, with its own lock, snapshots and files.',
      allowed: jobNameRule,
    }).prefault({}),
    defaults: option(jobSchema, {
      description:
        'What every job inherits. Maps are merged, key by key. If both have a value or a list, the job wins.',
    }).prefault({}),
  });
}

/** The schema of a job with no connectors, and the sources that come with cdsync. */
export const jobSchema = jobSchemaWith({ connectors: [], sources: knownSources });
/** The schema of a file of such jobs. */
export const fileSchema = fileSchemaWith(jobSchema);
