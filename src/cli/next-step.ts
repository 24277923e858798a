import { formatDuration } from '../core/quantities.js';
import { JobLayout } from '../store/layout.js';
import { lastGoodRun } from '../store/reports.js';
import type { Ending } from './output.js';

const seeRuns = 'see the runs, and what is held: cdsync status';
const restoreStore = 'restore the store, as docs/recovery.md says, then: cdsync verify';

/** What leads on after an error whose code says more than the exit code. */
const byError: Readonly<Record<string, string>> = {
  config_not_found: 'write one: cdsync init; or try it without a service of your own: cdsync quickstart',
  run_not_found: seeRuns,
  not_held: seeRuns,
  partition_not_found: 'see the parts: cdsync state show',
  definition_changed: 'if that is meant: cdsync run --accept',
  memory_exceeded: 'raise `resources.memory_mb`, or take less at once; then again',
  state_unreadable: 'do what the message says (docs/recovery.md has more), then: cdsync verify',
};

const ofQueries = new Set(['sql_failed', 'sql_not_allowed']);

function nextForError({ errorCode: error = '', command }: Ending): string | undefined {
  if (command === 'query' && ofQueries.has(error)) return 'correct the SQL; the tables: cdsync query "show tables"';
  if (error !== 'usage') return byError[error];
  return `see: cdsync ${command === undefined ? '' : `${command} `}--help`;
}

/** Commands that need no words of their own, so that a command that was interrupted can be named whole. */
const withoutWords = new Set(['run', 'push', 'plan', 'check', 'verify']);

/** What a command that did not succeed leads on to, by its error and what is known of it. */
export function nextCommand(ending: Ending): string {
  const { code, held, remedy, undelivered, next, heldStream, command } = ending;
  if (next !== undefined) return next;
  const words = nextForError(ending);
  if (words !== undefined) return words;
  if (code === 2) return 'correct it, then: cdsync check';
  if (code === 4) return 'see what the key may do: cdsync check';
  if (code === 3) return nextForHeld(held, heldStream);
  if (code === 75) return 'see who has it: cdsync status';
  if (undelivered) return 'next: cdsync push';
  if (code === 130 && command !== undefined) return `next: cdsync ${withoutWords.has(command) ? command : 'status'}`;
  if (remedy === 'backup') return restoreStore;
  const foreign = 'move the files away that cdsync did not put there or cannot write again, then: cdsync';
  if (remedy === 'move') return `${foreign} verify`;
  if (remedy === 'move and full') return `${foreign} run --full`;
  return `next: cdsync run${remedy === 'full' ? ' --full' : ''}`;
}

function nextForHeld(held = 'RUN', stream?: string): string {
  const look = stream === undefined ? 'look at it' : `look at it: cdsync diff --held ${held} ${stream}`;
  return `${look}; then: cdsync approve ${held}, or: cdsync discard ${held}`;
}

/** The last line of a command that did not succeed: what to do next, and how old the last good snapshot is. */
export async function nextStep(ending: Ending): Promise<string> {
  const { storage, job, isOneOfSeveral } = ending;
  const command = nextCommand(ending);
  if (storage === undefined || job === undefined) return command;
  const last = await lastGoodRun(new JobLayout(storage, job)).catch(() => 'unknown' as const);
  if (last === 'unknown') return command;
  const of = isOneOfSeveral ? ` of ${job}` : '';
  const age =
    last === undefined
      ? `there is no good snapshot${of} yet`
      : `the last good snapshot${of} is ${formatDuration(Date.now() - last.startedAt)} old`;
  return `${command} (${age})`;
}
