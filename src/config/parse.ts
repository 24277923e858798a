import { dirname, resolve } from 'node:path';
import type { Node } from 'yaml';
import { z } from 'zod';
import { CdsyncError } from '../core/errors.js';
import { nearest } from '../core/nearest.js';
import { deepMerge, isPlainMap, jobConfig, serviceOptions } from './assemble.js';
import type { Config, JobConfig, JobOutline, LocalConfig } from './config.js';
import { Findings, type Path } from './findings.js';
import { fileSchema, jobSchema, resourcesSchema } from './job-options.js';
import { ConfigError, shownPath } from './problem.js';
import { ConfigReader, Deferred } from './reader.js';
import { serviceSchema } from './service-options.js';
import type { Variables } from './variables.js';
import { parseYaml, type YamlDocument } from './yaml-document.js';

/** What a command uses of a configuration. Variables that serve nothing of it need not be set. */
export interface Needs {
  /** Where the service is and how to log in. Default true. */
  readonly service?: boolean;
  /** Jobs at all. Default true; false leaves {@link LocalConfig.jobs} empty, and the outline tells their names. */
  readonly jobs?: boolean;
  /** This job only. */
  readonly job?: string | undefined;
}

export interface ParseOptions {
  readonly env: Variables;
  readonly needs?: Needs;
  /** Messages name the file relative to this folder where that is shorter. Default: the working directory. */
  readonly cwd?: string;
}

type PlainMap = Record<string, unknown>;

/**
 * Reads a configuration from its text. `file` is where it stands: relative paths in it are relative to that folder.
 *
 * @throws ConfigError with everything that is wrong, and nothing but a {@link CdsyncError} whatever the text.
 */
export function parseConfig(
  text: string,
  file: string,
  options: ParseOptions & { needs: Needs & { service: false } },
): LocalConfig;
export function parseConfig(text: string, file: string, options: ParseOptions): Config;
export function parseConfig(text: string, file: string, options: ParseOptions): LocalConfig | Config {
  const absolute = resolve(file);
  // Editors on Windows begin a file with a byte order mark; it would move the columns of the first line.
  const parsed = parseYaml(text.replace(/^\uFEFF/, ''));
  const findings = new Findings(shownPath(absolute, options.cwd ?? process.cwd()), parsed.position);
  const plain = readPlain(parsed, findings, options.env);
  const jobs = inheritingJobs(plain);
  const chosen = chooseJobs(jobs, options.needs ?? {}, findings);
  const parts: PlainMap = { version: plain.version, storage: plain.storage, resources: plain.resources, jobs: chosen };
  if (options.needs?.service !== false) parts.service = plain.service;
  else forgetUnsetSalts(chosen);
  refuseDeferred(parts, findings);
  refuseNameless(jobs, findings);
  if (findings.problems.length > 0) throw new ConfigError(findings.problems);
  refuseUnknownJob(jobs, options.needs?.job);
  return build(parts, { file: absolute, outline: outline(jobs) }, findings);
}

function readPlain(parsed: YamlDocument, findings: Findings, env: Variables): PlainMap {
  const root = parsed.document?.contents as Node | null | undefined;
  if (parsed.faults.length > 0 || root === undefined) {
    const problems = parsed.faults.map(({ offset, message }) => findings.problem({ path: [], offset }, { message }));
    throw new ConfigError(problems);
  }
  const reader = new ConfigReader(parsed, findings, env);
  const plain = reader.read(fileSchema, root, { path: [], offset: root?.range?.[0] ?? 0 });
  if (!isPlainMap(plain)) throw new ConfigError(findings.problems);
  return plain;
}

function inheritingJobs({ defaults, jobs }: PlainMap): PlainMap {
  if (!isPlainMap(jobs)) return {};
  return Object.fromEntries(Object.entries(jobs).map(([name, job]) => [name, deepMerge(defaults, job)]));
}

function chooseJobs(jobs: PlainMap, needs: Needs, findings: Findings): PlainMap {
  if (needs.jobs === false) return {};
  if (Object.keys(jobs).length === 0 && !findings.hasProblemBelow(['jobs'])) {
    findings.refuseAt(['jobs'], { message: 'missing', allowed: 'a map of at least one job' });
  }
  for (const [name, job] of Object.entries(jobs)) {
    if (!isPlainMap(job) || job.streams !== undefined || findings.hasProblemBelow(['jobs', name])) continue;
    findings.refuseAt(['jobs', name, 'streams'], { message: 'missing', allowed: 'a list of at least one stream' });
  }
  const chosen = Object.entries(jobs).filter(([name]) => needs.job === undefined || name === needs.job);
  return Object.fromEntries(chosen);
}

/** Who only looks at what is kept hashes nothing. */
function forgetUnsetSalts(jobs: PlainMap): void {
  for (const job of Object.values(jobs)) {
    for (const stream of isPlainMap(job) && Array.isArray(job.streams) ? job.streams : []) {
      for (const rule of Object.values(isPlainMap(stream?.columns) ? stream.columns : {})) {
        if (isPlainMap(rule) && rule.salt instanceof Deferred) delete rule.salt;
      }
    }
  }
}

function refuseDeferred(value: unknown, findings: Findings): void {
  if (value instanceof Deferred) findings.problems.push(value.problem);
  else if (Array.isArray(value)) for (const item of value) refuseDeferred(item, findings);
  else if (isPlainMap(value)) for (const item of Object.values(value)) refuseDeferred(item, findings);
}

/** What a stream is called is asked for by every command. */
function refuseNameless(jobs: PlainMap, findings: Findings): void {
  for (const job of Object.values(jobs)) {
    const streams = isPlainMap(job) && Array.isArray(job.streams) ? job.streams : [];
    for (const stream of streams) refuseDeferred(isPlainMap(stream) ? stream.name : stream, findings);
  }
}

function refuseUnknownJob(jobs: PlainMap, wanted: string | undefined): void {
  if (wanted === undefined || Object.hasOwn(jobs, wanted)) return;
  const names = Object.keys(jobs);
  const [near] = nearest(wanted, names, 1);
  const advice = near === undefined ? '' : `; did you mean "${near}"?`;
  throw new CdsyncError(`no job is called ${JSON.stringify(wanted)}${advice}`, {
    code: 'job_not_found',
    kind: 'configuration',
    hint: `the jobs of this file: ${names.join(', ')}`,
  });
}

function outline(jobs: PlainMap): JobOutline[] {
  return Object.entries(jobs).map(([name, job]) => {
    const streams = isPlainMap(job) && Array.isArray(job.streams) ? job.streams : [];
    return {
      name,
      streams: streams.flatMap(({ name, source }) =>
        typeof name === 'string' ? [{ name, source: String(source) }] : [],
      ),
    };
  });
}

/** Fills in the defaults. The reader has judged every value, so that what the schema still refuses is a gap in the reader. */
function typed<S extends z.ZodType>(schema: S, value: unknown, path: Path, findings: Findings): z.output<S> {
  const result = z.safeParse(schema, value);
  if (result.success) return result.data;
  for (const issue of result.error.issues) {
    findings.refuseAt([...path, ...(issue.path as (string | number)[])], { message: 'this value is not allowed' });
  }
  throw new ConfigError(findings.problems, { cause: result.error });
}

function build(
  parts: PlainMap,
  about: Pick<LocalConfig, 'file' | 'outline'>,
  findings: Findings,
): LocalConfig | Config {
  const folder = dirname(about.file);
  const jobs = Object.entries(parts.jobs as PlainMap).map(([name, job]): JobConfig => {
    return jobConfig(name, typed(jobSchema, job, ['jobs', name], findings), folder);
  });
  const local: Omit<LocalConfig, 'warnings'> = {
    ...about,
    version: typed(fileSchema.in.shape.version, parts.version, ['version'], findings),
    storage: resolve(folder, typed(fileSchema.in.shape.storage, parts.storage, ['storage'], findings)),
    resources: typed(resourcesSchema, parts.resources ?? {}, ['resources'], findings),
    jobs,
  };
  if (parts.service === undefined) return { ...local, warnings: findings.warnings };
  const service = serviceOptions(typed(serviceSchema, parts.service, ['service'], findings), folder);
  if (isReadableOnTheWay(service.baseUrl)) {
    findings.warn(['service', 'base_url'], 'plain http to another machine: tokens and profiles can be read on the way');
  }
  return { ...local, service, warnings: findings.warnings };
}

function isReadableOnTheWay(baseUrl: string): boolean {
  const { protocol, hostname } = new URL(baseUrl);
  return protocol === 'http:' && !/^(localhost|.*\.localhost|127(\.\d+){3}|\[::1\])$/.test(hostname);
}
