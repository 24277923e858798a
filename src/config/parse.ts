import { dirname, join, resolve } from 'node:path';
import type { Node } from 'yaml';
import { builtIn } from '../../connectors/built-in.js';
import { CdsyncError } from '../core/errors.js';
import { noteSecrets, type Secret, secretsIn } from '../core/secret.js';
import { nearest } from '../core/suggestions.js';
import { z } from '../core/zod.js';
import type { Connector } from '../sdk/destination.js';
import type { SourceDeclaration } from '../sources/declaration.js';
import { sources as knownSources } from '../sources/sources.js';
import { deepMerge, jobConfig, otlpHeaders, serviceOptions } from './assemble.js';
import type { Config, JobConfig, JobSummary, LocalConfig } from './config.js';
import { checkStreamNames, destinationConfigs, type TakenPlaces } from './destination-config.js';
import { bareLimits } from './guard-options.js';
import { fileSchema, fileSchemaWith, jobSchema, jobSchemaWith, resourcesSchema } from './job-options.js';
import { type LintedStream, lintedJobs } from './linted-streams.js';
import type { LoadedConnector } from './load-connectors.js';
import { ConfigError, ConfigProblems, type Path, shownPath } from './problem.js';
import { isPlainMap, UnresolvedVariable, YamlSchemaReader } from './reader.js';
import { isReadableOnTheWay, retry, serviceSchema } from './service-options.js';
import { SecretFiles, type Variables } from './variables.js';
import { parseYaml, type YamlDocument } from './yaml-document.js';

/** The parts of a configuration that a command uses. Variables that are only in other parts need not be set. */
export interface Needs {
  /** Where the service is and how to log in. Default true. */
  readonly service?: boolean;
  /** The jobs. Default true; false leaves {@link LocalConfig.jobs} empty. */
  readonly jobs?: boolean;
  /** These jobs only. */
  readonly job?: string | readonly string[] | undefined;
  /** The destinations of the jobs. Default false: {@link JobConfig.destinations} is then empty. */
  readonly destinations?: boolean;
  /** What happens when a run is over (`notify`, `metrics`, `after`). Default false: these are left out. */
  readonly outcome?: boolean;
}

export interface ParseOptions {
  readonly env: Variables;
  /** The file that gave some of them, for messages. */
  readonly envFile?: string | undefined;
  readonly needs?: Needs;
  /** Messages name the file relative to this folder if that is shorter. Default: the working directory. */
  readonly cwd?: string;
  /** The connectors that the file may name, by the word that `connector:` uses for them. Default: none. */
  readonly connectors?: ReadonlyMap<string, LoadedConnector>;
  /** The sources that streams may read. Default: those that come with cdsync. */
  readonly sources?: readonly SourceDeclaration[];
  /** Receives the words of connectors that are not known. */
  readonly unknownConnectors?: Set<string>;
}

/** The schemas of a file, with the connectors and sources that it may name. */
interface Schemas {
  readonly connectors: ReadonlyMap<string, Connector>;
  readonly sources: ReadonlyMap<string, SourceDeclaration>;
  readonly file: typeof fileSchema;
  readonly job: typeof jobSchema;
}

function schemasFor({ connectors: loaded = new Map(), sources: named = knownSources }: ParseOptions): Schemas {
  const sources = new Map(named.map((source) => [source.name, source]));
  const connectors = new Map<string, Connector>();
  for (const [word, connector] of loaded) if (!('failure' in connector)) connectors.set(word, connector);
  if (connectors.size === 0 && named === knownSources) return { connectors, sources, file: fileSchema, job: jobSchema };
  const job = jobSchemaWith({ connectors: [...connectors], sources: named });
  return { connectors, sources, job, file: fileSchemaWith(job) };
}

const replacedWebhook =
  '`webhook` is now `connector: http`, which sends the same signed batches without `body`; `max_records` and `max_bytes` are `batch: { records, bytes }`, `ca_file` is `tls: { ca_file }`';

type PlainMap = Record<string, unknown>;

/**
 * Reads a configuration from its text. Relative paths in it are relative to the folder of `file`.
 *
 * @throws ConfigError with everything that is wrong. Whatever the text, it throws nothing but a {@link CdsyncError}.
 */
export function parseConfig(
  text: string,
  file: string,
  options: ParseOptions & { needs: Needs & { service: false } },
): LocalConfig;
export function parseConfig(text: string, file: string, options: ParseOptions): Config;
export function parseConfig(text: string, file: string, options: ParseOptions): LocalConfig | Config {
  const files = new SecretFiles(dirname(resolve(file)));
  const { absolute, findings, schemas, plain, secretVariables } = readFile(text, file, { ...options, files });
  const jobs = inheritingJobs(plain);
  const parts = partsOf(plain, jobs, options.needs ?? {}, findings);
  if (options.needs?.service === false) forgetUnsetSalts(parts.jobs as PlainMap);
  checkDeferred(parts, findings);
  checkNames(jobs, findings);
  if (findings.problems.length > 0) throw new ConfigError(findings.problems);
  assertKnownJob(jobs, options.needs?.job);
  const about = { file: absolute, jobSummaries: jobSummaries(jobs, schemas), secretVariables, secrets: files.secrets };
  const config = build(parts, about, { ...schemas, env: options.env }, findings);
  noteSecrets(secretsOf(config));
  return config;
}

/** All secrets of a configuration. */
export function secretsOf(config: LocalConfig & Partial<Config>): Secret[] {
  const used = config.jobs.flatMap(({ streams, destinations, notify, metrics }) => [
    ...streams.flatMap(({ columns }) => Object.values(columns)),
    ...destinations.map(({ options }) => options),
    notify,
    metrics,
  ]);
  return [...config.secrets, ...secretsIn([config.service, used, config.bucket])];
}

/** `job`: the file must have these jobs. */
export type LintOptions = Omit<ParseOptions, 'needs'> & Pick<Needs, 'job'>;

/** What {@link lintConfig} found no fault in. */
export interface Linted {
  readonly warnings: readonly string[];
  /** Names of variables without a value: their options were not checked. */
  readonly unset: readonly string[];
  /** The streams of each job, for a look at their SQL. */
  readonly jobs: readonly (readonly LintedStream[])[];
}

/**
 * Checks the text of a configuration as far as it goes without the values of its variables, and without any other file.
 * @throws ConfigError with everything that is wrong
 */
export function lintConfig(text: string, file: string, options: LintOptions): Linted {
  const { absolute, findings, schemas, plain, secretVariables } = readFile(text, file, options);
  const jobs = inheritingJobs(plain);
  const parts = partsOf(plain, jobs, { destinations: true, outcome: true }, findings);
  const deferred = deferredIn(parts);
  const isAbsent = ({ problem }: UnresolvedVariable) => problem.unset !== undefined || problem.isUnread === true;
  findings.problems.push(...deferred.filter((variable) => !isAbsent(variable)).map(({ problem }) => problem));
  if (findings.problems.length > 0) throw new ConfigError(findings.problems);
  assertKnownJob(jobs, options.job);
  const unset = [...new Set(deferred.flatMap(({ problem }) => problem.unset ?? []))];
  const linted = { unset, jobs: lintedJobs(jobs, namesOf(options.job), findings) };
  if (deferred.length > 0) return { ...linted, warnings: findings.warnings };
  const about = { file: absolute, jobSummaries: jobSummaries(jobs, schemas), secretVariables, secrets: [] };
  return { ...linted, warnings: build(parts, about, { ...schemas, env: options.env }, findings).warnings };
}

function readFile(text: string, file: string, options: ParseOptions & { files?: SecretFiles }) {
  const absolute = resolve(file);
  // Editors on Windows begin a file with a byte order mark; it would move the columns of the first line.
  const parsed = parseYaml(text.replace(/^\uFEFF/, ''));
  const shown = shownPath(absolute, options.cwd ?? process.cwd());
  const findings = new ConfigProblems(shown, parsed.position, text.replace(/^\uFEFF/, ''));
  const schemas = schemasFor(options);
  return { absolute, findings, schemas, ...readPlain(parsed, findings, schemas, options) };
}

/** The parts of the file that a command uses. */
function partsOf(plain: PlainMap, jobs: PlainMap, needs: Needs, findings: ConfigProblems): PlainMap {
  const { version, storage, resources, service } = plain;
  const parts = { version, storage, resources, jobs: chooseJobs(jobs, needs, findings) };
  if (needs.service !== false) return { ...parts, service };
  // Deliveries wait for receivers as readings do for the service.
  const patience = isPlainMap(service) && isPlainMap(service.retry) ? service.retry.patience : undefined;
  return { ...parts, patience: patience instanceof UnresolvedVariable ? undefined : patience };
}

function readPlain(
  parsed: YamlDocument,
  findings: ConfigProblems,
  schemas: Schemas,
  { env, files, connectors, unknownConnectors }: ParseOptions & { files?: SecretFiles },
): { plain: PlainMap; secretVariables: readonly string[] } {
  const root = parsed.document?.contents as Node | null | undefined;
  if (parsed.faults.length > 0 || root === undefined) {
    const problems = parsed.faults.map(({ offset, message }) => findings.problem({ path: [], offset }, { message }));
    throw new ConfigError(problems);
  }
  const reader = new YamlSchemaReader(parsed, findings, { env, files });
  const plain = reader.read(schemas.file, root, { path: [], offset: root?.range?.[0] ?? 0 });
  for (const { word, site } of reader.otherKinds) {
    if (word === 'webhook') {
      findings.refuse(site, { message: replacedWebhook });
      continue;
    }
    const loaded = connectors?.get(word);
    const isRefused = loaded !== undefined && 'failure' in loaded && !(loaded.isMissing && isMisspelt(word));
    if (isRefused) findings.refuse(site, { message: loaded.failure });
    unknownConnectors?.add(word);
  }
  if (!isPlainMap(plain)) throw new ConfigError(findings.problems);
  return { plain, secretVariables: [...reader.secretVariables, otlpHeaders] };
}

/** Whether a word looks like that of a connector: then no package of that name is meant, and none should be installed. */
function isMisspelt(word: string): boolean {
  return nearest(word, Object.keys(builtIn), 1).length > 0;
}

function inheritingJobs({ defaults, jobs }: PlainMap): PlainMap {
  if (!isPlainMap(jobs)) return {};
  return Object.fromEntries(Object.entries(jobs).map(([name, job]) => [name, deepMerge(defaults, job)]));
}

function chooseJobs(jobs: PlainMap, needs: Needs, findings: ConfigProblems): PlainMap {
  if (needs.jobs === false) return {};
  if (Object.keys(jobs).length === 0 && !findings.hasProblemBelow(['jobs'])) {
    findings.reportAt(['jobs'], { message: 'missing', allowed: 'a map of at least one job' });
  }
  for (const [name, job] of Object.entries(jobs)) {
    if (!isPlainMap(job) || job.streams !== undefined || findings.hasProblemBelow(['jobs', name])) continue;
    findings.reportAt(['jobs', name, 'streams'], { message: 'missing', allowed: 'a list of at least one stream' });
  }
  const wanted = namesOf(needs.job);
  const chosen = Object.entries(jobs).filter(([name]) => wanted === undefined || wanted.includes(name));
  for (const [name, job] of chosen) {
    if (!isPlainMap(job)) continue;
    warnOfLimits(['jobs', name], job, findings);
    const streams: unknown[] = Array.isArray(job.streams) ? job.streams : [];
    const allNames = streams.flatMap((stream) =>
      isPlainMap(stream) && typeof stream.name === 'string' ? [stream.name] : [],
    );
    if (needs.destinations && allNames.length === streams.length)
      checkStreamNames(name, allNames, job.destinations, findings);
  }
  const unused = {
    ...(needs.destinations === true ? {} : { destinations: undefined }),
    ...(needs.outcome === true ? {} : { notify: undefined, metrics: undefined, after: undefined }),
  };
  return Object.fromEntries(chosen.map(([name, job]) => [name, isPlainMap(job) ? { ...job, ...unused } : job]));
}

/** A command that does not talk to the service hashes nothing, so the variables of salts need not be set. */
function forgetUnsetSalts(jobs: PlainMap): void {
  for (const job of Object.values(jobs)) {
    for (const stream of isPlainMap(job) && Array.isArray(job.streams) ? job.streams : []) {
      for (const rule of Object.values(isPlainMap(stream?.columns) ? stream.columns : {})) {
        if (isPlainMap(rule) && rule.salt instanceof UnresolvedVariable) delete rule.salt;
      }
    }
  }
}

function deferredIn(value: unknown): UnresolvedVariable[] {
  if (value instanceof UnresolvedVariable) return [value];
  if (Array.isArray(value)) return value.flatMap(deferredIn);
  return isPlainMap(value) ? Object.values(value).flatMap(deferredIn) : [];
}

function checkDeferred(value: unknown, findings: ConfigProblems): void {
  findings.problems.push(...deferredIn(value).map(({ problem }) => problem));
}

function destinationsOf(job: unknown): PlainMap[] {
  return isPlainMap(job) && Array.isArray(job.destinations) ? job.destinations.filter(isPlainMap) : [];
}

/** Every command needs the names of streams and destinations, so their variables must be set. */
function checkNames(jobs: PlainMap, findings: ConfigProblems): void {
  for (const job of Object.values(jobs)) {
    const streams = isPlainMap(job) && Array.isArray(job.streams) ? job.streams : [];
    for (const stream of streams) checkDeferred(isPlainMap(stream) ? stream.name : stream, findings);
    for (const destination of destinationsOf(job)) checkDeferred(destination.name, findings);
  }
}

function namesOf(job: Needs['job']): readonly string[] | undefined {
  return typeof job === 'string' ? [job] : job;
}

function assertKnownJob(jobs: PlainMap, job: Needs['job']): void {
  const wanted = namesOf(job)?.find((name) => !Object.hasOwn(jobs, name));
  if (wanted === undefined) return;
  const names = Object.keys(jobs);
  const [near] = nearest(wanted, names, 1);
  const advice = near === undefined ? '' : `; did you mean "${near}"?`;
  throw new CdsyncError(`no job is called ${JSON.stringify(wanted)}${advice}`, {
    code: 'job_not_found',
    hint: `the jobs of this file: ${names.join(', ')}`,
  });
}

function jobSummaries(jobs: PlainMap, { connectors }: Schemas): JobSummary[] {
  return Object.entries(jobs).map(([name, job]) => {
    const listed = isPlainMap(job) && Array.isArray(job.streams) ? job.streams : [];
    const streams = listed.flatMap(({ name, source }) =>
      typeof name === 'string' ? [{ name, source: String(source) }] : [],
    );
    const destinations = destinationsOf(job).flatMap(
      ({ name, connector, streams: streamNames, mode, delete: form }) => {
        if (typeof name !== 'string') return [];
        const { erasure, kind } = connectors.get(String(connector)) ?? {};
        const sendsDeletes = kind !== 'records' || !(mode === 'upsert' || form === 'skip');
        return [{ name, streams: textsOf(streamNames) ?? streams.map((stream) => stream.name), erasure, sendsDeletes }];
      },
    );
    return { name, streams, destinations };
  });
}

function textsOf(value: unknown): string[] | undefined {
  return Array.isArray(value) ? value.filter((name) => typeof name === 'string') : undefined;
}

/** Fills in the defaults. The reader has checked every value; if the schema still refuses one, the reader has a gap. */
function typed<S extends z.ZodType>(schema: S, value: unknown, path: Path, findings: ConfigProblems): z.output<S> {
  const result = z.safeParse(schema, value);
  if (result.success) return result.data;
  for (const issue of result.error.issues) {
    findings.reportAt([...path, ...(issue.path as (string | number)[])], { message: 'this value is not allowed' });
  }
  throw new ConfigError(findings.problems, { cause: result.error });
}

function build(
  parts: PlainMap,
  about: Pick<LocalConfig, 'file' | 'jobSummaries' | 'secretVariables' | 'secrets'>,
  schemas: Schemas & { readonly env: Variables },
  findings: ConfigProblems,
): LocalConfig | Config {
  const folder = dirname(about.file);
  const taken: TakenPlaces = new Map();
  const { storage, bucket } = storageOf(
    typed(fileSchema.in.shape.storage, parts.storage, ['storage'], findings),
    folder,
  );
  const jobFolders = about.jobSummaries.map(({ name }) => join(storage, name));
  const jobs = Object.entries(parts.jobs as PlainMap).map(([name, plain]): JobConfig => {
    const part = typed(schemas.job, plain, ['jobs', name], findings);
    const job = jobConfig(name, part, { folder, sources: schemas.sources, env: schemas.env });
    warnOfReceivers(job, findings);
    const streams = job.streams.map((stream) => ({
      name: stream.name,
      source: stream.source,
      collection: 'collection' in stream ? stream.collection : undefined,
    }));
    const publishes = job.parquet.enabled || job.publish.duckdb;
    const surroundings = { name, streams, publishes, folder, jobFolders, connectors: schemas.connectors };
    return { ...job, destinations: destinationConfigs(part.destinations ?? [], surroundings, taken, findings) };
  });
  // DuckDB would write the log of the store to another place, and never find it again.
  if (storage.includes('?'))
    findings.reportAt(['storage'], { message: 'a path with "?" cannot hold DuckDB files', found: storage });
  if (findings.problems.length > 0) throw new ConfigError(findings.problems);
  const local: Omit<LocalConfig, 'warnings' | 'patienceMs'> = {
    ...about,
    version: typed(fileSchema.in.shape.version, parts.version, ['version'], findings),
    storage,
    ...(bucket === undefined ? {} : { bucket }),
    resources: typed(resourcesSchema, parts.resources ?? {}, ['resources'], findings),
    jobs,
  };
  if (parts.service === undefined) {
    const { patience } = typed(retry, { patience: parts.patience }, ['service', 'retry'], findings);
    return { ...local, patienceMs: patience, warnings: findings.warnings };
  }
  const service = serviceOptions(typed(serviceSchema, parts.service, ['service'], findings), folder);
  return { ...local, patienceMs: service.retry.patienceMs, service, warnings: findings.warnings };
}

function storageOf(
  storage: z.output<typeof fileSchema.in.shape.storage>,
  folder: string,
): Pick<LocalConfig, 'storage' | 'bucket'> {
  if (typeof storage === 'string') return { storage: resolve(folder, storage) };
  const { cache, ...bucket } = storage;
  return { storage: resolve(folder, cache), bucket };
}

/** Warns of limits that may be meant as a share. */
function warnOfLimits(at: Path, job: PlainMap, findings: ConfigProblems): void {
  const streams: unknown[] = Array.isArray(job.streams) ? job.streams : [];
  const parts: [Path, unknown][] = [
    [at, job],
    ...streams.map((stream, index): [Path, unknown] => [[...at, 'streams', index], stream]),
  ];
  for (const [place, part] of parts)
    for (const { path, message } of bareLimits(isPlainMap(part) ? part.guards : {}))
      findings.warn([...place, 'guards', ...path], message);
}

/** Warns of receivers that would never report anything. */
function warnOfReceivers(
  { name, notify, metrics }: Pick<JobConfig, 'name' | 'notify' | 'metrics'>,
  findings: ConfigProblems,
): void {
  const inTheOpen = 'plain http to another machine: messages can be read on the way';
  for (const [index, { webhook, ping, every }] of notify.entries()) {
    const path = ['jobs', name, 'notify', index];
    const url = webhook ?? ping;
    if (url !== undefined && isReadableOnTheWay(url.reveal())) findings.warn(path, inTheOpen);
    if (ping !== undefined && !every) findings.warn(path, 'health checks need a ping from every run: set every: true');
  }
  if (metrics.otlp !== undefined && isReadableOnTheWay(metrics.otlp.endpoint))
    findings.warn(['jobs', name, 'metrics', 'otlp'], inTheOpen);
}
