import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { Fault, FaultKind } from '../fault.js';
import type { Lane, RunOptions } from '../lane.js';
import { situations } from '../situations.js';
import { expectEnding } from '../try-fault.js';

/** System calls by which DuckDB writes, and how many of each a thread makes at least. */
const calls: Readonly<Record<string, number>> = {
  pwrite64: 24,
  fsync: 20,
  fdatasync: 6,
  rename: 8,
  ftruncate: 6,
  unlink: 6,
  write: 60,
};

/** strace would write to standard error too, so its output goes to a file. */
function underStrace(lane: Lane, call: string, what: string, number: number): RunOptions {
  const log = join(lane.folder, 'strace.txt');
  const words = ['-f', '-qq', '-o', log, '-e', `trace=${call}`, '-e', `inject=${call}:${what}:when=${number}`];
  return { wrap: (command) => ['strace', ...words, ...command] };
}

async function injected(lane: Lane): Promise<boolean> {
  const log = await readFile(join(lane.folder, 'strace.txt'), 'utf8').catch(() => '');
  return /INJECTED|killed by SIGKILL/.test(log);
}

function killAt(call: string, number: number, index: number): Fault {
  const situation = situations[index % situations.length] ?? 'daily';
  return {
    name: `${situation}: SIGKILL at ${call} ${number}`,
    situation,
    strike: async (lane) => {
      await lane.run(underStrace(lane, call, 'signal=SIGKILL', number));
      return injected(lane);
    },
  };
}

/** `write` cannot fail here: Node uses it for pipes too, and an error there is no fault of the disk. */
function failAt(call: string, number: number, index: number): Fault[] {
  if (call === 'write') return [];
  const situation = situations[(index + 1) % situations.length] ?? 'daily';
  const error = call.startsWith('f') && call !== 'ftruncate' ? 'EIO' : 'ENOSPC';
  return [
    {
      name: `${situation}: ${error} of ${call} ${number}`,
      situation,
      strike: async (lane) => {
        expectEnding(await lane.run(underStrace(lane, call, `error=${error}`, number)));
        return injected(lane);
      },
    },
  ];
}

function callsOf(): Fault[] {
  return Object.entries(calls).flatMap(([call, most]) =>
    Array.from({ length: most }, (_, index) => [
      killAt(call, index + 1, index),
      ...failAt(call, index + 1, index),
    ]).flat(),
  );
}

async function lacksStrace(): Promise<string | undefined> {
  const words = ['-f', '-qq', '-o', '/dev/null', '-e', 'inject=fsync:error=EIO:when=1', 'true'];
  return promisify(execFile)('strace', words).then(
    () => undefined,
    () => 'strace, or the right to trace processes',
  );
}

/** DuckDB writes inside of our steps: the process is killed at single system calls, or they fail. */
export const systemCalls: FaultKind = {
  name: 'a system call dies or fails',
  lacks: lacksStrace,
  faults: callsOf,
  most: 120,
};
