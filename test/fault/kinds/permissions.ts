import { execFile } from 'node:child_process';
import { chmod, lstat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { promisify } from 'node:util';
import { ended } from '../../fixtures/workspace.js';
import type { CalmSteps, Ending, Fault, FaultKind } from '../fault.js';
import type { Lane } from '../lane.js';
import { listed } from '../residue.js';
import { Broken, expectEnding, otherErrors } from '../try-fault.js';

const execute = promisify(execFile);
const isRoot = process.getuid?.() === 0;
/** Root may do everything, so a test that is root starts its runs as this user, who has no privileges. */
const otherUser = '65534';

function asUser(command: readonly string[]): readonly string[] {
  return isRoot ? ['setpriv', `--reuid=${otherUser}`, `--regid=${otherUser}`, '--clear-groups', ...command] : command;
}

/** Gives all files of a run to the user who starts it. */
async function handOver(lane: Lane): Promise<void> {
  if (!isRoot) return;
  await execute('chmod', ['755', dirname(lane.folder), lane.folder]);
  const mine = ['data', 'home', 'tmp', 'log'].map((name) => join(lane.folder, name));
  await execute('chown', ['-R', `${otherUser}:${otherUser}`, ...mine, join(lane.folder, 'cdsync.json')]);
}

/** Files and folders below the storage folder that match a pattern: run ids in their names differ. */
async function matching(lane: Lane, pattern: RegExp): Promise<string[]> {
  const names = (await listed(lane.storage)).filter((name) => pattern.test(name));
  return names.map((name) => join(lane.storage, name));
}

function expectNotices(ending: Ending): boolean {
  if (ending.code === 0) return false;
  const others = otherErrors(ending, ['storage_permission', 'destination_permission']);
  if (others.length > 0) throw new Broken(`a lack of permission was reported as ${others.join(', ')}`);
  return true;
}

const places: readonly { readonly pattern: RegExp; readonly mode: number; readonly harms?: Fault['harms'] }[] = [
  ...[0o000, 0o500].flatMap((mode) => [
    { pattern: /^daily$/, mode, harms: 'published' as const },
    { pattern: /^daily\/published$/, mode, harms: 'published' as const },
    { pattern: /^daily\/parquet$/, mode, harms: 'parquet' as const },
    { pattern: /^daily\/parquet\/members$/, mode, harms: 'parquet' as const },
    { pattern: /^daily\/parquet\/members\/snapshot$/, mode, harms: 'parquet' as const },
    { pattern: /^daily\/parquet\/audit\/changes$/, mode },
    { pattern: /^daily\/reports$/, mode },
    { pattern: /^daily\/\.cdsync$/, mode },
    { pattern: /^daily\/\.cdsync\/locks$/, mode },
    { pattern: /^daily\/\.cdsync\/runs$/, mode },
    { pattern: /^daily\/\.cdsync\/runs\/[^/]+$/, mode },
    { pattern: /^daily\/\.cdsync\/runs\/[^/]+\/streams\/members$/, mode },
  ]),
  ...[0o000, 0o400].flatMap((mode) => [
    { pattern: /store\.duckdb$/, mode },
    { pattern: /locks\/job\.duckdb$/, mode },
    { pattern: /format\.json$/, mode },
    { pattern: /members\/manifest\.json$/, mode, harms: 'parquet' as const },
    { pattern: /run\.json$/, mode },
    { pattern: /members\/journal\.jsonl$/, mode },
    { pattern: /parts\/00001\.(parquet|keys)$/, mode },
    { pattern: /reports\//, mode },
  ]),
];

function beforeRun({ pattern, mode, harms }: (typeof places)[number]): Fault[] {
  return (['daily', 'reading', 'repair'] as const).map((situation) => {
    const taken: { path: string; mode: number }[] = [];
    return {
      name: `${situation}: ${pattern.source} ${mode.toString(8)}`,
      situation,
      next: { wrap: asUser },
      ...(isRoot || harms === undefined ? {} : { harms }),
      strike: async (lane) => {
        await handOver(lane);
        taken.length = 0;
        for (const path of await matching(lane, pattern)) {
          taken.push({ path, mode: (await lstat(path)).mode & 0o777 });
          await chmod(path, mode);
        }
        return expectNotices(expectEnding(await lane.run({ wrap: asUser })));
      },
      mend: async () => {
        for (const { path, mode: before } of taken) await chmod(path, before).catch(() => undefined);
      },
    };
  });
}

/** The run pauses at a step while the test removes its permission for a folder. */
function inRun(steps: CalmSteps): Fault[] {
  const folders = [
    /^daily\/\.cdsync\/runs\/[^/]+\/streams\/[^/]+(\/parts)?$/,
    /^daily\/\.cdsync$/,
    /^daily(\/published|\/parquet\/[a-z_]+)?$/,
  ];
  return (steps.get('daily') ?? []).flatMap((at, index) => {
    const pattern = folders[index % folders.length] ?? /^daily$/;
    const taken = new Map<string, number>();
    return {
      name: `${pattern.source} at ${at}`,
      situation: 'daily' as const,
      next: { wrap: asUser },
      strike: async (lane: Lane) => {
        await handOver(lane);
        taken.clear();
        const child = await lane.start({ wrap: asUser, strike: { at, when: 'before', action: 'pause' } });
        const end = ended(child);
        let over = false;
        end.then(() => {
          over = true;
        });
        while (!over && !(await lane.struck())) await wait(20);
        await wait(50);
        for (const path of await matching(lane, pattern)) {
          taken.set(path, (await lstat(path)).mode & 0o777);
          await chmod(path, 0o500);
        }
        child.kill('SIGCONT');
        return expectNotices(expectEnding(await end));
      },
      mend: async () => {
        for (const [path, mode] of taken) await chmod(path, mode).catch(() => undefined);
      },
    };
  });
}

async function lacksUser(): Promise<string | undefined> {
  if (!isRoot) return process.platform === 'win32' ? 'permissions of POSIX' : undefined;
  const may = execute('setpriv', [...asUser([]).slice(1), process.execPath, '--version']);
  return may.then(
    () => undefined,
    () => 'setpriv, to run as a user who may not do everything',
  );
}

/** The run's user has no permission for some files and folders (EACCES): before the run, or from a step on. */
export const permissions: FaultKind = {
  name: 'no permission (EACCES)',
  lacks: lacksUser,
  faults: (steps) => [...places.flatMap(beforeRun), ...inRun(steps)],
  most: 70,
};
