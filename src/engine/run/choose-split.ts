import type { RequestCounts } from '../../api/client.js';
import { pageDecoder } from '../../api/paging.js';
import type { StreamConfig } from '../../config/config.js';
import { z } from '../../core/zod.js';
import { isRefusal } from '../../extract/page-fetcher.js';
import type { ListSplit } from '../../extract/partition.js';
import { requiredConcurrency } from '../../rate-limit/concurrency.js';
import type { ListSource, Source } from '../../sources/source.js';
import { rankSplits, type Split, type SplitPart } from '../../sources/splits.js';
import { recentReports } from '../../storage/reports.js';
import type { RunContext } from '../run-context.js';

/** Splits that are tried at the service. */
const maxTried = 3;
/** Reports in which a run looks for splits that left records out, and how many of them make it choose another. */
const reportsRead = 14;
const maxMissing = 2;

/** The least latency that is assumed of a service. */
const nearMs = 100;

/**
 * How many parts are expected to be read in parallel. Only steps of the latency count, so that a list is split the same way
 * in every run.
 */
function partsAtOnce({ client, config }: RunContext): number {
  const { most, latencyMs = nearMs } = client.concurrency('profile');
  const steps = Math.max(0, Math.ceil(Math.log2(latencyMs / nearMs)));
  return Math.max(
    1,
    Math.min(most, Math.ceil(requiredConcurrency(config.service.rateLimits.profile, nearMs * 2 ** steps))),
  );
}

/** A stream whose source is resolved. */
interface SplitStream {
  readonly config: StreamConfig;
  readonly source: Source | undefined;
  readonly meter: RequestCounts;
}

/** By name: attributes as reports and {@link Split} list them. */
function same(one: readonly string[], other: readonly string[]): boolean {
  return JSON.stringify(one) === JSON.stringify(other);
}

/** The attributes whose parts left records out in several of the last runs: their values change too often, or the totals are wrong. */
async function unreliable({ layout }: RunContext, stream: string): Promise<readonly string[][]> {
  const reports = await recentReports(layout, reportsRead);
  const missing = reports.flatMap(({ jobs }) => {
    const partitions = jobs[0]?.streams.find(({ name }) => name === stream)?.partitions;
    return partitions?.missed == null ? [] : [partitions.by];
  });
  return missing.filter((by) => missing.filter((other) => same(other, by)).length >= maxMissing);
}

const readRecords = pageDecoder(z.looseObject({ attributes: z.unknown() }));

function hasValue(record: { attributes?: unknown }, [attribute, value]: readonly [string, string]): boolean {
  const { attributes: held } = record;
  const attributes: unknown = Array.isArray(held) ? held[0] : held;
  if (typeof attributes !== 'object' || attributes === null || !Object.hasOwn(attributes, attribute)) return false;
  return (attributes as Readonly<Record<string, unknown>>)[attribute] === value;
}

/**
 * Whether the service filters by the attributes of a split. It requests the rarest part: a service that ignores the filter most
 * likely returns another record.
 */
async function isFiltered(context: RunContext, opened: SplitStream, source: ListSource, part: SplitPart) {
  const { client, signal } = context;
  const filter = new Map([...opened.config.reads.filter, ...part.values]);
  const operation = source.page({ token: null, limit: 1, filter, withTotal: false });
  try {
    const { data } = await client.send(operation, readRecords, { signal, meter: opened.meter });
    return data.every((record) => part.values.every((pair) => hasValue(record, pair)));
  } catch (error) {
    if (isRefusal(error)) return false;
    throw error;
  }
}

/** How a list is split; undefined if it is read as one. */
export function configuredSplit(
  { reads: { partitionBy } }: StreamConfig,
  lastValues: readonly string[],
): Extract<ListSplit, { attribute: string }> | undefined {
  if (partitionBy === undefined || partitionBy === 'auto') return undefined;
  const values = partitionBy.values ?? lastValues;
  return values.length === 0 ? undefined : { attribute: partitionBy.attribute, values };
}

/**
 * The best way to split a list by the last snapshot, if the service filters by it. It takes a request for each split that it
 * tries.
 * @returns undefined if the list is better read as one
 */
export async function chosenSplit(
  context: RunContext,
  opened: SplitStream,
  { candidates, pageSize }: { candidates: readonly Split[]; pageSize: number },
): Promise<Split | undefined> {
  const { source, config } = opened;
  const ranked = rankSplits(candidates, { pageSize, atOnce: partsAtOnce(context) });
  if (source?.kind !== 'list' || ranked.length === 0) return undefined;
  const avoided = await unreliable(context, config.name);
  let tried = 0;
  for (const split of ranked) {
    const { attributes, parts } = split;
    if (avoided.some((by) => same(by, attributes))) {
      const name = attributes.join(' and ');
      context.notice(
        `${config.name}: not read in parts by ${name}, which left records out in ${maxMissing} of the last runs`,
      );
      continue;
    }
    const rarest = parts.findLast(({ rows }) => rows > 0);
    if (rarest !== undefined && (await isFiltered(context, opened, source, rarest))) return split;
    tried += 1;
    if (tried === maxTried) break;
  }
  return undefined;
}
