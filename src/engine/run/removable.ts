/** How a stream's way through a run ended. */
export interface StreamEnd {
  readonly name: string;
  readonly state:
    | 'committed'
    | 'held'
    /** What was read is whole and wrong: comparing it once more would only fail once more. */
    | 'wrong'
    /** It failed, and the next run may resume what was read. */
    | 'failed'
    /** It failed before anybody looked at what earlier runs have read of it. */
    | 'unopened';
}

/** What a run leaves behind, as it lies in the private folders of the runs. */
export interface RunEnd {
  readonly runId: string;
  /** The streams that the run was to read. */
  readonly streams: readonly StreamEnd[];
  readonly isInterrupted: boolean;
  /** Whether the run was to read only some streams of the job, or only a span of time. */
  readonly isPart: boolean;
  /** Every run that has a folder, this one included, with the streams of which something lies in it. */
  readonly folders: readonly { readonly runId: string; readonly streams: readonly string[] }[];
  /** What guards hold in them. */
  readonly held: readonly { readonly runId: string; readonly stream: string }[];
}

export interface Removable {
  /** Runs whose folders go as a whole. */
  readonly runs: readonly string[];
  /** Streams of the other runs. */
  readonly streams: readonly { readonly runId: string; readonly stream: string }[];
}

/**
 * What a run that has ended leaves, and no later run can resume or approve. A held stream stays until the stream is committed
 * or held by a later run; a checkpoint stays until its stream was looked at.
 */
export function removable({ runId: own, streams, isInterrupted, isPart, folders, held }: RunEnd): Removable {
  if (isInterrupted) return { runs: [], streams: [] };
  const named = (...states: readonly StreamEnd['state'][]) =>
    new Set(streams.filter(({ state }) => states.includes(state)).map(({ name }) => name));
  const used = named('committed', 'wrong');
  const decided = named('committed', 'held');
  const looksAtAll = !isPart && named('unopened').size === 0;
  const isHeld = (runId: string, stream: string) => held.some((each) => each.runId === runId && each.stream === stream);
  const goes = (runId: string, stream: string) =>
    runId === own ? used.has(stream) : isHeld(runId, stream) && decided.has(stream);

  const found: { runs: string[]; streams: { runId: string; stream: string }[] } = { runs: [], streams: [] };
  for (const { runId, streams: inFolder } of folders) {
    const staying = inFolder.filter((stream) => !goes(runId, stream));
    const holds = staying.some((stream) => isHeld(runId, stream));
    const isOver = runId !== own && looksAtAll && !holds;
    if (staying.length === 0 || isOver) found.runs.push(runId);
    else for (const stream of inFolder) if (goes(runId, stream)) found.streams.push({ runId, stream });
  }
  return found;
}
