import { ColumnSet, columnPath, type StoredColumn } from '../../columns/columns.js';
import { hashVersion } from '../../columns/row-hash.js';
import { hashedColumns } from '../../columns/widen.js';
import type { StreamConfig } from '../../config/config.js';
import { asCdsyncError, type CdsyncError } from '../../core/errors.js';
import { formatCounted } from '../../core/quantities.js';
import { readFeed } from '../../snapshot/feed.js';
import { SnapshotStore } from '../../snapshot/snapshot-store.js';
import type { Session } from '../../storage/duckdb.js';
import { describeViolations, violations } from '../run/enforce-contract.js';
import { openStream } from '../run/open-stream.js';
import { type PreviousState, readPreviousState } from '../run/recover.js';
import { namesColumns, takenNames, unknownColumns } from '../run/unknown-columns.js';
import type { RunContext } from '../run-context.js';
import { sampleStream } from './sample-stream.js';

async function firstRecords(context: RunContext, config: StreamConfig, session: Session) {
  const meter = { requests: 0, retries: 0, throttled: 0, bytes: 0 };
  const opened = await openStream(context, { config, meter, previous: undefined, session });
  const { source, rules } = opened;
  if (source === undefined) return undefined;
  const sample = await sampleStream(context, {
    opened,
    source,
    previous: undefined,
    columns: undefined,
    pageSize: config.reads.pageSize ?? context.config.service.pageSize,
    filter: config.reads.filter,
    hashVersion: '',
    meter,
    session,
  });
  return sample === undefined || sample.records === 0 ? undefined : { sample, rules };
}

/** The columns of a stream's last snapshot; undefined if it has none. */
export async function publishedColumns({ layout }: Pick<RunContext, 'layout'>, { name }: Pick<StreamConfig, 'name'>) {
  return (await readFeed(layout, name).catch(() => undefined))?.columns;
}

/** The columns of a stream's last snapshot, and of the first records that the service has now; undefined without a snapshot. */
export async function sampledColumns(run: RunContext, config: StreamConfig, session: Session) {
  const published = await publishedColumns(run, config);
  if (published === undefined) return undefined;
  const columns = ColumnSet.restore(published);
  const context = { ...run, full: true, notice: () => undefined };
  // If it cannot be read, its own line says why.
  const first = await firstRecords(context, config, session).catch(() => undefined);
  const added = first?.sample.columns.filter(({ place, field }) => columns.get(place, field) === undefined) ?? [];
  return [...published, ...added];
}

async function warningsOf(context: RunContext, config: StreamConfig, session: Session): Promise<string[]> {
  const first = await firstRecords(context, config, session);
  if (first === undefined) return [];
  const { sample, rules } = first;
  const columns = [...sample.columns, ...((await publishedColumns(context, config)) ?? [])];
  const scope = ` in a sample of ${formatCounted(sample.records, 'record')}`;
  const unknown = unknownColumns(config, rules, { columns, leftOut: sample.leftOut, scope });
  const taken = takenNames(rules, sample);
  return [
    ...unknown.map(({ message, code }) => `${config.name}: ${message} [${code}]`),
    ...taken.map(
      ({ column, name, taken: other }) =>
        `${config.name}: columns: ${column} cannot be renamed to ${name}: ${other} has it [column_name_taken]`,
    ),
  ];
}

/** Gets the error of a stream that one request could read, but a page or two could not. */
export type SampleFailed = (stream: string, error: CdsyncError) => void;

/** @throws {CdsyncError} `interrupted` */
async function orFailed(stream: string, failed: SampleFailed, work: () => Promise<void>): Promise<void> {
  try {
    await work();
  } catch (thrown) {
    const error = asCdsyncError(thrown);
    if (error.kind === 'interrupted') throw error;
    failed(stream, error);
  }
}

/**
 * Looks in a page or two of each stream for the columns that its rules, guards and partition name. Writes nothing.
 * @returns one line for each name that no column has
 */
export async function checkColumns(run: RunContext, session: Session, failed: SampleFailed): Promise<string[]> {
  const context = { ...run, full: true, notice: () => undefined };
  const lines: string[] = [];
  for (const config of context.job.streams) {
    if (!namesColumns(config)) continue;
    await orFailed(config.name, failed, async () => {
      lines.push(...(await warningsOf(context, config, session)));
    });
  }
  return lines;
}

/** Compares the service's present records with the columns of a stream's last snapshot. */
export interface ContractCheck {
  readonly name: string;
  /** Number of records in the sample. */
  readonly records: number;
  /** New columns and values that do not fit, in words. */
  readonly differences: readonly string[];
  /** Columns of text that get another type, as `strings` is, or would get one with `strings: infer`. */
  readonly texts: readonly string[];
  /** Whether the stream's contract would fail it, or leave something out. */
  readonly breaks: boolean;
}

/** The stream as it would be with `strings: infer`. */
function inferring(config: StreamConfig): StreamConfig {
  return { ...config, strings: 'infer' };
}

/** @returns undefined if there is nothing to compare: no snapshot, or nothing to ask the service for */
async function checkOne(
  context: RunContext,
  config: StreamConfig,
  { store, before }: { store: SnapshotStore; before: PreviousState },
): Promise<ContractCheck | undefined> {
  const previous = before.streams.get(config.name);
  if (previous === undefined) return undefined;
  const meter = { requests: 0, retries: 0, throttled: 0, bytes: 0 };
  const { session } = store;
  const opened = await openStream(context, { config: inferring(config), meter, previous, session });
  if (opened.source === undefined) return undefined;
  const sample = await sampleStream(context, {
    opened,
    source: opened.source,
    previous,
    columns: before.columns.get(config.name),
    pageSize: config.reads.pageSize ?? context.config.service.pageSize,
    filter: config.reads.filter,
    hashVersion: hashVersion(before.duckdbVersion),
    meter,
    session,
  });
  if (sample === undefined) return undefined;
  const columns = config.strings === 'infer' ? sample.columns : hashedColumns(sample.columns);
  const found = violations(columns, previous.columns);
  const { contract } = config;
  const breaks =
    (contract.columns !== 'evolve' && found.added.length > 0) ||
    (contract.types !== 'evolve' && found.widened.length > 0);
  const texts = textsOf(config.strings, previous.columns, sample.columns);
  return { name: config.name, records: sample.records, differences: describeViolations(found), texts, breaks };
}

/** What becomes of columns of text, in words. */
function textsOf(
  strings: StreamConfig['strings'],
  before: readonly StoredColumn[],
  currentColumns: readonly StoredColumn[],
): string[] {
  const previousColumns = ColumnSet.restore(before);
  return ColumnSet.restore(currentColumns).list.flatMap((column) => {
    const was = previousColumns.get(column.place, column.field);
    const path = columnPath(column);
    if (was === undefined || (was.form === undefined && column.form === undefined)) return [];
    if (strings === 'keep') {
      const would = column.form === undefined ? [] : [`${path} would be ${column.type} with strings: infer`];
      return was.form === undefined ? would : [`${path} becomes text again, it was ${was.type}`];
    }
    return was.form === column.form ? [] : [`${path} becomes ${column.type}, it was ${was.type}`];
  });
}

/** Compares a page or two of each stream with the columns of its last published snapshot. Writes nothing. */
export async function checkContracts(context: RunContext, failed: SampleFailed): Promise<ContractCheck[]> {
  const { database, layout, job, salts } = context;
  await salts.define(database, job);
  const store = await SnapshotStore.openPublished(database, layout);
  if (store === undefined) return [];
  const checks: ContractCheck[] = [];
  try {
    const { before } = await readPreviousState(store, {
      ...context,
      job: { ...job, streams: job.streams.map(inferring) },
    });
    for (const config of job.streams)
      await orFailed(config.name, failed, async () => {
        const check = await checkOne(context, config, { store, before });
        if (check !== undefined) checks.push(check);
      });
  } finally {
    await store.close();
  }
  return checks;
}
