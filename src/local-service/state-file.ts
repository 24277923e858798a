import { randomBytes } from 'node:crypto';
import { open, readFile, rename, rm } from 'node:fs/promises';
import { CdsyncError } from '../core/errors.js';
import { z } from '../core/zod.js';
import type { EventJournal } from './event-journal.js';
import { storedKey } from './keys/api-key.js';
import { savedManagement } from './management/management-tenants.js';
import { savedRealtime } from './realtime/realtime-tenants.js';

const share = z.number().min(0).max(1);

const savedState = z.object({
  version: z.literal(1),
  seed: z.int(),
  /** How many profiles the service has. */
  profiles: z.int(),
  timeOffsetMs: z.number(),
  days: z.array(z.object({ updated: share, inserted: share, deleted: share })),
  keys: z.array(storedKey),
  realtime: savedRealtime,
  management: savedManagement,
});

/** The state kept over restarts: keys, the moved time, the days of changes, the Management API and real-time profiles. */
export type SavedState = z.infer<typeof savedState>;

/**
 * Reads a state file; undefined if there is none.
 * @throws {CdsyncError} `service_state_unreadable`, `seed_mismatch`
 */
export async function readState(path: string, seed: number): Promise<SavedState | undefined> {
  let state: SavedState;
  try {
    state = savedState.parse(JSON.parse(await readFile(path, 'utf8')));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw new CdsyncError(`the state file ${path} cannot be read`, {
      code: 'service_state_unreadable',
      hint: 'remove it to start without it, or name another file',
      cause: error,
    });
  }
  if (state.seed !== seed) {
    throw new CdsyncError(`the state file ${path} belongs to a service with seed ${state.seed}, not ${seed}`, {
      code: 'seed_mismatch',
      hint: `start with --seed ${state.seed}, or with another state file`,
    });
  }
  return state;
}

/** Replaces the file in one step; only its owner may read it. @throws {CdsyncError} `storage_failed` */
async function writeState(path: string, state: SavedState): Promise<void> {
  const beside = `${path}.${randomBytes(4).toString('hex')}`;
  try {
    const file = await open(beside, 'wx', 0o600);
    try {
      await file.writeFile(`${JSON.stringify(state)}\n`);
      await file.sync();
    } finally {
      await file.close();
    }
    await rename(beside, path);
  } catch (error) {
    await rm(beside, { force: true }).catch(() => undefined);
    throw new CdsyncError(`the state file ${path} cannot be written: ${(error as Error).message}`, {
      code: 'storage_failed',
      hint: 'check its folder and the disk, or name another file',
      cause: error,
    });
  }
}

/** Saves changes for the next start. Both methods return false if the service keeps nothing. */
export interface StateSaver {
  /** Saves everything. */
  save(): Promise<boolean>;
  /** Saves the accepted events only. */
  saveEvents(): Promise<boolean>;
}

export const savesNothing: StateSaver = { save: async () => false, saveEvents: async () => false };

const maxJournalBytes = 16 * 1024 * 1024;

/** Saves to the state file and its journal, one write at a time. Callers that wait for the next write share it. */
export function stateSaver(path: string, current: () => SavedState, journal: EventJournal): StateSaver {
  let last: Promise<void> = Promise.resolve();
  const shared = (write: () => Promise<void>) => {
    let next: Promise<void> | undefined;
    return async () => {
      if (next === undefined) {
        next = last
          .catch(() => undefined)
          .then(() => {
            // A later caller may have changed something after this write took the state: it needs another write.
            next = undefined;
            return write();
          });
        last = next;
      }
      await next;
      return true;
    };
  };
  const writeAll = async () => {
    await writeState(path, current());
    await journal.clear();
  };
  const writeEvents = async () => {
    await journal.flush();
    if (journal.bytes > maxJournalBytes) await writeAll();
  };
  return { save: shared(writeAll), saveEvents: shared(writeEvents) };
}
