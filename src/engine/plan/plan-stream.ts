import type { RequestCounts } from '../../api/client.js';
import type { Operation } from '../../api/request.js';
import { hashVersion } from '../../columns/row-hash.js';
import type { StreamConfig } from '../../config/config.js';
import type { ApiGroup } from '../../core/service-options.js';
import { optionalTotal } from '../../extract/list-total.js';
import type { StreamState } from '../../snapshot/stream-state.js';
import type { ListSource, Source, WindowedSource } from '../../sources/source.js';
import { pagesOf, type Split } from '../../sources/splits.js';
import { merged } from '../../sources/windows.js';
import type { Session } from '../../storage/duckdb.js';
import { chosenSplit, configuredSplit } from '../run/choose-split.js';
import { type OpenedStream, openStream } from '../run/open-stream.js';
import { type PreviousState, possibleSplits } from '../run/recover.js';
import type { RunContext } from '../run-context.js';
import { type StreamSample, sampleStream } from './sample-stream.js';

/** Up to this many partitions, the service counts each one; with more, all are assumed to be of equal size. */
const askedPartitions = 32;
const noFilter: ReadonlyMap<string, string> = new Map();

/** How a stream would be read. */
export interface PlannedReading {
  readonly group: ApiGroup;
  readonly reads: 'list' | 'partitions' | 'windows' | 'keys';
  /** Records by the service's count; null if it was not asked, or does not count. */
  readonly total: number | null;
  /** Records that the run would read; null if unknown. */
  readonly records: number | null;
  /**
   * Number of requests in each chain of pages; a single request is a chain of one. The requests of a chain follow one after
   * the other. Null if unknown.
   */
  readonly chains: readonly number[] | null;
  /** Requests besides the pages: to resolve names, to count. */
  readonly others: number;
  /** The progress of an earlier run that this one resumes. */
  readonly resumes: { readonly runId: string; readonly records: number; readonly pages: number } | null;
  readonly sample: StreamSample | undefined;
  /** How the list would be split if the run chooses that, or could be if it may. */
  readonly split: {
    readonly attributes: readonly string[];
    readonly chains: readonly number[];
    readonly isUsed: boolean;
  } | null;
}

interface PlanTask {
  readonly config: StreamConfig;
  /** State of the published snapshot. */
  readonly before: PreviousState | undefined;
  /** Has the published snapshot attached, and shows the streams that its query reads. */
  readonly session: Session;
  /** The active run: another run cannot resume it. */
  readonly running: string | undefined;
}

type Counted = Pick<PlannedReading, 'total' | 'records' | 'chains' | 'others'> & {
  readonly split?: PlannedReading['split'] | undefined;
};

/** The input of all counting functions. */
interface Counting {
  readonly context: RunContext;
  readonly config: StreamConfig;
  readonly opened: OpenedStream;
  readonly meter: RequestCounts;
  readonly previous: StreamState | undefined;
  readonly values: readonly string[];
  /** The ways to split the list, by the last snapshot. */
  readonly splits: readonly Split[];
  readonly pageSize: number;
  /** Number of records, if the sample has read the whole list. */
  readonly whole: number | null;
}

function count({ context, meter }: Counting, operation: Operation): Promise<number | null> {
  return optionalTotal(context.client, operation, { signal: context.signal, meter });
}

/** Records of each partition, by the service's own count. */
async function countPartitions(
  counting: Counting,
  source: ListSource,
  { attribute, values }: { attribute: string; values: readonly string[] },
  total: number,
): Promise<number[]> {
  if (values.length > askedPartitions) return values.map(() => total / values.length);
  const counts = values.map((value) => {
    const filter = new Map([...counting.config.reads.filter, [attribute, value]]);
    return count(counting, source.page({ token: null, limit: 1, filter, withTotal: true }));
  });
  return (await Promise.all(counts)).map((count) => count ?? total / values.length);
}

/** The chains of a list that is read by the configured partitions. */
async function partitionChains(
  counting: Counting,
  source: ListSource,
  partition: { attribute: string; values: readonly string[] },
  records: number,
): Promise<number[]> {
  const { pageSize } = counting;
  const parts = await countPartitions(counting, source, partition, records);
  const chains = parts.map((part) => pagesOf(part, pageSize));
  // One more pass over the whole list looks for records that no partition covers.
  const isCovered = parts.reduce((sum, part) => sum + part, 0) >= records;
  return isCovered ? chains : [...chains, pagesOf(records, pageSize)];
}

/** How the run would split the list itself, and how many of its requests find that out. */
async function planSplit({ context, config, opened, meter, splits, pageSize }: Counting) {
  const isUsed = config.reads.partitionBy === 'auto';
  const { requests } = meter;
  // A run that resumes keeps its earlier split.
  const candidates = opened.unfinished === undefined ? splits : [];
  const chosen = await chosenSplit(context, opened, { candidates, pageSize });
  const tries = isUsed ? meter.requests - requests : 0;
  if (chosen === undefined) return { tries };
  const chains = chosen.parts.map(({ rows }) => pagesOf(rows, pageSize));
  return { tries, split: { attributes: chosen.attributes, chains, isUsed } };
}

async function countList(counting: Counting, source: ListSource): Promise<Counted> {
  const { config, previous, pageSize, values, whole } = counting;
  if (source.plain !== undefined && whole !== null) return { total: whole, records: whole, chains: [1], others: 0 };
  const { filter, checkTotal } = config.reads;
  const total = await count(counting, source.page({ token: null, limit: 1, filter, withTotal: true }));
  // If a source returns only additions, the size of the last snapshot does not predict the next reading.
  const lastSize = source.coverage === 'everything' ? (previous?.rows ?? null) : null;
  const records = total ?? whole ?? lastSize;
  const { tries, split } = await planSplit(counting);
  const partition = configuredSplit(config, values);
  const countsRecords = partition !== undefined || split?.isUsed || source.distrustsTokens || checkTotal;
  const others = tries + (countsRecords ? 2 : 0) + (source.plain === undefined ? 0 : 1);
  if (records === null) return { total, records, chains: null, others };
  if (partition !== undefined)
    return { total, records, chains: await partitionChains(counting, source, partition, records), others };
  return { total, records, chains: split?.isUsed ? split.chains : [pagesOf(records, pageSize)], others, split };
}

async function countWindows(counting: Counting, source: WindowedSource, unfinished: number): Promise<Counted> {
  const { opened, pageSize } = counting;
  const { windows } = opened;
  const single = Array.from({ length: unfinished }, () => 1);
  if (!source.takesLimit)
    return { total: null, records: null, chains: [...windows.map(() => 1), ...single], others: 0 };
  const spans = merged(windows.map(({ from, to }) => [Date.parse(from), Date.parse(to)]));
  const counts = spans.map(([from, to]) => {
    const window = { from: new Date(from).toISOString(), to: new Date(to).toISOString() };
    return count(counting, source.page({ window, token: null, limit: 1, filter: noFilter, withTotal: true }));
  });
  const totals = await Promise.all(counts);
  const total = totals.includes(null) ? null : totals.reduce<number>((sum, count) => sum + (count ?? 0), 0);
  const pages = total === null ? 1 : pagesOf(total / Math.max(1, windows.length), pageSize);
  const records = total === null ? null : total + unfinished;
  // One more request for the details of each record.
  const others = source.details === undefined ? 0 : (total ?? 0);
  return { total, records, chains: [...windows.map(() => pages), ...single], others };
}

function countReading(counting: Counting, source: Source, unfinished: number): Promise<Counted> | Counted {
  if (source.kind === 'windowed') return countWindows(counting, source, unfinished);
  if (source.kind === 'list') return countList(counting, source);
  const { length } = source.requests;
  return { total: null, records: length, chains: source.requests.map(() => 1), others: 0 };
}

/** The chains without the pages that an earlier run has read. */
function remaining(chains: readonly number[], { unfinished }: OpenedStream): number[] {
  if (unfinished === undefined) return [...chains];
  const { start, cursors } = unfinished.journal;
  return start.partitions.map((partition, index) => {
    const cursor = cursors.get(partition);
    if (cursor?.done) return 0;
    return Math.max(1, (chains[index] ?? 1) - (cursor?.pages ?? 0));
  });
}

function readsBy(config: StreamConfig, source: Source, values: readonly string[]): PlannedReading['reads'] {
  if (source.kind === 'keyed') return 'keys';
  if (source.kind === 'windowed') return 'windows';
  return configuredSplit(config, values) !== undefined ? 'partitions' : 'list';
}

/**
 * Estimates with a few requests how a stream would be read: it opens the stream, reads a page or two, and asks for totals.
 * @returns undefined if the stream is a query
 * @throws {CdsyncError} errors that would fail the stream in a run
 */
export async function planStream(context: RunContext, task: PlanTask): Promise<PlannedReading | undefined> {
  const { config, session, before, running } = task;
  const meter = { requests: 0, retries: 0, throttled: 0, bytes: 0 };
  const previous = before?.streams.get(config.name);
  const openedStream = await openStream(context, { config, meter, previous, session });
  const { source } = openedStream;
  const { filter, group } = config.reads;
  if (source === undefined || group === null) return undefined;
  const others = meter.requests;
  const isLeft = openedStream.unfinished !== undefined && openedStream.unfinished.run.runId !== running;
  const opened = isLeft ? openedStream : { ...openedStream, unfinished: undefined };
  const values = before?.values.get(config.name) ?? [];
  const asked = config.reads.pageSize ?? context.config.service.pageSize;
  const hashing = before === undefined ? '' : hashVersion(before.duckdbVersion);
  const sample = await sampleStream(context, {
    opened,
    source,
    previous,
    columns: before?.columns.get(config.name),
    pageSize: asked,
    filter,
    hashVersion: hashing,
    meter,
    session,
  });
  const pageSize = sample?.pageSize ?? asked;
  const unfinished = before?.again.get(config.name)?.asked.length ?? 0;
  const whole = sample?.isWhole && source.kind === 'list' ? sample.records : null;
  const { partitionBy, canPartition } = config.reads;
  const mayChoose = partitionBy === 'auto' || (canPartition && partitionBy === undefined);
  const splits = mayChoose && previous !== undefined ? await possibleSplits(session, config, previous, pageSize) : [];
  const counting = { context, config, opened, meter, previous, values, splits, pageSize, whole };
  const counted = await countReading(counting, source, unfinished);
  const { journal, run } = opened.unfinished ?? {};
  const split = counted.split ?? null;
  return {
    group,
    reads: split?.isUsed ? 'partitions' : readsBy(config, source, values),
    ...counted,
    split,
    chains: counted.chains === null ? null : remaining(counted.chains, opened),
    others: counted.others + others,
    resumes:
      journal === undefined || run === undefined
        ? null
        : { runId: run.runId, records: journal.counters.kept, pages: journal.counters.pages },
    sample,
  };
}
