import { callEvery } from '../core/clock.js';
import { visible } from '../core/printable.js';
import type { RunProgress } from '../engine/progress.js';
import { ProgressLines, type RunView, type StreamView } from '../output/progress-lines.js';
import type { CommonArguments, Output } from './output.js';
import { eraseLines } from './standard-streams.js';

const terminalMs = 500;
/** Without a terminal, the time between two lines: short enough to see that it works, long enough for a log. */
const logMs = 15_000;
/** How often cdsync looks for new steps of streams: a log for machines has an entry for each. */
const stepMs = 500;
/** A log has no figures before its first line, and most runs end sooner: only then totals are asked for, in time for that line. */
const askMs = 10_000;

/** The state to show of each stream. */
function viewsOf(progress: RunProgress): StreamView[] {
  return progress.streams.map(({ name, phase, live, expectedRows, expectedAnswers, figures, limit }) => ({
    name,
    phase,
    // The records of many keys are taken in together; their responses arrive one by one.
    rows: live === undefined ? 0 : expectedAnswers === undefined ? live.kept : live.requests - live.retries,
    requests: live?.requests ?? 0,
    expectedRows: expectedAnswers ?? expectedRows,
    unit: expectedAnswers === undefined ? 'rows' : 'answers',
    figures,
    limit,
  }));
}

function viewOf(progress: RunProgress): RunView {
  const streams = viewsOf(progress);
  const compares =
    progress.phase === 'reading' &&
    streams.length > 0 &&
    streams.every(({ phase }) => phase !== 'reading' && phase !== 'waiting');
  return {
    phase: compares ? 'comparing' : progress.phase,
    streams,
    deliveries: progress.destinations,
    share: progress.share(),
  };
}

/**
 * Whether progress is a block that is drawn again and again, or plain lines now and then: in a pipe, in CI, and where the
 * environment says that the terminal can do no more or that nothing fancy is wanted.
 */
export function drawsBlock(isTerminal: boolean, { TERM, CI, NO_COLOR }: NodeJS.ProcessEnv): boolean {
  return isTerminal && TERM !== 'dumb' && (CI ?? '') === '' && (NO_COLOR ?? '') === '';
}

/** Logs, for machines, the start of the run, each step of each stream, and every `logMs` its figures. */
function logSteps(progress: RunProgress, lines: ProgressLines, output: Output): () => void {
  const phases = new Map<string, string>();
  let loggedAt = performance.now();
  let isKnown = false;
  return () => {
    // Before the run has an id, it only looks up lists: there is nothing to log.
    if (progress.runId === undefined) return;
    if (!isKnown) {
      isKnown = true;
      output.about({ run_id: progress.runId });
      output.event('run_started', {});
    }
    const at = performance.now();
    const isDue = at - loggedAt >= logMs;
    if (isDue) loggedAt = at;
    for (const view of viewsOf(progress)) {
      const { phase } = view;
      const isNew = phase !== 'waiting' && phases.get(view.name) !== phase;
      phases.set(view.name, phase);
      const share = progress.share();
      const budget = share && { part_of_budget: Number(share.part.toFixed(3)), other_processes: share.otherProcesses };
      const isUnderWay = !['waiting', 'done', 'held', 'failed'].includes(phase);
      if (isNew || (isDue && isUnderWay)) {
        output.event(isNew ? 'step' : 'progress', { ...lines.details(view, at), ...budget });
      }
    }
    for (const { destination, stream, phase, rows, total } of progress.destinations) {
      const name = `${destination} ${stream}`;
      const isNew = phase !== 'waiting' && phases.get(name) !== phase;
      phases.set(name, phase);
      const details = { destination, stream, phase, rows, expected_rows: total ?? null };
      if (isNew || (isDue && phase === 'loading')) output.event(isNew ? 'step' : 'progress', details);
    }
  };
}

/** Rows that lines take on a terminal of this width: it may have become narrower since they were written. */
export function heightOf(lines: readonly string[], columns: number): number {
  return lines.reduce((rows, line) => rows + Math.max(1, Math.ceil(line.length / Math.max(1, columns))), 0);
}

/** A block on a terminal, overwritten each time. */
function showBlock(progress: RunProgress, lines: ProgressLines, output: Output) {
  let drawn: readonly string[] = [];
  const size = () => ({ columns: process.stderr.columns || 80, rows: process.stderr.rows || 24 });
  const erase = () => {
    if (drawn.length > 0) eraseLines(heightOf(drawn, size().columns));
    drawn = [];
  };
  const show = () => {
    const block = lines.block(viewOf(progress), performance.now(), size()).map(visible);
    erase();
    for (const line of block) output.notice(line);
    drawn = block;
  };
  return { show, erase };
}

/** Calls `show`, and asks for totals that no one knows, now and then until `stop` is called. */
function repeatedly(
  progress: RunProgress,
  { show, everyMs, asksMs = askMs }: { show: () => void; everyMs: number; asksMs?: number },
  end?: () => void,
): { stop(): void } {
  const asks = () => {
    for (const { askTotal } of progress.streams) askTotal?.();
  };
  const timers = [callEvery(everyMs, show), callEvery(asksMs, asks)];
  for (const timer of timers) timer.unref();
  return {
    stop: () => {
      for (const timer of timers) clearInterval(timer);
      end?.();
    },
  };
}

/** Shows the progress of a run on standard error, until `stop` is called. */
export function showProgress(
  progress: RunProgress,
  limitPerSecond: number,
  output: Output,
  { quiet }: CommonArguments,
): { stop(): void } {
  const lines = new ProgressLines(limitPerSecond, performance.now());
  if (output.logsJson) {
    const log = logSteps(progress, lines, output);
    return repeatedly(progress, { show: log, everyMs: stepMs }, log);
  }
  if (quiet) return { stop: () => undefined };
  if (drawsBlock(process.stderr.isTTY === true, process.env)) {
    const { show, erase } = showBlock(progress, lines, output);
    return repeatedly(progress, { show, everyMs: terminalMs, asksMs: terminalMs }, erase);
  }
  const log = () => {
    for (const line of lines.log(viewOf(progress), performance.now())) output.notice(line);
  };
  return repeatedly(progress, { show: log, everyMs: logMs });
}
