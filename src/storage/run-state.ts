import { mkdir, rename, rm } from 'node:fs/promises';
import { dirname } from 'node:path';
import { readStateIfUsable, syncFolder, writeStateFile } from '../core/durable.js';
import { newRunId } from '../core/run-report.js';
import { storedName } from '../core/stored-texts.js';
import { z } from '../core/zod.js';
import { readHeld } from './held.js';
import { Journal, type JournalState } from './journal.js';
import type { JobLayout } from './layout.js';
import { namesIn, runFolders } from './storage.js';

const runSchema = z.object({ version: z.literal(1), run_id: storedName, started_at: z.string() });

/** A run as its private folder records it. */
export interface RunIdentity {
  readonly runId: string;
  /** ISO 8601, our clock. */
  readonly startedAt: string;
}

/** A stream that an earlier run has begun to read. */
export interface UnfinishedStream {
  readonly stream: string;
  readonly run: RunIdentity;
  readonly journal: JournalState;
}

/** Reads which run a folder belongs to; undefined if it does not say. Such a folder cannot be resumed, and is discarded. */
export async function readRun(layout: JobLayout, runId: string): Promise<RunIdentity | undefined> {
  const state = await readStateIfUsable(layout.runState(runId), runSchema);
  return state && { runId: state.run_id, startedAt: state.started_at };
}

/** Creates a run's private folder. */
export async function createRun(layout: JobLayout, startedAtMs: number): Promise<RunIdentity> {
  const run = { runId: newRunId(startedAtMs), startedAt: new Date(startedAtMs).toISOString() };
  await mkdir(layout.run(run.runId), { mode: 0o700 });
  await syncFolder(layout.runs);
  await writeStateFile(layout.runState(run.runId), { version: 1, run_id: run.runId, started_at: run.startedAt });
  return run;
}

export async function discardRun(layout: JobLayout, runId: string): Promise<void> {
  await rm(layout.run(runId), { recursive: true, force: true });
}

/** The streams with data in a run's folder. */
export async function streamsIn(layout: JobLayout, runId: string): Promise<string[]> {
  return namesIn(dirname(layout.streamRun(runId, 'any')));
}

/** Removes the data of some streams from a run's folder, and the folder itself once no stream is left in it. */
export async function discardStreams(layout: JobLayout, runId: string, streams: readonly string[]): Promise<void> {
  for (const stream of streams) await rm(layout.streamRun(runId, stream), { recursive: true, force: true });
  if ((await streamsIn(layout, runId)).length === 0) await discardRun(layout, runId);
}

/** Moves a stream's data from the folder of an earlier run into the folder of another run. */
export async function adoptUnfinished(
  layout: JobLayout,
  { stream, run }: UnfinishedStream,
  to: RunIdentity,
): Promise<void> {
  if (run.runId === to.runId) return;
  const target = layout.streamRun(to.runId, stream);
  await mkdir(dirname(target), { recursive: true, mode: 0o700 });
  await rm(target, { recursive: true, force: true });
  await rename(layout.streamRun(run.runId, stream), target);
  await syncFolder(dirname(target));
}

interface ResumeRules {
  readonly fingerprint: string;
  readonly now: number;
  readonly resumeWithinMs: number;
  /** Called for a damaged checkpoint, which counts as none. */
  readonly notice: (line: string) => void;
}

/**
 * The newest unfinished extraction of a stream, if it can be resumed: the request is the same, it began recently enough, and
 * it has not failed because of its data.
 */
export async function findUnfinished(
  layout: JobLayout,
  stream: string,
  rules: ResumeRules,
): Promise<UnfinishedStream | undefined> {
  for (const runId of (await runFolders(layout)).reverse()) {
    const run = await readRun(layout, runId);
    if (run === undefined) continue;
    const journal = await Journal.readUsable(layout.streamRun(runId, stream), ({ message }) =>
      rules.notice(`stream ${stream} is read from the start: ${message}`),
    );
    if (journal === undefined) continue;
    // A person decides about held data; until then the next run reads from the start.
    if ((await readHeld(layout, runId, stream)) !== undefined) return undefined;
    const age = rules.now - Date.parse(journal.start.started_at);
    const usable = journal.failed === undefined && journal.start.fingerprint === rules.fingerprint;
    // A clock that was set back a little gives a negative age; a run far in the future had a wrong clock.
    return usable && Math.abs(age) <= rules.resumeWithinMs ? { stream, run, journal } : undefined;
  }
  return undefined;
}
