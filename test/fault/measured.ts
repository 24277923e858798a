import { readFile } from 'node:fs/promises';
import { setTimeout as wait } from 'node:timers/promises';
import { type Ended, ended } from '../fixtures/workspace.js';
import type { Lane, RunOptions } from './lane.js';

/** Runs the program. @returns how it ended, and the most memory that it had, in MB */
export async function measured(lane: Lane, options: RunOptions = {}): Promise<Ended & { readonly peakMb: number }> {
  const child = await lane.start(options);
  const end = ended(child);
  const over = end.then(() => true);
  let peakMb = 0;
  do {
    const status = await readFile(`/proc/${child.pid}/status`, 'utf8').catch(() => '');
    peakMb = Math.max(peakMb, Number(/VmHWM:\s+(\d+)/.exec(status)?.[1] ?? 0) / 1024);
  } while (!(await Promise.race([over, wait(25).then(() => false)])));
  return { ...(await end), peakMb };
}
