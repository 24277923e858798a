import pLimit from 'p-limit';
import { CdsyncError } from '../../core/errors.js';
import type { SnapshotStore } from '../../snapshot/snapshot-store.js';
import type { Session } from '../../storage/duckdb.js';
import type { RunIdentity } from '../../storage/run-state.js';
import type { RunContext } from '../run-context.js';
import type { PreviousState } from './recover.js';
import type { OrderedStream } from './stream-order.js';
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
    await Promise.all(this.streams.map((stream) => this.#limit(() => stream.open(before, session))));
  }

  async read({ run, before }: StageTask, session: Session): Promise<void> {
    await Promise.all(this.streams.map((stream) => this.#limit(() => stream.read(run, before, session))));
  }

  /** Makes the needed streams visible to the queries of this stage, and fails the queries that need a missing one. */
  async supply(done: readonly StreamRun[], before: PreviousState, store: SnapshotStore): Promise<void> {
    const shown = new Set<string>();
    for (const [index, { needs }] of this.#ordered.entries()) {
      for (const name of needs) {
        if (shown.has(name)) continue;
        const needed = done.find((stream) => stream.name === name);
        const stored = before.streams.get(name);
        if (needed?.commit !== undefined) await showStream(store, needed.commit);
        else if (needed === undefined && stored !== undefined) await showStored(store, stored);
        else {
          const isHeld = needed?.isHeld === true || needed?.waits === true;
          await this.streams[index]?.fail(missingDependency(name, needed), { waits: isHeld });
          continue;
        }
        shown.add(name);
      }
    }
  }
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
