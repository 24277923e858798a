import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { ended } from '../../fixtures/workspace.js';
import { slowReading } from '../baseline.js';
import type { Fault, FaultKind } from '../fault.js';
import { controlToken, type Lane, profiles } from '../lane.js';
import { situations } from '../situations.js';
import { expectEnding } from '../try-fault.js';

const cdsync = join(import.meta.dirname, '..', '..', '..', 'dist', 'src', 'cli', 'main.js');

/** Starts the lane's service in a separate process, so that it can be killed. */
async function serve(lane: Lane): Promise<ChildProcess> {
  const words = ['serve', '--json', '--port', String(lane.port), '--state', lane.stateFile];
  const more = ['--profiles', String(profiles), '--control-token', controlToken];
  const child = spawn(process.execPath, [cdsync, ...words, ...more], {
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  const [line] = await Promise.race([once(child.stdout, 'data'), once(child, 'exit')]);
  if (child.exitCode !== null) throw new Error(`cdsync serve ended: ${line}`);
  return child;
}

async function kill(child: ChildProcess): Promise<void> {
  child.kill('SIGKILL');
  if (child.exitCode === null && child.signalCode === null) await once(child, 'exit');
}

function deaths(): Fault[] {
  return Array.from({ length: 60 }, (_, number): Fault => {
    const restarts = number % 2 === 0;
    const situation = situations[(number >> 1) % situations.length] ?? 'daily';
    return {
      name: `${situation}: it dies${restarts ? ' and restarts' : ''} (${number})`,
      situation,
      strike: async (lane, random) => {
        await lane.stopService();
        let service = await serve(lane);
        try {
          await lane.control('faults', slowReading);
          const end = lane.run();
          const over = end.then(() => true);
          await Promise.race([wait(500 + random() * 1500), over]);
          const struck = !(await Promise.race([over, wait(0).then(() => false)]));
          await kill(service);
          if (restarts) service = await serve(lane);
          expectEnding(await end);
          return struck;
        } finally {
          await kill(service);
        }
      },
    };
  });
}

/** kill -9 of the service while a run reads it. */
export const serviceDeath: FaultKind = { name: 'a service that dies', faults: deaths, most: 30 };

function moves(): Fault[] {
  return Array.from({ length: 60 }, (_, number): Fault => {
    const situation = (['daily', 'first', 'reading'] as const)[number % 3] ?? 'daily';
    return {
      name: `${situation}: (${number})`,
      situation,
      moves: true,
      strike: async (lane, random) => {
        await lane.startService('before');
        await lane.control('faults', slowReading);
        const child = await lane.start();
        const end = ended(child);
        await Promise.race([wait(600 + random() * 1200), end]);
        const struck = child.exitCode === null;
        await lane.startService('after');
        expectEnding(await end);
        return struck;
      },
    };
  });
}

/** A day passes at the service while a run reads its lists: pages from before and after do not fit together. */
export const movingService: FaultKind = { name: 'an index that moves while it is read', faults: moves, most: 30 };
