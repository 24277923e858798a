import { execFile } from 'node:child_process';
import { cp, mkdir, mkdtemp, readFile, rename, rm, statfs } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { promisify } from 'node:util';
import { ended } from '../../fixtures/workspace.js';
import type { Fault, FaultKind } from '../fault.js';
import type { Lane } from '../lane.js';
import type { Situation } from '../situations.js';
import { Broken, expectEnding, otherErrors } from '../try-fault.js';

const execute = promisify(execFile);
const mega = 1 << 20;

async function mount(folder: string, options: string): Promise<void> {
  await execute('mount', ['-t', 'tmpfs', '-o', options, 'none', folder]);
}

/** Moves a lane's storage folder to a small file system. */
async function moveToSmall(lane: Lane): Promise<void> {
  const aside = join(lane.folder, 'aside');
  await rename(lane.storage, aside);
  await mkdir(lane.storage);
  await mount(lane.storage, 'size=256m,mode=700');
  await cp(aside, lane.storage, { recursive: true, verbatimSymlinks: true });
  await rm(aside, { recursive: true });
}

async function shrink(lane: Lane, freeBytes: number): Promise<void> {
  const { blocks, bavail, bsize } = await statfs(lane.storage);
  // A size of 0 would mean no limit, which the kernel does not take back.
  await mount(lane.storage, `remount,size=${Math.max((blocks - bavail) * bsize + freeBytes, bsize)}`);
}

// Lazily: a killed process may still have files open in it.
async function leave(lane: Lane): Promise<void> {
  await execute('umount', ['-l', lane.storage]);
}

function full(situation: Situation, freeBytes: number): Fault {
  return {
    name: `${situation}: ${freeBytes} bytes left`,
    situation,
    strike: async (lane) => {
      await moveToSmall(lane);
      await shrink(lane, freeBytes);
      const ending = expectEnding(await lane.run());
      if (ending.code === 0) return false;
      const others = otherErrors(ending, ['disk_full', 'disk_short', 'destination_refused']);
      if (others.length > 0) throw new Broken(`a full disk was reported as ${others.join(', ')}`);
      return true;
    },
    mend: (lane) => mount(lane.storage, 'remount,size=256m'),
    leave,
  };
}

/** Bytes that are free on a full disk: none, or some blocks. */
const leftovers = [0, 4096, 65_536, mega];

/** Something else fills the disk when the run is at a step. */
function fills(situation: Situation, at: string): Fault {
  return {
    name: `${situation}: ${at}`,
    situation,
    strike: async (lane, random) => {
      await moveToSmall(lane);
      const child = await lane.start({ strike: { at, when: 'before', action: 'pause' } });
      const end = ended(child);
      const isOver = end.then(() => true);
      while (!(await isStopped(child.pid))) if (await Promise.race([isOver, wait(20).then(() => false)])) return false;
      await shrink(lane, leftovers[Math.floor(random() * leftovers.length)] ?? 0);
      child.kill('SIGCONT');
      const ending = expectEnding(await end);
      const others = otherErrors(ending, ['disk_full', 'disk_short', 'destination_refused']);
      if (others.length > 0) throw new Broken(`a full disk was reported as ${others.join(', ')}`);
      return true;
    },
    mend: (lane) => mount(lane.storage, 'remount,size=256m'),
    leave,
  };
}

async function isStopped(pid: number | undefined): Promise<boolean> {
  const state = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => '');
  return state.slice(state.lastIndexOf(')')).startsWith(') T');
}

/** From nothing to more than a run needs, in steps that grow. */
function amounts(): number[] {
  const found: number[] = [];
  for (let bytes = 0; bytes < 40 * mega; bytes += bytes < mega / 4 ? mega / 64 : bytes < 6 * mega ? mega / 8 : mega / 2)
    found.push(bytes);
  return found;
}

async function lacksMount(): Promise<string | undefined> {
  if (process.platform !== 'linux') return 'tmpfs, which only Linux has';
  if (process.getuid?.() !== 0) return 'root, to mount a small file system';
  const folder = await mkdtemp('/tmp/cdsync-mount-');
  try {
    await mount(folder, 'size=1m');
    await execute('umount', [folder]);
    return undefined;
  } catch {
    return 'the right to mount a small file system';
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** The disk becomes full at some step: a file system of a few bytes more or less. */
export const diskFull: FaultKind = {
  name: 'the disk is full',
  lacks: lacksMount,
  faults: () => amounts().flatMap((bytes) => (['daily', 'first', 'repair'] as const).map((each) => full(each, bytes))),
  most: 90,
};

/** The disk becomes full at a step that writes: in each phase of a run, one after the other. */
export const diskFills: FaultKind = {
  name: 'the disk fills at a step',
  lacks: lacksMount,
  faults: (steps) => [...steps].flatMap(([situation, names]) => names.map((at) => fills(situation, at))),
  most: 100,
};
