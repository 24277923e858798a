import { open, readFile, truncate } from 'node:fs/promises';
import { CdsyncError } from '../core/errors.js';
import { z } from '../core/zod.js';
import { isRecord } from './realtime/event.js';

const entry = z.object({
  /** The name of the service state that the event belongs to; a leftover file of another state has another name. */
  journal: z.string(),
  sequence: z.int(),
  tenant: z.string(),
  stream: z.string(),
  /** When it arrived, in milliseconds since the Unix epoch. */
  at: z.number(),
  event: z.custom<Record<string, unknown>>(isRecord),
});

/** An event that has been accepted. */
export type JournalEntry = z.infer<typeof entry>;

function parsed(line: string): JournalEntry[] {
  try {
    return [entry.parse(JSON.parse(line))];
  } catch {
    // A crash tore the line: it never reached the disk as a whole, so the service never accepted the event.
    return [];
  }
}

/**
 * The events accepted since the state file was last written, in a file beside it. To write the whole state for each event
 * would take longer with every event.
 */
export class EventJournal {
  readonly #path: string;
  #waiting: string[] = [];
  #bytes = 0;

  /** @param statePath path of the state file */
  constructor(statePath: string) {
    this.#path = `${statePath}.events`;
  }

  /** Roughly how many bytes were written since the file was last cleared. */
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
        hint: 'remove it to continue without the last events, or make it readable',
        cause: error,
      });
    }
  }

  /** Adds an event for {@link flush} to write. */
  add(event: JournalEntry): void {
    this.#waiting.push(JSON.stringify(event));
  }

  /** Writes every added event and waits until they are on disk. Call it again only after it has finished. */
  async flush(): Promise<void> {
    const lines = this.#waiting;
    if (lines.length === 0) return;
    this.#waiting = [];
    try {
      const file = await open(this.#path, 'a', 0o600);
      try {
        // Starts with a line break, in case a failed write has left half a line.
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

  /** Empties the file. Call it only after the state file holds every event in it. */
  async clear(): Promise<void> {
    this.#bytes = 0;
    await truncate(this.#path).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'ENOENT') throw error;
    });
  }
}
