import type { z } from 'zod';
import { nearest } from '../core/suggestions.js';
import type { Mode } from '../sdk/capabilities.js';
import type { Connector, JobStream } from '../sdk/destination.js';
import { camelKey } from '../sdk/option.js';
import type { DestinationPart } from './destination-options.js';
import type { ConfigProblems, Path } from './findings.js';
import { withPaths } from './paths.js';

/** What happens to one column of the streams on its way to a destination. */
export interface ColumnRule {
  readonly drop: boolean;
  readonly rename?: string | undefined;
}

/** One destination of a job. If its connector takes records, the settings for tables have their defaults. */
export interface DestinationConfig {
  readonly name: string;
  readonly connector: Connector;
  readonly streams: readonly string[];
  readonly mode: Mode;
  /** By the column's name in the stream; `*` stands for all others. */
  readonly columns: ReadonlyMap<string, ColumnRule>;
  /** The name of the table, `{stream}` and `{job}` not yet replaced. */
  readonly table: string;
  readonly deletes: 'hard' | 'soft';
  readonly verify: 'rows' | 'none';
  /** How often the whole table is compared: milliseconds; undefined for never. */
  readonly verifyEvery: number | undefined;
  readonly onReject: 'continue' | 'fail';
  readonly onTypeChange: 'variant_column' | 'fail';
  /** The connector's own options, in camelCase; paths are absolute. */
  readonly options: Readonly<Record<string, unknown>>;
}

/** The facts of a job that its destinations are checked against. */
interface DestinationJob {
  readonly name: string;
  readonly streams: readonly JobStream[];
  /** Whether the job publishes files that a destination can be loaded from. */
  readonly publishes: boolean;
  /** Folder of the YAML file. */
  readonly folder: string;
  readonly connectors: ReadonlyMap<string, Connector>;
}

/** The table that a stream goes to. */
export function tableName(template: string, job: string, stream: string): string {
  return template.replaceAll('{stream}', stream).replaceAll('{job}', job);
}

function ownOptions({ options: shape }: Connector, part: Readonly<Record<string, unknown>>, folder: string) {
  const own = Object.fromEntries(Object.keys(shape).map((key) => [camelKey(key), part[camelKey(key)]]));
  return withPaths(shape as Record<string, z.core.$ZodType>, own, folder);
}

function destination(part: DestinationPart, job: DestinationJob): DestinationConfig {
  const connector = job.connectors.get(part.connector) as Connector;
  return {
    name: part.name,
    connector,
    streams: part.streams ?? job.streams.map((stream) => stream.name),
    mode: part.mode,
    columns: new Map(Object.entries(part.columns)),
    table: part.table ?? '{stream}',
    deletes: part.deletes ?? 'hard',
    verify: part.verify ?? 'none',
    verifyEvery: part.verifyEvery === 'never' ? undefined : part.verifyEvery,
    onReject: part.onReject,
    onTypeChange: part.onTypeChange ?? 'fail',
    options: ownOptions(connector, part as unknown as Record<string, unknown>, job.folder),
  };
}

function checkStreams(config: DestinationConfig, job: DestinationJob, path: Path, findings: ConfigProblems): void {
  const { name, streams, connector, options } = config;
  const known = job.streams.map((stream) => stream.name);
  for (const finding of connector.checkStreams?.(options as never, job.streams) ?? [])
    findings.refuseAt([...path, ...finding.path], { message: finding.message });
  for (const [index, stream] of streams.entries()) {
    const here = [...path, 'streams', index];
    if (!known.includes(stream)) {
      const [near] = nearest(stream, known, 1);
      findings.refuseAt(here, {
        message: `job "${job.name}" has no stream "${stream}"`,
        nearest: near,
        allowed: known.join(', '),
      });
    } else if (streams.indexOf(stream) < index) {
      findings.refuseAt(here, { message: `stream "${stream}" is named twice by destination "${name}"` });
    }
  }
}

/** Two streams of one destination must not go to one table. */
function checkTemplate({ table, streams }: DestinationConfig, path: Path, findings: ConfigProblems): void {
  if (streams.length < 2 || table.includes('{stream}')) return;
  findings.refuseAt([...path, 'table'], {
    message: `${streams.length} streams would go to one table`,
    allowed: 'a name that holds {stream}',
  });
}

/**
 * The destinations of a job, each already checked by the reader. Problems between them go to `findings`.
 * @param taken which destination writes which table, over all jobs of the file
 */
export function destinationConfigs(
  parts: readonly DestinationPart[],
  job: DestinationJob,
  taken: Map<string, string>,
  findings: ConfigProblems,
): DestinationConfig[] {
  const above = ['jobs', job.name, 'destinations'];
  if (parts.length > 0 && !job.publishes) {
    findings.refuseAt(above, { message: 'a destination needs published files: parquet.enabled or publish.duckdb' });
  }
  return parts.map((part, index) => {
    const config = destination(part, job);
    const path = [...above, index];
    checkStreams(config, job, path, findings);
    checkTemplate(config, path, findings);
    if (config.connector.kind === 'tables') checkPlace(config, job.name, path, taken, findings);
    return config;
  });
}

function checkPlace(
  { name, connector, options, streams, table }: DestinationConfig,
  job: string,
  path: Path,
  taken: Map<string, string>,
  findings: ConfigProblems,
): void {
  const place = connector.place?.(options as never);
  if (place === undefined) return;
  for (const stream of streams) {
    const target = tableName(table, job, stream);
    const key = JSON.stringify([connector.name, place, target.toLowerCase()]);
    const other = taken.get(key);
    taken.set(key, other ?? `jobs.${job}.destinations, "${name}"`);
    if (other === undefined) continue;
    findings.refuseAt(path, { message: `${other} already writes table "${target}" of the same place` });
  }
}
