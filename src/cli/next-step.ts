import { formatDuration } from '../core/quantities.js';
import { JobLayout } from '../store/layout.js';
import { lastGoodRun } from '../store/reports.js';
import type { Ending } from './output.js';

function nextCommand({ code, config, job, held, remedy, undelivered }: Ending): string {
  const file = config === undefined ? '' : ` ${config}`;
  if (code === 2) return `correct it, then: cdsync check${file}`;
  if (code === 4) return `see what the key may do: cdsync check${file}`;
  if (code === 3) return `look at it, then: cdsync approve ${held ?? 'RUN'}, or: cdsync discard ${held ?? 'RUN'}`;
  if (code === 75) return `see who has it: cdsync status${file}`;
  const where = `${file}${job === undefined ? '' : ` --job ${job}`}`;
  if (undelivered) return `next: cdsync push${where}`;
  if (remedy === 'backup') return `restore the store, as docs/recovery.md says, then: cdsync verify${where}`;
  const foreign = 'move the files away that cdsync did not put there, then: cdsync';
  if (remedy === 'move') return `${foreign} verify${where}`;
  if (remedy === 'move and full') return `${foreign} run${where} --full`;
  return `next: cdsync run${where}${remedy === 'full' ? ' --full' : ''}`;
}

/** The last line of a command that did not succeed: what to do next, and how old the last good snapshot is. */
export async function nextStep(ending: Ending): Promise<string> {
  const { storage, job } = ending;
  const command = nextCommand(ending);
  if (storage === undefined || job === undefined) return command;
  const last = await lastGoodRun(new JobLayout(storage, job)).catch(() => undefined);
  const age =
    last === undefined
      ? 'there is no good snapshot yet'
      : `the last good snapshot is ${formatDuration(Date.now() - last.startedAt)} old`;
  return `${command} (${age})`;
}
