import { mkdir, readFile, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { sqlText } from '../core/sql.js';
import { writeFileAtomically } from '../store/durable.js';
import type { JobLayout } from '../store/layout.js';

/** A row that a destination did not take. */
export interface Reject {
  /** The key: the key column's text, or a JSON list of texts where several make the key; null where a part of it is missing. */
  readonly key: string | null;
  readonly column: string | null;
  readonly reason: string;
  /** Of the run that brought the row. */
  readonly run_id: string;
}

/** The file of the rows that a destination has refused of a stream, one JSON object a line. */
export function rejectsPath(layout: JobLayout, destination: string, stream: string): string {
  return join(layout.delivery(destination), 'rejects', `${stream}.jsonl`);
}

/** What is kept of a file of rejects. */
export async function readRejects(path: string): Promise<Reject[]> {
  const text = await readFile(path, 'utf8').catch(() => '');
  return text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as Reject);
}

/** Rows that wait for another try. */
export async function countRejects(layout: JobLayout, destination: string, stream: string): Promise<number> {
  const text = await readFile(rejectsPath(layout, destination, stream), 'utf8').catch(() => '');
  return text.split('\n').length - 1;
}

/** Replaces what is kept; no rejects, no file. */
export async function writeRejects(path: string, rejects: readonly Reject[]): Promise<void> {
  if (rejects.length === 0) return rm(path, { force: true });
  await mkdir(dirname(path), { recursive: true, mode: 0o700 });
  await writeFileAtomically(path, rejects.map((reject) => `${JSON.stringify(reject)}\n`).join(''));
}

/** A query of the keys in a file of rejects. */
export function rejectedKeys(path: string): string {
  const columns = "{'key': 'VARCHAR', 'column': 'VARCHAR', 'reason': 'VARCHAR', 'run_id': 'VARCHAR'}";
  return `SELECT DISTINCT key FROM read_json(${sqlText(path)}, format = 'newline_delimited', columns = ${columns}) WHERE key IS NOT NULL`;
}
