import { visible } from '../core/printable.js';
import type { RunProgress } from '../engine/progress.js';
import { deliveryLine, ProgressLines, type StreamView, shareLines } from '../report/progress-lines.js';
import type { CommonArguments, Output } from './output.js';
import { eraseLines } from './standard-streams.js';

const terminalMs = 500;
/** Without a terminal, the time between two lines: short enough to see that it works, long enough for a log. */
const logMs = 15_000;
/** How often cdsync looks for new steps of streams: a log for machines has an entry for each. */
const stepMs = 500;

/** The facts to show, for each stream that has begun. */
function viewsOf(progress: RunProgress): StreamView[] {
  return progress.streams
    .filter(({ phase }) => phase !== 'waiting')
    .map(({ name, phase, live, expectedRows }) => {
      const shownPhase = phase === 'comparing' && progress.phase !== 'reading' ? progress.phase : phase;
      return { name, phase: shownPhase, rows: live?.kept ?? 0, requests: live?.requests ?? 0, expectedRows };
    });
}

/** Logs, for machines, the start of the run, each step of each stream, and every `logMs` its figures. */
function logSteps(progress: RunProgress, lines: ProgressLines, output: Output): () => void {
  const phases = new Map<string, string>();
  let toldAt = performance.now();
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
    const isDue = at - toldAt >= logMs;
    if (isDue) toldAt = at;
    for (const view of viewsOf(progress)) {
      const isNew = phases.get(view.name) !== view.phase;
      phases.set(view.name, view.phase);
      const share = progress.share();
      const budget = share && { part_of_budget: Number(share.part.toFixed(3)), other_processes: share.otherProcesses };
      if (isNew || isDue) output.event(isNew ? 'step' : 'progress', { ...lines.facts(view, at), ...budget });
    }
    for (const { destination, stream, phase, rows, total } of progress.destinations) {
      const name = `${destination} ${stream}`;
      const isNew = phase !== 'waiting' && phases.get(name) !== phase;
      phases.set(name, phase);
      const facts = { destination, stream, phase, rows, expected_rows: total ?? null };
      if (isNew || (isDue && phase === 'loading')) output.event(isNew ? 'step' : 'progress', facts);
    }
  };
}

/** Shows a block on a terminal, overwritten each time; plain lines otherwise. */
function showLines(progress: RunProgress, lines: ProgressLines, output: Output, terminal: boolean) {
  let drawn = 0;
  const erase = () => {
    if (drawn > 0) eraseLines(drawn);
    drawn = 0;
  };
  const show = () => {
    const read = progress.phase === 'delivering' ? [] : viewsOf(progress);
    const shown = [
      ...read.map((view) => lines.line(view, performance.now())),
      ...(read.some(({ phase }) => phase === 'reading') ? shareLines(progress.share()) : []),
      ...progress.destinations.filter(({ phase }) => phase !== 'waiting').map(deliveryLine),
    ];
    if (!terminal) {
      for (const line of shown) output.notice(line);
      return;
    }
    erase();
    for (const line of shown) output.notice(visible(line).slice(0, (process.stderr.columns ?? 80) - 1));
    drawn = shown.length;
  };
  return { show, erase };
}

/** Shows on standard error what a run does, until `stop` is called. */
export function showProgress(
  progress: RunProgress,
  limitPerSecond: number,
  output: Output,
  { quiet }: CommonArguments,
): { stop(): void } {
  const lines = new ProgressLines(limitPerSecond, performance.now());
  if (output.logsJson) {
    const log = logSteps(progress, lines, output);
    const timer = setInterval(log, stepMs);
    timer.unref();
    return {
      stop: () => {
        clearInterval(timer);
        log();
      },
    };
  }
  if (quiet) return { stop: () => undefined };
  const terminal = process.stderr.isTTY === true;
  const { show, erase } = showLines(progress, lines, output, terminal);
  const timer = setInterval(show, terminal ? terminalMs : logMs);
  timer.unref();
  return {
    stop: () => {
      clearInterval(timer);
      if (terminal) erase();
    },
  };
}
