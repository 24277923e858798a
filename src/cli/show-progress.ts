import type { RunProgress } from '../engine/progress.js';
import { ProgressLines } from '../report/progress-lines.js';
import type { CommonArguments, Output } from './output.js';

const terminalMs = 500;
/** Without a terminal a line now and then: often enough to see life, seldom enough for a log. */
const logMs = 15_000;

/** Shows what a run is doing on standard error, until stopped: a block that is written over on a terminal, lines without. */
export function showProgress(
  progress: RunProgress,
  limitPerSecond: number,
  output: Output,
  { quiet }: CommonArguments,
): { stop(): void } {
  if (quiet) return { stop: () => undefined };
  const terminal = process.stderr.isTTY === true;
  const lines = new ProgressLines(limitPerSecond, performance.now());
  let drawn = 0;
  const views = () =>
    progress.streams
      .filter(({ phase }) => phase !== 'waiting')
      .map(({ name, phase, live, expectedRows }) => {
        const shownPhase = phase === 'comparing' && progress.phase !== 'reading' ? progress.phase : phase;
        const view = { name, phase: shownPhase, rows: live?.kept ?? 0, requests: live?.requests ?? 0, expectedRows };
        return lines.line(view, performance.now());
      });
  const erase = () => {
    if (drawn > 0) process.stderr.write(`\x1b[${drawn}A\x1b[0J`);
    drawn = 0;
  };
  const show = () => {
    const shown = views();
    if (!terminal) {
      for (const line of shown) output.notice(line);
      return;
    }
    erase();
    for (const line of shown) output.notice(line.slice(0, (process.stderr.columns ?? 80) - 1));
    drawn = shown.length;
  };
  const timer = setInterval(show, terminal ? terminalMs : logMs);
  timer.unref();
  return {
    stop: () => {
      clearInterval(timer);
      if (terminal) erase();
    },
  };
}
