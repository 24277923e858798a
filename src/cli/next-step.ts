import { formatDuration } from '../core/quantities.js';
import { JobLayout } from '../store/layout.js';
import { lastGoodRun } from '../store/reports.js';
import type { Ending } from './output.js';

/** Errors in a run id on the command line. */
const ofRuns = new Set(['run_not_found', 'not_held']);
/** What leads on after an error in the words of a command, where the configuration is right. */
function nextForWords({ errorCode: error = '', command }: Ending): string | undefined {
  if (command === 'query' && error === 'sql_failed') return 'correct the SQL; the tables: cdsync query "show tables"';
  if (error === 'config_not_found')
    return 'write one: cdsync init; or try it without a service of your own: cdsync quickstart';
  if (error === 'usage')
    return command === undefined ? 'see the commands: cdsync --help' : `correct it, then: cdsync ${command}`;
  return ofRuns.has(error) ? 'see the runs, and what is held: cdsync status' : undefined;
}

function nextCommand(ending: Ending): string {
  const { code, held, remedy, undelivered, next, heldStream } = ending;
  if (next !== undefined) return next;
  const words = nextForWords(ending);
  if (words !== undefined) return words;
  if (code === 2) return 'correct it, then: cdsync check';
  if (code === 4) return 'see what the key may do: cdsync check';
  if (code === 3) return nextForHeld(held, heldStream);
  if (code === 75) return 'see who has it: cdsync status';
  if (undelivered) return 'next: cdsync push';
  if (remedy === 'backup') return 'restore the store, as docs/recovery.md says, then: cdsync verify';
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
