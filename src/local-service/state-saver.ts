import type { EventJournal } from './event-journal.js';
import type { ServiceState } from './service-state.js';
import { writeState } from './state-file.js';

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
export function stateSaver(state: ServiceState, path: string, journal: EventJournal): StateSaver {
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
    await writeState(path, state.saved());
    await journal.clear();
  };
  const writeEvents = async () => {
    await journal.flush();
    if (journal.bytes > maxJournalBytes) await writeAll();
  };
  return { save: shared(writeAll), saveEvents: shared(writeEvents) };
}
