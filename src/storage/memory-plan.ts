import { wideColumns } from '../columns/row-hash.js';
import { formatCount, formatCounted } from '../core/quantities.js';
import { areLarge } from './large-rows.js';

/** The phases of work with DuckDB that have their own limits; `other` is the rest. */
export type Phase = 'other' | 'reading' | 'writing files' | 'comparing' | 'first commit' | 'commit';

/** The limits of a DuckDB instance, for all of its sessions together. */
export interface DuckdbLimits {
  readonly memoryMb: number;
  readonly threads: number;
}

/** The memory and threads that a process may use, or a share of them. */
export interface Resources extends DuckdbLimits {
  /** Whether it is a share, and the process itself takes nothing of it. */
  readonly isShare?: boolean;
}

/** Figures that change a plan, and that a run learns only while it works. */
export interface MemoryNeeds {
  /** Bytes of the record caches that are loaded. */
  readonly cacheBytes?: number;
  /** Bytes of a row, on average, where rows are largest. */
  readonly recordBytes?: number;
  /** Columns of the widest table. */
  readonly widestColumns?: number;
  /** Columns of all tables that one transaction writes. */
  readonly writtenColumns?: number;
}

/** The memory of one stream's delivery, in MB. */
interface DeliveryShare {
  /** The part that it takes of the job's memory. Deliveries whose shares are more than that, all together, take turns. */
  readonly takenMb: number;
  /** Of the DuckDB that reads the snapshot, as a share of {@link Resources}. */
  readonly ownMb: number;
  /** Of the connector's DuckDB, if it has one. */
  readonly connectorMb: number;
  readonly threads: number;
}

/** How the users of memory divide `memory_mb`: the parts of one phase are `memory_mb` together. */
interface MemoryPlan {
  /** In MB: Node, code, and buffers that no one else counts. */
  readonly processMb: number;
  /** In MB: for all deliveries that are under way. */
  readonly deliveriesMb: number;
  /** Bytes of response bodies, all together. */
  readonly bodyBytes: number;
  /** Bytes of record caches, all streams of a run together. */
  readonly cacheBytes: number;
  /** Parts that are converted in parallel. */
  readonly converterLanes: number;
  /** Keys that a join may hold, on both sides together. */
  readonly keysAtOnce: number;
  /** Columns that one transaction may write. */
  readonly columnsAtOnce: number;
  readonly duckdb: Readonly<Record<Phase, DuckdbLimits>>;
}

/** DuckDB exceeds its limit by up to a sixth: it does not count allocations outside of its buffers. */
const countedShare = 0.85;

/** In MB, enough for one thread to write a table without reading its own blocks again. */
const onePassMb = 256;

/** DuckDB works on this many rows at a time, and has a few copies of large ones. */
const rowsInWork = 4 * 2048;

/**
 * DuckDB counts this for each column of a wide table that it writes: 2048 values in each copy and thread. It uses little of that if
 * the table has few rows, but it would reject the statement.
 */
const countedBytesPerColumn = 2048 * 16 * 10;

/** Until the commit, DuckDB keeps the last block of each column that a thread has written in the transaction. Measured: 36 kB. */
const uncommittedBytesPerColumn = 40_000;

/** With more than this share of DuckDB's memory in such blocks, one thread writes: several would each have their own. */
const uncommittedShare = 0.1;

/** In MB, for each thread that works on large rows: several copies of a row group. With 240 a join of texts of 2 MB fails. */
const largeRowsMbPerThread = 300;

/** How many threads may work on rows of that many bytes in a memory. */
function threadsFor(rowBytes: number, { memoryMb, threads }: DuckdbLimits): number {
  return areLarge(rowBytes) ? Math.max(1, Math.min(threads, Math.floor(memoryMb / largeRowsMbPerThread))) : threads;
}

/** The share of DuckDB's memory that such blocks of one transaction may have. DuckDB takes as much again that it does not count. */
const transactionShare = 0.4;

/** In MB, the need of a batch while it is converted. Each keeps about one core busy. */
const laneMb = 128;

/** The need of a join for each key of either side: text, hash, position, hash table. Measured: 60 to 90. */
const bytesPerKey = 100;

/** The share of DuckDB's memory that one join may have. */
const joinShare = 0.4;

/** In MB, enough for DuckDB to write files and to join keys on disk. The configuration allows no smaller `memory_mb`. */
const minMb = 128;

/** In MB: Node, the code of cdsync and DuckDB, pages that are read, and what V8 has not collected yet. Measured: 180 to 200. */
const processMb = 200;

/** The process does not take more than this share of a small `memory_mb`: DuckDB could do nothing. Such a run takes more than it should. */
const maxProcessShare = 0.4;

/** In MB: a run takes this however little it may. */
const minRunMb = 400;

/** In MB: small lists are found in their caches even with the smallest `memory_mb`. */
const minCachesMb = 16;

/** In MB: more bodies at once would make no reading quicker. */
const maxBodiesMb = 512;

/** A run may exceed `memory_mb` by a tenth: allocators keep some of the freed memory. */
const excess = 1.1;

/**
 * The notice for a process that may use less memory than a run may take: the system would kill it without a word.
 * @param limitBytes of its cgroup, in a container or a service; 0 or more than the machine has if there is no limit
 * @returns undefined if the memory suffices
 */
export function memoryNotice(
  { memoryMb }: Pick<DuckdbLimits, 'memoryMb'>,
  limitBytes = process.constrainedMemory(),
): string | undefined {
  const limitMb = Math.floor(limitBytes / 1_000_000);
  const needed = maxRunMb(memoryMb);
  if (limitBytes === 0 || needed <= limitMb) return undefined;
  const fitting = Math.floor(limitMb / excess);
  const remedy = fitting < minRunMb ? '' : `set \`resources.memory_mb\` to ${formatCount(fitting)}, or `;
  return `this process may use ${formatCount(limitMb)} MB, and a run up to ${formatCount(needed)} MB: ${remedy}raise its limit`;
}

/** In MB: the most that a process with this `memory_mb` may take. */
function maxRunMb(memoryMb: number): number {
  return Math.ceil(Math.max(memoryMb, minRunMb) * excess);
}

/** The `memory_mb` for a commit that writes that many columns. */
export function memoryForCommit(writtenColumns: number): number {
  const neededMb = onePassMb + (writtenColumns * uncommittedBytesPerColumn) / 1_000_000;
  return 100 * Math.ceil((processMb + neededMb / countedShare) / 100);
}

/** A plan in one line, for `--verbose`. */
export function describePlan({ memoryMb }: DuckdbLimits, plan: MemoryPlan): string {
  const mb = (bytes: number) => `${formatCount(Math.floor(bytes / 1_000_000))} MB`;
  const { duckdb, converterLanes, keysAtOnce } = plan;
  const [all, first] = [duckdb.other, duckdb['first commit']].map(
    (limits) => `${formatCount(limits.memoryMb)} MB with ${formatCounted(limits.threads, 'thread')}`,
  );
  return `memory plan: ${formatCount(memoryMb)} MB in all, and up to ${formatCount(maxRunMb(memoryMb))} MB for moments: process ${plan.processMb} MB; while it reads, responses ${mb(plan.bodyBytes)} and record caches up to ${mb(plan.cacheBytes)}; DuckDB has what these leave, at most ${all} (first commit: ${first}); ${formatCounted(converterLanes, 'converter')}, ${formatCount(keysAtOnce)} keys per join`;
}

/** Divides `memory_mb` among its users. Code outside of this file takes its part from here. */
export function planMemory(resources: Resources, needs: MemoryNeeds = {}): MemoryPlan {
  const { memoryMb, threads, isShare = false } = resources;
  const { cacheBytes = 0, recordBytes = 0, widestColumns = 0, writtenColumns = 0 } = needs;
  const ofProcess = isShare ? 0 : Math.floor(Math.min(processMb, memoryMb * maxProcessShare));
  // The rest of cdsync holds up to two copies of the largest body.
  const bodiesMb = Math.min(memoryMb / 4, maxBodiesMb);
  const cachesMb = Math.max(minCachesMb, Math.min(memoryMb / 2, memoryMb - ofProcess - bodiesMb - minMb));
  const wideMb = widestColumns > wideColumns ? Math.ceil((widestColumns * countedBytesPerColumn) / 1_000_000) : 0;
  const minLimit = Math.min(memoryMb, minMb) * countedShare;
  const left = (takenMb: number) => Math.floor(Math.max(minLimit, (memoryMb - ofProcess - takenMb) * countedShare));
  const loadedMb = Math.ceil(cacheBytes / 1_000_000);
  const allMb = left(loadedMb);
  const uncommittedMb = Math.floor((writtenColumns * uncommittedBytesPerColumn) / 1_000_000);
  // A first snapshot is written in one pass. DuckDB would keep its blocks, and each thread a row group that is not compressed yet.
  const fewThreads = Math.min(threads, Math.max(1, Math.floor(memoryMb / (2 * onePassMb))));
  const forRows = threadsFor(recordBytes, { memoryMb: allMb, threads });
  const onePass = fewThreads * (onePassMb + Math.ceil((rowsInWork * recordBytes) / 1_000_000)) + uncommittedMb;
  return {
    processMb: ofProcess,
    deliveriesMb: memoryMb - ofProcess,
    bodyBytes: Math.floor(bodiesMb * 1_000_000),
    cacheBytes: Math.floor(cachesMb * 1_000_000),
    converterLanes: Math.min(2, threads, Math.floor(memoryMb / laneMb)),
    columnsAtOnce: Math.floor((allMb * 1_000_000 * transactionShare) / uncommittedBytesPerColumn),
    keysAtOnce: Math.max(1, Math.floor((allMb * 1_000_000 * joinShare) / bytesPerKey)),
    duckdb: {
      other: { threads, memoryMb: allMb + wideMb },
      reading: { threads, memoryMb: left(loadedMb + bodiesMb) + wideMb },
      // Statements that are too small to share, or that write one file: threads that wait for a share take a third more CPU time.
      'writing files': { threads: 1, memoryMb: allMb + wideMb },
      comparing: { threads: forRows, memoryMb: allMb + wideMb },
      commit: { threads: uncommittedMb > allMb * uncommittedShare ? 1 : forRows, memoryMb: allMb + wideMb },
      'first commit': { threads: fewThreads, memoryMb: Math.min(allMb, onePass) + wideMb },
    },
  };
}

/** In MB, for each leaf of a row that a delivery's DuckDB reads or writes: 2048 values in several steps, and blocks until the commit. */
const deliveredMbPerLeaf = 1;

/** A row with more leaves than this is delivered by one thread, because each thread has its own values. */
const leavesOfThreads = 100;

/**
 * In MB, for each thread that sorts rows of files on disk: its memory beyond the limit included. A second one took 768 MB to 920, for the
 * same time and a quarter more CPU time.
 */
const sortingMbPerThread = 400;

/** The figures of a stream's delivery that decide on its share. */
interface AskedShare {
  /** Of the stream's columns. */
  readonly leaves: number;
  /** Destinations that are loaded in parallel if their shares allow it. */
  readonly destinations: number;
  /** Whether the connector has a separate DuckDB. */
  readonly hasOwn: boolean;
  /** Whether all rows are sorted. */
  readonly sorts?: boolean;
  /** Bytes of a row, on average, where rows are largest. */
  readonly rowBytes?: number;
}

/** The share of a stream's delivery. */
export function deliveryShare(
  resources: Resources,
  { leaves, destinations, hasOwn, sorts = false, rowBytes = 0 }: AskedShare,
): DeliveryShare {
  const { deliveriesMb } = planMemory(resources);
  const instances = hasOwn ? 2 : 1;
  const ofLargeRows = areLarge(rowBytes)
    ? Math.floor(Math.min(deliveriesMb / instances, largeRowsMbPerThread) * countedShare)
    : 0;
  const needed = Math.max(ofLargeRows, Math.min(deliveriesMb, minMb) + leaves * deliveredMbPerLeaf);
  // Those that would take turns with the smallest share have a larger one.
  const parallel = Math.max(1, Math.min(destinations, Math.floor(deliveriesMb / needed / instances)));
  const share = Math.max(needed, Math.floor(deliveriesMb / parallel / instances));
  const limit = Math.max(needed, Math.floor(share * countedShare));
  const forRows = threadsFor(rowBytes, { memoryMb: limit, threads: resources.threads });
  // Until a transaction ends, a table has its rows in memory; DuckDB reads 2,048 of them together, however large they are.
  const ofTable = hasOwn && ofLargeRows > 0 ? deliveriesMb - limit : 0;
  const most = sorts ? Math.floor(limit / sortingMbPerThread) : resources.threads;
  return {
    takenMb: Math.min(deliveriesMb, Math.max(share * instances, ofTable > limit ? deliveriesMb : 0)),
    ownMb: Math.ceil(limit / countedShare),
    connectorMb: Math.max(limit, ofTable),
    threads: leaves > leavesOfThreads ? 1 : Math.max(1, Math.min(forRows, most)),
  };
}
