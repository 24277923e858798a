import { sep } from 'node:path';
import { CdsyncError } from '../core/errors.js';
import { nearest } from '../core/suggestions.js';
import type { z } from '../core/zod.js';
import type { Connector, JobStream, Mode } from '../sdk/destination.js';
import { comparableFileName } from '../sdk/file-destination.js';
import { camelKey } from '../sdk/option.js';
import type { DestinationPart } from './destination-options.js';
import { pathsIn, withPaths } from './paths.js';
import type { ConfigProblems, Path } from './problem.js';
import { isPlainMap } from './reader.js';

/** What happens to one column of the streams on its way to a destination. */
export interface DeliveredColumnRule {
  readonly drop: boolean;
  readonly rename?: string | undefined;
  /** Of `*`, if the destination selects columns: these, the key and the envelope stay. */
  readonly selected?: ReadonlySet<string>;
}

/** One destination of a job. If its connector takes records, the settings for tables have their defaults. */
export interface DestinationConfig {
  readonly name: string;
  readonly connector: Connector;
  readonly streams: readonly string[];
  readonly mode: Mode;
  /** By the column's name in the stream; `*` means all others. */
  readonly columns: ReadonlyMap<string, DeliveredColumnRule>;
  /** The name of the table, `{stream}` and `{job}` not yet replaced. */
  readonly table: string;
  readonly deletes: 'hard' | 'soft';
  readonly verify: 'rows' | 'none';
  /** How often the whole table is compared: milliseconds; undefined for never. */
  readonly verifyEvery: number | undefined;
  readonly onReject: 'continue' | 'fail';
  readonly onTypeChange: 'variant_column' | 'fail';
  /** Where a part of the destination is in the file, for faults that are found later: `cdsync.yaml:12:7`. */
  readonly place: (path: Path, placeholder?: number) => string;
  /** The connector's own options, in camelCase; paths are absolute. */
  readonly options: Readonly<Record<string, unknown>>;
}

/** The properties of a job that its destinations are checked against. */
interface DestinationJob {
  readonly name: string;
  readonly streams: readonly JobStream[];
  /** Whether the job publishes files that a destination can be loaded from. */
  readonly publishes: boolean;
  /** Folder of the YAML file. */
  readonly folder: string;
  /** The folders of all jobs of the file. */
  readonly jobFolders: readonly string[];
  readonly connectors: ReadonlyMap<string, Connector>;
}

/** The table that a stream goes to. */
export function tableName(template: string, job: string, stream: string): string {
  return template.replaceAll('{stream}', stream).replaceAll('{job}', job);
}

function ownOptions({ options: shape }: Connector, part: Readonly<Record<string, unknown>>, folder: string) {
  const connectorPart = Object.fromEntries(Object.keys(shape).map((key) => [camelKey(key), part[camelKey(key)]]));
  return withPaths(shape as Record<string, z.core.$ZodType>, connectorPart, folder);
}

/** The rules for columns; a `select` is one that drops all others. */
function columnRules({ columns, select }: Pick<DestinationPart, 'select' | 'columns'>): DestinationConfig['columns'] {
  const rules = new Map<string, DeliveredColumnRule>(Object.entries(columns));
  if (select === undefined) return rules;
  for (const name of select) if (!rules.has(name)) rules.set(name, { drop: false });
  return rules.set('*', { drop: true, selected: new Set(select) });
}

function destination(part: DestinationPart, job: DestinationJob, place: DestinationConfig['place']): DestinationConfig {
  const connector = job.connectors.get(part.connector) as Connector;
  return {
    name: part.name,
    connector,
    place,
    streams: part.streams ?? job.streams.map((stream) => stream.name),
    mode: part.mode ?? 'replace',
    // A connector of files selects columns itself, in their order.
    columns: columnRules(connector.kind === 'files' ? { columns: part.columns } : part),
    table: part.table ?? '{stream}',
    deletes: part.deletes ?? 'hard',
    verify: part.verify ?? 'none',
    verifyEvery: part.verifyEvery === 'never' ? undefined : part.verifyEvery,
    onReject: part.onReject,
    onTypeChange: part.onTypeChange ?? 'fail',
    options: ownOptions(connector, part as unknown as Record<string, unknown>, job.folder),
  };
}

/**
 * Checks which streams destinations name. It needs no other option, so it also holds where variables have no value.
 * @param knownNames the streams of the job
 * @param destinations as the file has them
 */
export function checkStreamNames(
  job: string,
  knownNames: readonly string[],
  destinations: unknown,
  findings: ConfigProblems,
): void {
  for (const [at, destination] of Array.isArray(destinations) ? destinations.entries() : []) {
    if (!isPlainMap(destination)) continue;
    const { streams = knownNames, table } = destination;
    if (!Array.isArray(streams)) continue;
    const path = ['jobs', job, 'destinations', at];
    for (const [index, stream] of streams.entries()) {
      const here = [...path, 'streams', index];
      if (typeof stream !== 'string') continue;
      if (!knownNames.includes(stream)) {
        const [near] = nearest(stream, knownNames, 1);
        const message = `job "${job}" has no stream "${stream}"`;
        findings.reportAt(here, { message, nearest: near, allowed: knownNames.join(', ') });
      } else if (streams.indexOf(stream) < index) {
        findings.reportAt(here, { message: `stream "${stream}" is named twice` });
      }
    }
    if (streams.length < 2 || typeof table !== 'string' || table.includes('{stream}')) continue;
    findings.reportAt([...path, 'table'], {
      message: `${streams.length} streams would go to one table`,
      allowed: 'a name that holds {stream}',
    });
  }
}

/** The destination that writes each file and table, with its connector. */
export type TakenPlaces = Map<string, { readonly writer: string; readonly connector: DestinationConfig['connector'] }>;

/**
 * The destinations of a job, each already checked by the reader. Problems between them go to `findings`.
 * @param taken which destination writes which file and table, over all jobs of the configuration
 */
export function destinationConfigs(
  parts: readonly DestinationPart[],
  job: DestinationJob,
  taken: TakenPlaces,
  findings: ConfigProblems,
): DestinationConfig[] {
  const above = ['jobs', job.name, 'destinations'];
  if (parts.length > 0 && !job.publishes) {
    findings.reportAt(above, { message: 'a destination needs published files: parquet.enabled or publish.duckdb' });
  }
  return parts.map((part, index) => {
    const path = [...above, index];
    const config = destination(part, job, (below, placeholder) => findings.placeOf([...path, ...below], placeholder));
    for (const finding of config.connector.checkStreams?.(config.options as never, job.streams) ?? [])
      findings.reportAt([...path, ...finding.path], { message: finding.message });
    checkPaths(config, job.jobFolders, path, findings);
    if (config.connector.kind !== 'records') checkPlace(config, job.name, path, taken, findings);
    return config;
  });
}

/** A load must not write into the folder of a job. */
function checkPaths(
  { connector, options }: DestinationConfig,
  jobFolders: readonly string[],
  path: Path,
  findings: ConfigProblems,
): void {
  for (const [key, written] of pathsIn(connector.options as Record<string, z.core.$ZodType>, options)) {
    const own = jobFolders.find((folder) => written === folder || written.startsWith(folder + sep));
    if (own === undefined) continue;
    const message = `${own} is the folder of a job: a destination may not write there`;
    findings.reportAt([...path, ...key], { message, allowed: 'a path outside of it' });
  }
}

function checkPlace(
  { name, connector, options, streams, table }: DestinationConfig,
  job: string,
  path: Path,
  taken: TakenPlaces,
  findings: ConfigProblems,
): void {
  const place = connector.place?.(options as never);
  if (place === undefined) return;
  const writer = `jobs.${job}.destinations, "${name}"`;
  for (const file of connector.files?.(options as never) ?? []) {
    const other = taken.get(file) ?? { writer, connector };
    taken.set(file, other);
    // Tables of one connector in one file differ by their names, below.
    if (other.connector === connector) continue;
    const message = `${other.writer} already writes the file ${file}`;
    findings.reportAt(path, { message, allowed: 'a file of its own' });
    return;
  }
  const isFile = connector.kind === 'files';
  const targets = (stream: string) =>
    isFile ? connector.sampleNames(options as never, { job, stream }) : [tableName(table, job, stream)];
  let names: string[];
  try {
    names = streams.flatMap(targets);
  } catch (error) {
    if (!(error instanceof CdsyncError && error.code === 'template_invalid')) throw error;
    const { message, code } = error;
    const [, key] = /^`(\w+)`/.exec(message) ?? [];
    findings.reportAt(key === undefined ? path : [...path, key], { message, code });
    return;
  }
  for (const target of names) {
    const at = isFile ? [comparableFileName(`${place}/${target}`)] : [place, target.toLowerCase()];
    const key = JSON.stringify([connector.name, ...at]);
    const other = taken.get(key)?.writer;
    taken.set(key, taken.get(key) ?? { writer, connector });
    if (other === undefined) continue;
    const clash =
      other === writer
        ? 'two of its files have the same name'
        : `${other} already writes files of the same name to this place`;
    findings.reportAt(path, {
      message: isFile
        ? `${clash}, such as "${target}": name {{ stream }} or another folder`
        : `${other} already writes table "${target}" of the same place`,
    });
    // Their checksums and marks clash too.
    if (isFile) return;
  }
}
