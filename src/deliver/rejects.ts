import { mkdir, readFile, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { sqlText } from '../core/sql.js';
import { writeFileAtomically } from '../store/durable.js';
import type { JobLayout } from '../store/layout.js';

/** A row that a destination refused. */
export interface Reject {
  /** The text of the key column or, for several, a JSON list of their texts; null if a part of the key is missing. */
  readonly key: string | null;
  readonly column: string | null;
  readonly reason: string;
  /** The run that brought the row. */
  readonly run_id: string;
}

/** The file of the rows of a stream that a destination refused, one JSON object a line. */
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

/** Number of refused rows that wait for another try. */
export async function countRejects(layout: JobLayout, destination: string, stream: string): Promise<number> {
  const text = await readFile(rejectsPath(layout, destination, stream), 'utf8').catch(() => '');
  return text.split('\n').length - 1;
}

/** Replaces a file of rejects; without rejects, removes it. */
export async function writeRejects(path: string, rejects: readonly Reject[]): Promise<void> {
  if (rejects.length === 0) return rm(path, { force: true });
  await mkdir(dirname(path), { recursive: true, mode: 0o700 });
  await writeFileAtomically(path, rejects.map((reject) => `${JSON.stringify(reject)}\n`).join(''));
}

/** SQL for the keys in a file of rejects. */
export function rejectedKeys(path: string): string {
  const columns = "{'key': 'VARCHAR', 'column': 'VARCHAR', 'reason': 'VARCHAR', 'run_id': 'VARCHAR'}";
  return `SELECT DISTINCT key FROM read_json(${sqlText(path)}, format = 'newline_delimited', columns = ${columns}) WHERE key IS NOT NULL`;
}
