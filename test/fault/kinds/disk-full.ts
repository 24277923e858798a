import { execFile } from 'node:child_process';
import { cp, mkdir, rename, rm, statfs } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { Fault, FaultKind } from '../fault.js';
import { Broken, expectEnding, otherErrors } from '../judge.js';
import type { Lane } from '../lane.js';
import type { Situation } from '../situations.js';

const execute = promisify(execFile);
const mega = 1 << 20;

async function mount(folder: string, options: string): Promise<void> {
  await execute('mount', ['-t', 'tmpfs', '-o', options, 'none', folder]);
}

/** Moves a lane's storage folder to a small file system with this much free space. */
async function fill(lane: Lane, freeBytes: number): Promise<void> {
  const aside = join(lane.folder, 'aside');
  await rename(lane.storage, aside);
  await mkdir(lane.storage);
  await mount(lane.storage, 'size=256m,mode=700');
  await cp(aside, lane.storage, { recursive: true, verbatimSymlinks: true });
  await rm(aside, { recursive: true });
  const { blocks, bavail, bsize } = await statfs(lane.storage);
  // A size of 0 would mean no limit, which the kernel does not take back.
  await mount(lane.storage, `remount,size=${Math.max((blocks - bavail) * bsize + freeBytes, bsize)}`);
}

function full(situation: Situation, freeBytes: number): Fault {
  return {
    name: `${situation}: ${freeBytes} bytes left`,
    situation,
    strike: async (lane) => {
      await fill(lane, freeBytes);
      const ending = expectEnding(await lane.run());
      if (ending.code === 0) return false;
      const others = otherErrors(ending, ['disk_full', 'disk_short']);
      if (others.length > 0) throw new Broken(`a full disk was told as ${others.join(', ')}`);
      return true;
    },
    mend: (lane) => mount(lane.storage, 'remount,size=256m'),
    // Lazily: a killed process may still have files open in it.
    leave: async (lane) => {
      await execute('umount', ['-l', lane.storage]);
    },
  };
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
  const folder = join('/tmp', `cdsync-mount-${process.pid}`);
  await mkdir(folder);
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
