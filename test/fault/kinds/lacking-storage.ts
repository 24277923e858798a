import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { ended } from '../../fixtures/workspace.js';
import type { Fault, FaultKind } from '../fault.js';
import type { Lane } from '../lane.js';
import { type Situation, situations } from '../situations.js';
import { Broken, expectEnding } from '../try-fault.js';

const source = join(import.meta.dirname, '..', '..', 'fixtures', 'missing-calls.c');

/** Missing features of the file system, and whether a run can do without each. */
const lacking: Readonly<Record<string, boolean>> = {
  lock: false,
  lockopn: false,
  symlink: false,
  chmod: false,
  dirsync: false,
  filesync: false,
  link: true,
};

function compiled(lane: Lane): string {
  const shim = join(lane.folder, 'missing-calls.so');
  const { status, stderr } = spawnSync('cc', ['-shared', '-fPIC', '-o', shim, source, '-ldl'], { encoding: 'utf8' });
  if (status !== 0) throw new Error(stderr);
  return shim;
}

function fault(lacks: string, situation: Situation): Fault {
  return {
    name: `${situation}: no ${lacks}`,
    situation,
    strike: async (lane) => {
      const variables = [`LD_PRELOAD=${compiled(lane)}`, `LACKS=${lacks}`, `PLACE=${lane.storage}`];
      const child = await lane.start({ wrap: (command) => ['env', ...variables, ...command] });
      const { code, errors, stderr } = expectEnding(await ended(child));
      const isRight = lacking[lacks] ? code === 0 : code === 1 && errors.every((each) => each === 'storage_unsuitable');
      if (!isRight) throw new Broken(`exit ${code}: ${errors.join(', ')} ${stderr}`);
      return true;
    },
  };
}

/** File systems without locks, links, permissions or syncing: a run does without, or refuses before it changes anything. */
export const lackingStorage: FaultKind = {
  name: 'file systems that lack something',
  lacks: async () =>
    process.platform === 'linux' && spawnSync('cc', ['--version']).status === 0 ? undefined : 'a C compiler on Linux',
  faults: () => Object.keys(lacking).flatMap((lacks) => situations.map((situation) => fault(lacks, situation))),
  most: 35,
};
