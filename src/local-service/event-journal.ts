import { open, readFile, truncate } from 'node:fs/promises';
import { z } from 'zod';
import { CdsyncError } from '../core/errors.js';
import { isRecord } from './realtime/event.js';

const entry = z.object({
  /** Of the service's state; a file that was left behind by another one has another name. */
  journal: z.string(),
  sequence: z.int(),
  tenant: z.string(),
  stream: z.string(),
  /** When it came, in milliseconds since the Unix epoch. */
  at: z.number(),
  event: z.custom<Record<string, unknown>>(isRecord),
});

/** An event that has been accepted. */
export type JournalEntry = z.infer<typeof entry>;

function parsed(line: string): JournalEntry[] {
  try {
    return [entry.parse(JSON.parse(line))];
  } catch {
    // Torn by a crash: it was not on disk, and so it was never accepted.
    return [];
  }
}

/**
 * The events that have been accepted since the state file was last written, in a file beside it: writing all of the state
 * for each event would take the longer the more there were.
 */
export class EventJournal {
  readonly #path: string;
  #waiting: string[] = [];
  #bytes = 0;

  /** @param statePath that of the state file */
  constructor(statePath: string) {
    this.#path = `${statePath}.events`;
  }

  /** How long the file has grown since it was last cleared. */
  get bytes(): number {
    return this.#bytes;
  }

  /** @throws {CdsyncError} `service_state_unreadable` */
  async read(): Promise<JournalEntry[]> {
    try {
      return (await readFile(this.#path, 'utf8')).split('\n').flatMap(parsed);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return [];
      throw new CdsyncError(`the events file ${this.#path} cannot be read`, {
        code: 'service_state_unreadable',
        kind: 'configuration',
        hint: 'remove it to go on without the last events, or make it readable',
        cause: error,
      });
    }
  }

  /** Takes note of an event, which {@link flush} then writes. */
  add(event: JournalEntry): void {
    this.#waiting.push(JSON.stringify(event));
  }

  /** Writes everything that was added before, and waits until it is on disk. Not to be called twice at once. */
  async flush(): Promise<void> {
    const lines = this.#waiting;
    if (lines.length === 0) return;
    this.#waiting = [];
    try {
      const file = await open(this.#path, 'a', 0o600);
      try {
        // A line of its own, whatever a write that failed may have left.
        const text = `\n${lines.join('\n')}\n`;
        await file.writeFile(text);
        await file.datasync();
        this.#bytes += text.length;
      } finally {
        await file.close();
      }
    } catch (error) {
      this.#waiting = [...lines, ...this.#waiting];
      throw error;
    }
  }

  /** Empties the file, once all that is in it stands in the state file too. */
  async clear(): Promise<void> {
    this.#bytes = 0;
    await truncate(this.#path).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'ENOENT') throw error;
    });
  }
}
