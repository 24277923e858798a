import { rm } from 'node:fs/promises';
import { basename, join } from 'node:path';
import type { StreamConfig } from '../../config/config.js';
import { CdsyncError, interrupted } from '../../core/errors.js';
import { inSeconds } from '../../core/quantities.js';
import type { DestinationReport, JobReport } from '../../core/run-report.js';
import { nearest } from '../../core/suggestions.js';
import { partsAreWhole, type ReadResult, restoreKeys } from '../../extract/read-result.js';
import { mergedStatus } from '../../notify/result.js';
import { keepColumnFigures, moveColumnFigures } from '../../pages/column-figures.js';
import { SnapshotStore } from '../../snapshot/snapshot-store.js';
import { notePending, settlePending } from '../../storage/approvals.js';
import { recordDecisions } from '../../storage/decisions.js';
import {
  assertHeldFiles,
  type DamagedHeld,
  damagedHeld,
  type HeldStream,
  heldStreams,
  heldUnreadable,
  isHeldChanges,
  writeHeld,
} from '../../storage/held.js';
import { withJobLock } from '../../storage/job-lock.js';
import { noCounters } from '../../storage/journal.js';
import { partFiles } from '../../storage/part.js';
import { pastRuns, readReport } from '../../storage/reports.js';
import { discardStreams, type RunIdentity, streamsIn } from '../../storage/run-state.js';
import { prepareStorage, runFolders } from '../../storage/storage.js';
import type { CachedRows } from '../../storage/unchanged-rows.js';
import { configurationDigest } from '../column-rules.js';
import { finishRun, hasAfterRun } from '../finish-run.js';
import { keepReport, reportJob, withDestinations } from '../report-job.js';
import { type Committed, commitAndPublish } from '../run/commit-and-publish.js';
import { ReadingInvalidated } from '../run/compare-reading.js';
import { type ComparedStream, compareStream } from '../run/compare-stream.js';
import { type PreviousState, recover } from '../run/recover.js';
import { statusWithDestinations } from '../run/run-status.js';
import type { StreamReader } from '../run/stream-reader.js';
import type { ApproveChoices, RunContext } from '../run-context.js';
import { dependantsOf, followApproval } from './follow-approval.js';

/** The held streams to approve or discard. */
interface HeldChoice {
  readonly runId: string;
  /** Undefined: all held streams of the run. */
  readonly streams: readonly string[] | undefined;
}

/** @returns held streams, also those that the configuration no longer has @throws {CdsyncError} `not_held`; it names the runs with held streams */
async function chooseHeld(
  { layout, job }: RunContext,
  { runId, streams }: HeldChoice,
): Promise<(HeldStream | DamagedHeld)[]> {
  const isRun = (await runFolders(layout)).includes(runId);
  const configured = job.streams.map(({ name }) => name);
  const names = [...new Set([...configured, ...(isRun ? await streamsIn(layout, runId) : [])])];
  const all = [...(await heldStreams(layout, names)), ...(await damagedHeld(layout, names))];
  const ofRun = all.filter((held) => held.run_id === runId);
  const chosen = ofRun.filter(({ stream }) => streams === undefined || streams.includes(stream));
  if (chosen.length > 0 && (streams === undefined || chosen.length === streams.length)) return chosen;
  const knownNames = [...new Set(all.map(({ run_id }) => run_id))];
  const near = nearest(runId, knownNames, 1);
  throw new CdsyncError(
    ofRun.length === 0
      ? `run ${runId} has no held stream in job "${job.name}"`
      : `run ${runId} holds other streams: ${ofRun.map(({ stream }) => stream).join(', ')}`,
    {
      code: 'not_held',
      hint: knownNames.length === 0 ? 'no stream is held' : `held: ${(near.length > 0 ? near : knownNames).join(', ')}`,
    },
  );
}

/** @throws {CdsyncError} `not_held`, `held_outdated`; `state_unreadable` if one of them is damaged */
async function chooseReadable(context: RunContext, choice: HeldChoice): Promise<HeldStream[]> {
  const configured = new Set(context.job.streams.map(({ name }) => name));
  const chosen = await chooseHeld(context, choice);
  const readable = chosen.map((held) => {
    if ('path' in held) throw heldUnreadable(held);
    return held;
  });
  const left = readable.filter(({ stream }) => configured.has(stream));
  const deleted = readable.find(({ stream }) => !configured.has(stream));
  // Without --stream, a stream that was taken out of the configuration keeps no other one held.
  if (deleted !== undefined && (choice.streams !== undefined || left.length === 0))
    throw outdated(deleted, 'was taken out of the configuration');
  return left;
}

/** Notes who decided about held streams, before it counts. */
function noteDecision({ layout, clock }: RunContext, action: 'approve' | 'discard', run: string, streams: string[]) {
  const decision = { action, run_id: run, streams: streams.map((name) => ({ name })) };
  return recordDecisions(layout, clock.now(), () => [decision]);
}

/** A reader that returns a held stream as if it had just been read. */
function heldReader({ layout, database }: RunContext, held: HeldStream): StreamReader {
  const folder = layout.streamRun(held.run_id, held.stream);
  const inParts = (path: string) => join(folder, 'parts', basename(path));
  const { standing: unchangedRows, ...read } = held.read;
  const parts = read.parts.map((part) => {
    const { rejectsPath } = partFiles(join(folder, 'parts'), part.number);
    return { ...part, path: inParts(part.path), keysPath: inParts(part.keysPath), rejectsPath };
  });
  const extracted: ReadResult = {
    ...read,
    parts,
    rejects: read.rejects.map(inParts),
    unchangedRows: { ...unchangedRows, known: unchangedRows.known && inFolder(unchangedRows.known, folder) },
  };
  return {
    live: { ...noCounters },
    resumed: false,
    key: held.key,
    coverage: held.brings,
    covered: held.covered,
    reading: held.reading,
    confirmable: undefined,
    nextCache: held.next_known,
    passes: held.passes,
    counters: () => read.counters,
    read: async () => undefined,
    extracted: async () => {
      if (!(await partsAreWhole(parts))) throw heldUnreadable({ ...held, path: join(folder, 'parts') });
      await assertHeldFiles(layout, held, (name) => !isHeldChanges(name));
      await restoreKeys(database, parts, held.key);
      return extracted;
    },
    close: async () => undefined,
  };
}

/** The rows with paths in the run's present folder. */
function inFolder({ keysPath, rows, unseenPath }: CachedRows, folder: string): CachedRows {
  const path = (name: string) => join(folder, basename(name));
  return { keysPath: path(keysPath), rows, unseenPath: unseenPath && path(unseenPath) };
}

function outdated({ stream, run_id: runId }: HeldStream, why: string): CdsyncError {
  return new CdsyncError(`stream "${stream}" ${why} since run ${runId} was held`, {
    code: 'held_outdated',
    stream,
    hint: `discard it and run again: cdsync discard ${runId}`,
  });
}

function assertNotMoved(held: HeldStream, current: { run_id: string; sequence: number } | undefined): void {
  if (current?.run_id === held.previous?.run_id && current?.sequence === held.previous?.sequence) return;
  throw outdated(held, 'has a newer snapshot');
}

/** Compares a held stream with its snapshot once more. @throws {CdsyncError} `held_outdated` */
async function compareHeld(
  context: RunContext,
  held: HeldStream,
  task: { readonly before: PreviousState; readonly store: SnapshotStore; readonly run: RunIdentity },
): Promise<ComparedStream> {
  assertNotMoved(held, task.before.streams.get(held.stream));
  const config = context.job.streams.find(({ name }) => name === held.stream) as StreamConfig;
  if (configurationDigest(config, context.salts) !== held.configured) throw outdated(held, 'is configured otherwise');
  const reader = heldReader(context, held);
  try {
    const compared = await compareStream(context, { ...task, config, reader, definition: held.definition });
    // Its changes were written again.
    await writeHeld(context.layout, held);
    return compared;
  } catch (error) {
    // Its unchanged rows have only their old hashes.
    if (error instanceof ReadingInvalidated) throw outdated(held, 'hashes its rows in another way');
    throw error;
  }
}

/**
 * Commits and publishes held streams, if their snapshots are still the ones that they were compared with. If the job is in a
 * bucket, notifications follow after the upload.
 * @throws {CdsyncError} `not_held`, `held_outdated`, `locked`; `interrupted` before the commit: the streams stay held
 */
export async function approveRun(
  context: RunContext,
  choice: HeldChoice,
  { push }: ApproveChoices = { push: true },
): Promise<JobReport> {
  const { layout, job } = context;
  await prepareStorage(layout, job.publish.mode);
  const afterRun = hasAfterRun(job)
    ? new (await import('../after-run.js')).AfterRun({ ...context, accept: true })
    : undefined;
  const { last, held, approved } = await withJobLock(context, layout, async () => {
    // The report of the approval takes the place of that of its run.
    const [last] = await pastRuns(layout, 1);
    const held = (await readReport(layout, choice.runId))?.jobs[0];
    return { last, held, approved: await approveLocked(context, choice, held) };
  });
  await context.bucket?.upload();
  const report = await withFollowing(context, approved, { push, held });
  const followed = afterRun && { finished: () => afterRun.followed('approval', report, last?.report) };
  await finishRun({ ...context, report, afterRun: followed });
  return report;
}

/** @param reported the report of the held run */
async function approveLocked(
  context: RunContext,
  choice: HeldChoice,
  reported: JobReport | undefined,
): Promise<JobReport> {
  const { layout, clock, job, database, signal } = context;
  const began = clock.monotonic();
  await context.salts.define(database, job);
  const before = await recover(context);
  if (signal.aborted) throw interrupted();
  const held = await chooseReadable(context, choice);
  const [{ run_id: runId, started_at: startedAt }] = held as [HeldStream, ...HeldStream[]];
  const run = { runId, startedAt };
  const approved = held.map(({ stream }) => stream);
  const { computed, requested } = await dependantsOf(context, approved);
  // Before the commit: nothing that follows from it is held a second time, even if this process ends right after it.
  const findings = Object.fromEntries(held.map(({ stream, findings }) => [stream, findings]));
  await notePending(layout, { runId, approved: findings, following: [...computed, ...requested] });
  await noteDecision(context, 'approve', runId, approved);
  const { compared, sequence, unpublished } = await commitHeld(context, held, { run, before });
  const results = compared.map(({ commit, changedValues: changed }, index) => {
    return { name: held[index]?.stream ?? '', commit, changed };
  });
  await settlePending(layout, () => true);
  // Without the figures, the page about the run has no column statistics.
  await keepColumnFigures(context, runId, results).catch(() => undefined);
  // If it is not published, the next run publishes the files in this folder.
  if (unpublished === undefined) await discardStreams(layout, runId, approved);
  const report = reportJob({
    job: job.name,
    run,
    resumed: false,
    sequence,
    status: signal.aborted ? 'interrupted' : unpublished === undefined ? 'ok' : 'partial',
    seconds: inSeconds(clock.monotonic() - began),
    streams: held.map(({ stream, read }, index) => ({
      name: stream,
      error: undefined,
      findings: [],
      // The requests are those of the held run, and are in its report.
      counters: { ...noCounters, rejected: read.counters.rejected, replaced: read.counters.replaced },
      commit: compared[index]?.commit,
      unpublished,
    })),
  });
  await keepReport(context, withRun(report, reported));
  return report;
}

/** The report with the streams and destinations that were updated after the commit. It is ok only if nothing is old. */
async function withFollowing(
  context: RunContext,
  approval: JobReport,
  { push, held }: ApproveChoices & { readonly held: JobReport | undefined },
): Promise<JobReport> {
  if (approval.status !== 'ok') return approval;
  const { clock, layout } = context;
  const began = clock.monotonic();
  const isComplete = context.bucket === undefined;
  const { streams, destinations, run } = await followApproval(context, approval, { push, isComplete });
  const isOld = streams.some(({ status }) => status !== 'ok');
  const report = withDestinations(
    {
      ...approval,
      sequence: run?.sequence ?? approval.sequence,
      streams: [...approval.streams, ...streams],
      status: isOld ? 'partial' : 'ok',
      seconds: inSeconds(approval.seconds * 1000 + clock.monotonic() - began),
    },
    destinations,
  );
  const status = context.signal.aborted ? 'interrupted' : statusWithDestinations(report.status, destinations);
  await keepReport(context, withRun({ ...report, status }, held));
  // Its streams are in the report of the approval: two would count their changes twice.
  if (run !== undefined) {
    const names = streams.map(({ name }) => name);
    await moveColumnFigures(layout, { from: run.run_id, to: report.run_id, streams: names }).catch(() => undefined);
    await rm(layout.report(run.run_id), { force: true });
  }
  return { ...report, status };
}

function isSamePlace(one: DestinationReport, other: DestinationReport): boolean {
  return one.name === other.name && one.stream === other.stream;
}

/** The report of a run after an approval. Its other streams and deliveries, its time and the counts of records read are those of the run. */
function withRun(approval: JobReport, run: JobReport | undefined): JobReport {
  if (run === undefined) return approval;
  const approved = new Map(approval.streams.map((stream) => [stream.name, stream]));
  return {
    ...approval,
    resumed: run.resumed,
    status: mergedStatus(approval, run),
    streams: run.streams.map((stream) => {
      const report = approved.get(stream.name);
      if (report === undefined) return stream;
      const { status, rows, inserted, updated, deleted, unchanged, duplicates, schema_changes, findings, error } =
        report;
      const commit = {
        status,
        rows,
        inserted,
        updated,
        deleted,
        unchanged,
        duplicates,
        schema_changes,
        findings,
        error,
      };
      return { ...stream, ...commit };
    }),
    destinations: [
      ...run.destinations.filter((before) => !approval.destinations.some((approved) => isSamePlace(approved, before))),
      ...approval.destinations,
    ],
    seconds: run.seconds,
  };
}

/** Compares held streams with their snapshots again, commits them and publishes the result. */
async function commitHeld(
  context: RunContext,
  held: readonly HeldStream[],
  { run, before }: { run: RunIdentity; before: PreviousState },
): Promise<Committed & { readonly compared: readonly ComparedStream[] }> {
  const { layout, database, signal } = context;
  const store = await SnapshotStore.open(database, layout);
  try {
    const compared: ComparedStream[] = [];
    await store.session.until(signal, async () => {
      for (const heldStream of held) {
        compared.push(await compareHeld(context, heldStream, { before, store, run }));
      }
    });
    const streams = compared.map(({ commit }) => commit);
    const { sequence } = before;
    const task = { run, status: 'ok', sequence, streams, isNews: true } as const;
    return { compared, ...(await commitAndPublish(context, store, task)) };
  } finally {
    await store.close();
  }
}

/**
 * Discards held streams; their snapshots stay as they are.
 * @returns the discarded streams
 * @throws {CdsyncError} `not_held`, `locked`
 */
export async function discardHeld(context: RunContext, choice: HeldChoice): Promise<string[]> {
  const { layout, job } = context;
  await prepareStorage(layout, job.publish.mode);
  return withJobLock(context, layout, async () => {
    const held = await chooseHeld(context, choice);
    const streams = held.map(({ stream }) => stream);
    await noteDecision(context, 'discard', choice.runId, streams);
    await discardStreams(layout, choice.runId, streams);
    const report = (await readReport(layout, choice.runId))?.jobs[0];
    // Its page has the commands that approve or discard it.
    if (report !== undefined) await finishRun({ ...context, report });
    return streams;
  });
}
