import { CdsyncError } from '../../core/errors.js';
import { formatNames } from '../../core/quantities.js';
import { nearest } from '../../core/suggestions.js';
import { isListPart, type Partition, partitionNamed } from '../../extract/partition.js';
import type { CoveredSpan } from '../../snapshot/stream-state.js';
import { type Span, uncovered } from '../../sources/windows.js';
import { readHeld } from '../../storage/held.js';
import { Journal } from '../../storage/journal.js';
import type { JobLayout } from '../../storage/layout.js';
import { runFolders } from '../../storage/storage.js';

/** How far an interrupted run read one part of a stream. */
export interface PartitionState {
  readonly stream: string;
  /** The name for `--partition`. */
  readonly name: string;
  readonly run_id: string;
  readonly pages: number;
  readonly done: boolean;
}

/** The shown name of a part of a stream: `whole`, a window of time `from/to`, or the values of its partitioning attributes. */
function shownName(partition: Partition): string {
  switch (partition.kind) {
    case 'whole':
      return 'whole';
    case 'answer':
      return 'one-answer';
    case 'again':
      return 'second-reading';
    case 'value':
      return partition.value;
    case 'values':
      return partition.values.map(([, value]) => value).join('/');
    case 'window':
      return `${partition.from}/${partition.to}`;
    case 'record':
      return `record-${partition.key}`;
    case 'keys':
      return `keys-${partition.chunk}`;
    case 'single':
      return '+';
  }
}

/** The name without the value, because a record may contain it. */
function discreetName(partition: Partition, index: number): string {
  return isListPart(partition) ? `value-${index + 1}` : shownName(partition);
}

/** Checkpoints of a stream that a run may resume, the newest run first. */
async function checkpoints(layout: JobLayout, stream: string) {
  const states = [];
  for (const runId of (await runFolders(layout)).reverse()) {
    if ((await readHeld(layout, runId, stream)) !== undefined) continue;
    const journal = await Journal.read(layout.streamRun(runId, stream)).catch(() => undefined);
    if (journal !== undefined && journal.failed === undefined) states.push({ runId, journal });
  }
  return states;
}

/** The parts of a stream that an unfinished run has begun to read. */
export async function partitionStates(
  layout: JobLayout,
  stream: string,
  { showValues }: { showValues: boolean },
): Promise<PartitionState[]> {
  const [newest] = await checkpoints(layout, stream);
  if (newest === undefined) return [];
  const { cursors, start } = newest.journal;
  return start.partitions.map((kept, index) => {
    const { pages = 0, done = false } = cursors.get(kept) ?? {};
    const partition = partitionNamed(kept);
    const name = showValues ? shownName(partition) : discreetName(partition, index);
    return { stream, name, run_id: newest.runId, pages, done };
  });
}

/** Lets the next run read a part of a stream from its beginning. @returns the runs whose checkpoints had it */
async function restartPartition(layout: JobLayout, stream: string, name: string): Promise<string[]> {
  const restarted: string[] = [];
  for (const { runId, journal } of await checkpoints(layout, stream)) {
    const { partitions } = journal.start;
    const partition = partitions.find((kept, index) => {
      const partition = partitionNamed(kept);
      return [shownName(partition), discreetName(partition, index)].includes(name);
    });
    const cursor = partition === undefined ? undefined : journal.cursors.get(partition);
    if (partition === undefined || cursor === undefined) continue;
    const open = await Journal.open(layout.streamRun(runId, stream), journal);
    try {
      // A new attempt: the records of earlier ones no longer count.
      await open.append({ type: 'attempt', partition, attempt: cursor.attempt + 1 });
    } finally {
      await open.close();
    }
    restarted.push(runId);
  }
  return restarted;
}

const iso = (at: number) => new Date(at).toISOString();

/** Spans of time without one of them. If that was the first, an empty span keeps the place where reading begins. */
export function withoutSpan(covered: readonly CoveredSpan[], [from, to]: Span): CoveredSpan[] {
  const left = covered.flatMap((span) => uncovered([Date.parse(span.from), Date.parse(span.to)], [[from, to]]));
  const spans = left.map(([start, end]) => ({ from: iso(start), to: iso(end) }));
  const [first] = covered;
  if (first === undefined || spans[0]?.from === first.from) return spans;
  return [{ from: first.from, to: first.from }, ...spans];
}

/** The window of time in a name for `--partition`; undefined if the name is none. */
function windowOf(name: string): Span | undefined {
  const [from = '', to = '', more] = name.split('/');
  const span: Span = [Date.parse(from), Date.parse(to)];
  return more === undefined && span[0] < span[1] ? span : undefined;
}

/**
 * Resets one part of a stream: its checkpoints in unfinished runs, and its window of time if that was completed.
 * @returns runs whose checkpoints had it, and the remaining spans; undefined if the spans did not change
 * @throws {CdsyncError} `partition_not_found`
 */
export async function resetPartition(
  layout: JobLayout,
  { stream, partition, covered }: { stream: string; partition: string; covered: readonly CoveredSpan[] },
): Promise<{ checkpoints: string[]; covered: CoveredSpan[] | undefined }> {
  const window = windowOf(partition);
  const left = window === undefined ? undefined : withoutSpan(covered, window);
  const wasRead = left !== undefined && JSON.stringify(left) !== JSON.stringify(covered);
  const restarted = await restartPartition(layout, stream, partition);
  if (restarted.length > 0 || wasRead) return { checkpoints: restarted, covered: wasRead ? left : undefined };
  const knownNames = (await partitionStates(layout, stream, { showValues: false })).map(({ name }) => name);
  const near = nearest(partition, knownNames).join(', ') || formatNames(knownNames, 10);
  throw new CdsyncError(`no partition "${partition}" of stream "${stream}" was read`, {
    code: 'partition_not_found',
    hint: near === '' ? 'see the partitions: cdsync state show' : `partitions: ${near}`,
  });
}
