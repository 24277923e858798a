import { randomBytes } from 'node:crypto';
import { open, readFile, rename, rm } from 'node:fs/promises';
import { z } from 'zod';
import { CdsyncError } from '../core/errors.js';
import { savedManagement } from './management/saved-management.js';
import { permissions } from './permissions.js';
import { savedRealtime } from './realtime/saved-realtime.js';

const share = z.number().min(0).max(1);

const savedState = z.object({
  version: z.literal(1),
  /** Undefined if nothing was saved yet. */
  seed: z.int().optional(),
  /** How many profiles the service has; missing in older files. */
  profiles: z.int().optional(),
  timeOffsetMs: z.number(),
  days: z.array(z.object({ updated: share, inserted: share, deleted: share })),
  keys: z.array(
    z.object({
      id: z.string(),
      name: z.string(),
      tenant: z.string(),
      permissions: z.array(z.enum(permissions)),
      clientId: z.string(),
      clientSecret: z.string(),
      secret: z.string(),
      deposed: z.object({ secret: z.string(), at: z.number() }).nullable(),
      rotations: z.int(),
      generation: z.int(),
    }),
  ),
  /** Missing in files from versions without real-time features. */
  realtime: savedRealtime.optional(),
  management: savedManagement.optional(),
});

/** The state kept over restarts: keys, the moved time, the days of changes, the Management API and real-time profiles. */
export type SavedState = z.infer<typeof savedState>;

/** The state of a service that was never started. */
export const noState: SavedState = { version: 1, timeOffsetMs: 0, days: [], keys: [] };

/**
 * Reads a state file; a missing one gives {@link noState}.
 * @throws {CdsyncError} `service_state_unreadable`, `seed_mismatch`
 */
export async function readState(path: string, seed: number): Promise<SavedState> {
  let text: string;
  try {
    text = await readFile(path, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return noState;
    throw unreadable(path, error);
  }
  const state = parse(path, text);
  if (state.seed !== undefined && state.seed !== seed) {
    throw new CdsyncError(`the state file ${path} belongs to a service with seed ${state.seed}, not ${seed}`, {
      code: 'seed_mismatch',
      hint: `start with --seed ${state.seed}, or with another state file`,
    });
  }
  return state;
}

/** Replaces the file in one step; only its owner may read it. */
export async function writeState(path: string, state: SavedState): Promise<void> {
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
    await rm(beside, { force: true });
    throw error;
  }
}

function parse(path: string, text: string): SavedState {
  try {
    return savedState.parse(JSON.parse(text));
  } catch (error) {
    throw unreadable(path, error);
  }
}

function unreadable(path: string, cause: unknown): CdsyncError {
  return new CdsyncError(`the state file ${path} cannot be read`, {
    code: 'service_state_unreadable',
    hint: 'remove it to start without it, or name another file',
    cause,
  });
}
