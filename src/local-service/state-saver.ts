import type { EventJournal } from './event-journal.js';
import type { ServiceState } from './service-state.js';
import { writeState } from './state-file.js';

/** Makes what has changed last over restarts; false where the service keeps nothing. */
export interface StateSaver {
  /** Everything. */
  save(): Promise<boolean>;
  /** Events that have been accepted. */
  saveEvents(): Promise<boolean>;
}

export const savesNothing: StateSaver = { save: async () => false, saveEvents: async () => false };

const maxJournalBytes = 16 * 1024 * 1024;

/** Saves to the state file and the journal beside it, one write after the other; all who wait for the next one share it. */
export function stateSaver(state: ServiceState, path: string, journal: EventJournal): StateSaver {
  let last: Promise<void> = Promise.resolve();
  const shared = (write: () => Promise<void>) => {
    let next: Promise<void> | undefined;
    return async () => {
      if (next === undefined) {
        next = last
          .catch(() => undefined)
          .then(() => {
            // Who comes from here on may have changed what is being written.
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
