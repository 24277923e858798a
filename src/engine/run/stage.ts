import pLimit from 'p-limit';
import type { StoredColumn } from '../../columns/columns.js';
import { CdsyncError } from '../../core/errors.js';
import { quoteIdentifier } from '../../core/sql.js';
import { isChanged, type StreamCommit } from '../../snapshot/commit.js';
import type { SnapshotStore } from '../../snapshot/snapshot-store.js';
import type { StreamState } from '../../snapshot/stream-state.js';
import type { Session } from '../../storage/duckdb.js';
import type { RunIdentity } from '../../storage/run-state.js';
import type { RunContext } from '../run-context.js';
import { type PreviousTask, previousRows } from './previous-rows.js';
import type { QueryInput } from './query-reader.js';
import type { PreviousState } from './recover.js';
import { type OrderedStream, previousOf } from './stream-order.js';
import { StreamRun } from './stream-run.js';
import { hideStreams, showStored, showStream } from './stream-views.js';

/** Streams read at the same time; each may read several partitions. */
const maxParallelStreams = 4;

/** The input of all stages of a run. */
export interface StageTask {
  readonly run: RunIdentity;
  readonly before: PreviousState;
}

/** The error of a stream whose query needs a stream that has no snapshot. */
export function missingDependency(name: string, needed: StreamRun | undefined): CdsyncError {
  if (needed === undefined) {
    return new CdsyncError(`it needs stream "${name}", which has no snapshot yet`, {
      code: 'dependency',
      hint: `run it as well: --stream ${name}`,
    });
  }
  return new CdsyncError(
    `it needs stream "${name}", which ${needed.isHeld || needed.waits ? 'a guard holds' : 'failed'}`,
    {
      code: 'dependency',
      hint: `see the messages about stream "${name}"`,
    },
  );
}

/** A stream that queries see. */
interface ShownStream extends QueryInput {
  readonly columns: readonly StoredColumn[];
}

/** Streams that are read together: they need only streams of earlier stages. */
export class Stage {
  readonly streams: readonly StreamRun[];
  readonly #ordered: readonly OrderedStream[];
  readonly #limit = pLimit(maxParallelStreams);

  constructor(context: RunContext, ordered: readonly OrderedStream[]) {
    this.#ordered = ordered;
    this.streams = ordered.map(({ config }) => new StreamRun(context, config));
  }

  async open(before: PreviousState, session: Session): Promise<void> {
    for (const [index, { error }] of this.#ordered.entries())
      if (error !== undefined) await this.streams[index]?.fail(error, { waits: false });
    await Promise.all(this.streams.map((stream) => this.#limit(() => stream.open(before, session))));
  }

  async read({ run, before }: StageTask, session: Session): Promise<void> {
    await Promise.all(this.streams.map((stream) => this.#limit(() => stream.read(run, before, session))));
  }

  /** Makes the needed streams visible to the queries of this stage, and fails the queries that need a missing one. */
  async supply(done: readonly StreamRun[], before: PreviousState, store: SnapshotStore): Promise<void> {
    const shown = new Map<string, ShownStream>();
    for (const [index, { config, needs, previous }] of this.#ordered.entries()) {
      const stream = this.streams[index] as StreamRun;
      const inputs = new Map<string, QueryInput>();
      for (const name of needs) {
        const needed = done.find((run) => run.name === name);
        const input =
          shown.get(name) ?? (await show(store, needed?.commit, needed ? undefined : before.streams.get(name)));
        if (input === undefined) {
          const isHeld = needed?.isHeld === true || needed?.waits === true;
          await stream.fail(missingDependency(name, needed), { waits: isHeld });
          continue;
        }
        shown.set(name, input);
        inputs.set(name, input);
        if (!previous.includes(name)) continue;
        const reading = before.streams.get(config.name)?.reading;
        const task = { name, input, stored: before.streams.get(name), seen: reading?.inputs[name] };
        inputs.set(previousOf(name), await previousInput(store, task));
      }
      stream.inputs = inputs;
    }
  }
}

/**
 * Makes a stream visible to queries: as this run is about to commit it or, if the run does not read it, as the last one left it.
 * @returns undefined if there is neither
 */
async function show(
  store: SnapshotStore,
  commit: StreamCommit | undefined,
  stored: StreamState | undefined,
): Promise<ShownStream | undefined> {
  if (commit !== undefined) {
    await showStream(store, commit);
    const { key, columns, runId, previous } = commit.task;
    return { key, columns, version: isChanged(commit) ? runId : (previous?.run_id ?? runId) };
  }
  if (stored === undefined) return undefined;
  await showStored(store, stored);
  return { key: stored.key, columns: stored.columns, version: stored.run_id };
}

interface PreviousInputTask extends Pick<PreviousTask, 'stored' | 'seen'> {
  readonly name: string;
  readonly input: ShownStream;
}

/** The rows of a stream that a query compares it with. If the store no longer has them, that holds the query's stream. */
async function previousInput(store: SnapshotStore, { name, input, ...task }: PreviousInputTask): Promise<QueryInput> {
  const { key, columns } = input;
  const present = `SELECT * FROM temp.${quoteIdentifier(name)}`;
  const { rows, version, isGone } = await previousRows(store, { ...task, columns, present });
  const message = `the store no longer has the rows of ${name} that it saw last (run ${task.seen}); it was compared with the oldest that there are`;
  return { key, version, rows, finding: isGone ? { guard: 'changes_gone', message } : undefined };
}

/** With `guards.scope: job`, one held stream holds all others. */
function holdAll(streams: readonly StreamRun[]): void {
  const held = streams.filter(({ isHeld }) => isHeld).map(({ name }) => name);
  for (const stream of streams) {
    if (stream.commit === undefined) continue;
    stream.hold({ guard: 'scope', message: `stream ${held.join(', ')} is held, and with it the whole job` });
  }
}

/**
 * Compares all streams with their last snapshots, stage by stage. It reads each stage except the first, which was read
 * already. It commits nothing.
 * @returns false if the run was interrupted
 */
export async function compareStages(
  { signal, job }: Pick<RunContext, 'signal' | 'job'>,
  store: SnapshotStore,
  stages: readonly Stage[],
  task: StageTask,
): Promise<boolean> {
  const { run, before } = task;
  const done: StreamRun[] = [];
  for (const [number, stage] of stages.entries()) {
    if (number > 0) {
      await stage.supply(done, before, store);
      await stage.open(before, store.session);
      await stage.read(task, store.session);
    }
    if (signal.aborted) return false;
    for (const stream of stage.streams) await stream.compare(run, before, store);
    done.push(...stage.streams);
  }
  if (job.guardScope === 'job' && done.some(({ isHeld }) => isHeld)) holdAll(done);
  await hideStreams(store);
  if (signal.aborted) return false;
  for (const stream of done) await stream.keepHeld(run);
  return true;
}
