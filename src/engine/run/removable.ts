/** How a stream ended in a run. */
export interface FinishedStreamState {
  readonly name: string;
  readonly state:
    | 'committed'
    | 'held'
    /** The reading is complete but wrong: comparing it again would fail again. */
    | 'wrong'
    /** It failed, and the next run may resume it. */
    | 'failed'
    /** It failed before the run looked for earlier readings of it. */
    | 'unopened';
}

/** The private folders of the runs when a run ends. */
export interface FinishedRunState {
  readonly runId: string;
  /** The streams of the run. */
  readonly streams: readonly FinishedStreamState[];
  /** Whether it was interrupted before its commit. */
  readonly isInterrupted: boolean;
  /** Whether the run reads only some streams of the job, or only a span of time. */
  readonly isPart: boolean;
  /** Every run that has a folder, this one included, with the streams that have files in it. */
  readonly folders: readonly { readonly runId: string; readonly streams: readonly string[] }[];
  /** Streams in these folders that a guard holds. */
  readonly held: readonly { readonly runId: string; readonly stream: string }[];
}

interface Removable {
  /** Runs whose whole folders are removable. */
  readonly runs: readonly string[];
  /** Removable streams in the folders of other runs. */
  readonly streams: readonly { readonly runId: string; readonly stream: string }[];
}

/**
 * Finds folders that can be removed at the end of a run, because no later run can resume or approve them. A held stream stays until
 * a later run commits or holds that stream. A checkpoint stays until a run has opened its stream.
 */
export function removable({
  runId: ownRun,
  streams,
  isInterrupted,
  isPart,
  folders,
  held,
}: FinishedRunState): Removable {
  if (isInterrupted) return { runs: [], streams: [] };
  const named = (...states: readonly FinishedStreamState['state'][]) =>
    new Set(streams.filter(({ state }) => states.includes(state)).map(({ name }) => name));
  const used = named('committed', 'wrong');
  const decided = named('committed', 'held');
  const looksAtAll = !isPart && named('unopened').size === 0;
  const isHeld = (runId: string, stream: string) =>
    held.some((heldStream) => heldStream.runId === runId && heldStream.stream === stream);
  const goes = (runId: string, stream: string) =>
    runId === ownRun ? used.has(stream) : isHeld(runId, stream) && decided.has(stream);

  const removed: { runs: string[]; streams: { runId: string; stream: string }[] } = { runs: [], streams: [] };
  for (const { runId, streams: inFolder } of folders) {
    const staying = inFolder.filter((stream) => !goes(runId, stream));
    const holds = staying.some((stream) => isHeld(runId, stream));
    const isOver = runId !== ownRun && looksAtAll && !holds;
    if (staying.length === 0 || isOver) removed.runs.push(runId);
    else for (const stream of inFolder) if (goes(runId, stream)) removed.streams.push({ runId, stream });
  }
  return removed;
}
