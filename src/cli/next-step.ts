import { errorType } from '../core/error-codes.js';
import { formatCounted } from '../core/quantities.js';
import { JobLayout } from '../storage/layout.js';
import { lastGoodRun } from '../storage/reports.js';
import type { Ending } from './output.js';
import { stoppedService } from './own-command.js';

const restoreFormat = 'write {"format":1} into .cdsync/format.json, if no newer cdsync wrote it; then: cdsync verify';
const restoreStore = 'restore the store, as docs/recovery.md says, then: cdsync verify';

/** The most streams whose reports are read for their age. */
const maxStreams = 10;

const ofRuns = new Set([
  'approve',
  'discard',
  'diff',
  'query',
  'verify',
  'push',
  'forget',
  'rejects',
  'report',
  'state',
]);
const ofQueries = new Set(['sql_failed', 'sql_not_allowed']);

function nextForError({ errorCode: error = '', command }: Ending): string | undefined {
  if (command === 'query' && ofQueries.has(error)) return 'correct the SQL; the tables: cdsync query "show tables"';
  // A run of another file is meant, not a new one.
  if (error === 'config_not_found' && command !== undefined && ofRuns.has(command))
    return `name the configuration file as the first argument: cdsync ${command} --help`;
  if (error !== 'usage') return errorType(error).next;
  return `see: cdsync ${command === undefined ? '' : `${command} `}--help`;
}

/** Commands that need no words of their own, so that a command that was interrupted can be named whole. */
const withoutWords = new Set(['run', 'push', 'plan', 'check', 'verify']);

/** The next step after a command that did not succeed, by its error and its properties. */
export function nextCommand(ending: Ending): string {
  const { code, remedy, undelivered, next, command, isHeld, errorCode = '' } = ending;
  if (next !== undefined) return next;
  if (code === 3 || isHeld) return nextForHeld(ending);
  const words = nextForError(ending);
  if (words !== undefined) return words;
  if (code === 2 || errorType(errorCode).kind === 'configuration') return 'correct it, then: cdsync check';
  if (code === 4 || errorType(errorCode).kind === 'auth') return 'see what the key may do: cdsync check';
  if (code === 75) return 'see who has it: cdsync status';
  if (undelivered) return 'next: cdsync push';
  if (code === 130 && command !== undefined) return `next: cdsync ${withoutWords.has(command) ? command : 'status'}`;
  if (remedy === 'backup') return restoreStore;
  if (remedy === 'format') return restoreFormat;
  const foreign = 'move the listed files away, then: cdsync';
  if (remedy === 'move') return `${foreign} verify`;
  if (remedy === 'move and full') return `${foreign} run --full`;
  return `next: cdsync run${remedy === 'full' ? ' --full' : ''}`;
}

function nextForHeld({ held = 'RUN', heldStream: stream, errorCode }: Ending): string {
  if (errorCode === 'column_unknown')
    return `correct the name under \`columns:\`, then: cdsync run; if the column comes later: cdsync approve ${held}`;
  const look = stream === undefined ? 'look at it' : `look at it: cdsync diff --held ${held} ${stream}`;
  return `${look}; then: cdsync approve ${held}, or: cdsync discard ${held}`;
}

const hourMs = 3_600_000;

/** In hours; from two days on, as a number of nightly runs. */
function shownAge(ms: number): string {
  if (ms < 0) return 'of a run whose clock was ahead';
  if (ms < hourMs) return 'less than an hour old';
  const isOfDays = ms >= 48 * hourMs;
  return `${formatCounted(Math.floor(ms / (isOfDays ? 24 : 1) / hourMs), isOfDays ? 'night' : 'hour')} old`;
}

/** How old the last good snapshot is: that of the streams that the failure is about, and of several the oldest. */
async function lastGood({ storage = '', job = '', streams, isOneOfSeveral }: Ending): Promise<string | undefined> {
  const layout = new JobLayout(storage, job);
  const asked = streams?.slice(0, maxStreams) ?? [undefined];
  const runs = await Promise.all(asked.map(async (stream) => ({ stream, run: await lastGoodRun(layout, stream) })));
  const [oldest] = runs.sort((a, b) => (a.run?.startedAt ?? 0) - (b.run?.startedAt ?? 0));
  if (oldest === undefined) return undefined;
  const { stream, run } = oldest;
  const ofJob = isOneOfSeveral ? ` of ${job}` : '';
  const of = stream === undefined ? ofJob : ` of ${isOneOfSeveral ? `${job}, ` : ''}${stream}`;
  if (run === undefined) return `there is no good snapshot${of} yet`;
  return `the last good snapshot${of} is ${shownAge(Date.now() - run.startedAt)}`;
}

/** The last line of a command that did not succeed: what to do next, and how old the last good snapshot is. */
export async function nextStep(ending: Ending): Promise<string> {
  const { storage, job, errorCode = '', old = [] } = ending;
  const service = storage === undefined ? undefined : await stoppedService(storage, ending.errorCode);
  const next = service === undefined ? nextCommand(ending) : `start the service in a second terminal: ${service}`;
  const command = old.length === 0 ? next : `still old: ${old.join(', ')}; ${next}`;
  if (storage === undefined || job === undefined || errorType(errorCode).notify === false) return command;
  const age = await lastGood(ending).catch(() => undefined);
  return age === undefined ? command : `${command} (${age})`;
}
