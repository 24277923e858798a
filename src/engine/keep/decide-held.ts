import { basename } from 'node:path';
import type { StreamConfig } from '../../config/config.js';
import { CdsyncError } from '../../core/errors.js';
import { nearest } from '../../core/nearest.js';
import type { JobReport } from '../../core/run.js';
import type { Extracted } from '../../extract/extracted.js';
import { hashVersion } from '../../rows/row-hash.js';
import { commitRun } from '../../snapshot/commit.js';
import { compact, compactionReason } from '../../snapshot/compact.js';
import { publish } from '../../snapshot/publish.js';
import { SnapshotStore } from '../../snapshot/snapshot-store.js';
import { writeFileAtomically } from '../../store/durable.js';
import { type HeldStream, heldStreams } from '../../store/held.js';
import { JobLock } from '../../store/job-lock.js';
import { noCounters } from '../../store/journal.js';
import { discardRun, discardStream, hasStreams } from '../../store/run-state.js';
import { prepareStorage } from '../../store/storage.js';
import { reportJob } from '../report-job.js';
import { type ComparedStream, compareStream } from '../run/compare-stream.js';
import type { Reading } from '../run/reading.js';
import { publishOptions, recover } from '../run/recover.js';
import type { RunContext } from '../run-context.js';

/** Which of what is held is meant. */
export interface HeldChoice {
  readonly runId: string;
  /** Only these streams of it; all where left out. */
  readonly streams: readonly string[] | undefined;
}

/** @throws {CdsyncError} `not_held`, with what is held */
async function chooseHeld({ layout, job }: RunContext, { runId, streams }: HeldChoice): Promise<HeldStream[]> {
  const all = await heldStreams(
    layout,
    job.streams.map(({ name }) => name),
  );
  const ofRun = all.filter((held) => held.run_id === runId);
  const chosen = ofRun.filter(({ stream }) => streams === undefined || streams.includes(stream));
  if (chosen.length > 0 && (streams === undefined || chosen.length === streams.length)) return chosen;
  const known = [...new Set(all.map(({ run_id }) => run_id))];
  const near = nearest(runId, known, 1);
  throw new CdsyncError(
    ofRun.length === 0
      ? `nothing of run ${runId} is held in job "${job.name}"`
      : `run ${runId} holds other streams: ${ofRun.map(({ stream }) => stream).join(', ')}`,
    {
      code: 'not_held',
      kind: 'configuration',
      hint: known.length === 0 ? 'nothing is held at all' : `held: ${(near.length > 0 ? near : known).join(', ')}`,
    },
  );
}

/** What was held, as if it had just been read. */
function heldReading({ layout }: RunContext, held: HeldStream): Reading {
  const folder = layout.streamRun(held.run_id, held.stream);
  const inParts = (name: string) => `${folder}/parts/${name}`;
  const { read } = held;
  const extracted: Extracted = {
    ...read,
    parts: read.parts.map((part) => ({
      ...part,
      path: inParts(basename(part.path)),
      keysPath: inParts(basename(part.keysPath)),
    })),
  };
  return {
    live: { ...noCounters },
    resumed: false,
    key: held.key,
    brings: held.brings,
    covered: held.covered,
    counters: () => read.counters,
    read: async () => undefined,
    extracted: async () => extracted,
    close: async () => undefined,
  };
}

function refuseMoved(held: HeldStream, now: { run_id: string; sequence: number } | undefined): void {
  if (now?.run_id === held.previous?.run_id && now?.sequence === held.previous?.sequence) return;
  throw new CdsyncError(`stream "${held.stream}" has moved on since run ${held.run_id} was held`, {
    code: 'held_outdated',
    stream: held.stream,
    hint: `discard it and run again: cdsync discard ${held.run_id}`,
  });
}

/**
 * Commits what a guard has held, if the snapshot that it was compared with still stands, and publishes it.
 * @throws {CdsyncError} `not_held`, `held_outdated`, `locked`
 */
export async function approveRun(context: RunContext, choice: HeldChoice): Promise<JobReport> {
  const { layout, clock, job, database } = context;
  await prepareStorage(layout, job.publish.mode);
  const lock = await JobLock.acquire(database, layout, new Date(clock.now()).toISOString());
  try {
    return await approveLocked(context, choice);
  } finally {
    await lock.release();
  }
}

async function approveLocked(context: RunContext, choice: HeldChoice): Promise<JobReport> {
  const { layout, clock, job, database, config, client, signal } = context;
  const began = clock.monotonic();
  await context.salts.define(database, job);
  const before = await recover(context);
  const held = await chooseHeld(context, choice);
  const [{ run_id: runId, started_at: startedAt }] = held as [HeldStream, ...HeldStream[]];
  const store = await SnapshotStore.open(database, layout);
  const compared: { held: HeldStream; result: ComparedStream }[] = [];
  let sequence: number;
  try {
    for (const each of held) {
      const previous = before.streams.get(each.stream);
      refuseMoved(each, previous);
      const result = await compareStream({
        job,
        config: job.streams.find(({ name }) => name === each.stream) as StreamConfig,
        source: undefined,
        reading: heldReading(context, each),
        previous,
        store,
        client,
        signal,
        concurrency: config.service.concurrency,
        hashVersion: hashVersion(before.duckdbVersion),
        runId,
        startedAt,
        definition: each.definition,
        folder: layout.streamRun(runId, each.stream),
      });
      compared.push({ held: each, result });
    }
    sequence = await commitRun(store, {
      layout,
      runId,
      startedAt,
      finishedAt: new Date(clock.now()).toISOString(),
      status: 'ok',
      sequence: before.sequence,
      streams: compared.map(({ result }) => result.commit),
      parquet: job.parquet.enabled,
      historyMs: job.publish.history,
    });
    await publishAfter(context, store);
  } finally {
    await store.close().catch(() => undefined);
  }
  for (const { stream } of held) await discardStream(layout, runId, stream);
  if (!(await hasStreams(layout, runId))) await discardRun(layout, runId);
  const report = reportJob({
    job: job.name,
    run: { runId, startedAt },
    resumed: false,
    sequence,
    status: 'ok',
    seconds: (clock.monotonic() - began) / 1000,
    streams: compared.map(({ held: { stream, read }, result }) => ({
      name: stream,
      error: undefined,
      findings: [],
      counters: read.counters,
      commit: result.commit,
    })),
  });
  const document = { status: report.status, jobs: [report], error: null };
  await writeFileAtomically(layout.report(runId), `${JSON.stringify(document, null, 1)}\n`);
  return report;
}

/** The store must be closed before its file is copied. */
async function publishAfter(context: RunContext, store: SnapshotStore): Promise<void> {
  const state = await store.state();
  const reason = await compactionReason(store, state);
  await store.close();
  await compact(context.database, context.layout, { reason, sequence: state.sequence });
  await publish(context.database, context.layout, state, publishOptions(context));
}

/**
 * Throws away what a guard has held; the snapshot stays as it is.
 * @returns the streams of which something was thrown away
 * @throws {CdsyncError} `not_held`, `locked`
 */
export async function discardHeld(context: RunContext, choice: HeldChoice): Promise<string[]> {
  const { layout, clock, database, job } = context;
  await prepareStorage(layout, job.publish.mode);
  const lock = await JobLock.acquire(database, layout, new Date(clock.now()).toISOString());
  try {
    const held = await chooseHeld(context, choice);
    for (const { stream } of held) await discardStream(layout, choice.runId, stream);
    if (!(await hasStreams(layout, choice.runId))) await discardRun(layout, choice.runId);
    return held.map(({ stream }) => stream);
  } finally {
    await lock.release();
  }
}
