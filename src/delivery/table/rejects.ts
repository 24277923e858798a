import { mkdir, readFile, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { OutgoingRecord } from '../../sdk/destination.js';
import { writeFileAtomically } from '../../storage/durable.js';
import type { JobLayout } from '../../storage/layout.js';

/** A value that a destination cannot hold: it is NULL there. If it is a part of the key, the row is not there. */
export interface Reject {
  /** The text of the key column or, for several, a JSON list of their texts; null if a part of the key is missing. */
  readonly key: string | null;
  readonly column: string | null;
  readonly reason: string;
  /** The run that brought the row. */
  readonly run_id: string;
  /** How a record would have been sent. Left out where rows are loaded. */
  readonly op?: OutgoingRecord['op'] | undefined;
}

/** The file of the values of a stream that a destination cannot hold, one JSON object a line. */
export function rejectsPath(layout: JobLayout, destination: string, stream: string): string {
  return join(layout.delivery(destination), 'rejects', `${stream}.jsonl`);
}

/** Reads a file of rejects; none if it does not exist. */
export async function readRejects(path: string): Promise<Reject[]> {
  const text = await readFile(path, 'utf8').catch(() => '');
  return text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as Reject);
}

/** Replaces a file of rejects; without rejects, removes it. */
export async function writeRejects(path: string, rejects: readonly Reject[]): Promise<void> {
  if (rejects.length === 0) return rm(path, { force: true });
  await mkdir(dirname(path), { recursive: true, mode: 0o700 });
  await writeFileAtomically(path, rejects.map((reject) => `${JSON.stringify(reject)}\n`).join(''));
}
