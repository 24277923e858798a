import { mkdir, readFile, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { fileText } from '../../core/sql.js';
import { writeFileAtomically } from '../../storage/durable.js';
import type { JobLayout } from '../../storage/layout.js';

/** A row that a destination refused. */
export interface Reject {
  /** The text of the key column or, for several, a JSON list of their texts; null if a part of the key is missing. */
  readonly key: string | null;
  readonly column: string | null;
  readonly reason: string;
  /** The run that brought the row. */
  readonly run_id: string;
  /** Whether a report has told of it. Left out, also in files of older versions: yes. */
  readonly told?: false;
}

/** Rows of a stream that a destination has refused and that wait for another try. */
export interface Waiting {
  readonly all: number;
  /** Those that no report has told of. */
  readonly untold: number;
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

/** How many refused rows wait for another try. */
export async function countRejects(layout: JobLayout, destination: string, stream: string): Promise<Waiting> {
  return waitingIn(await readRejects(rejectsPath(layout, destination, stream)));
}

export function waitingIn(rejects: readonly Reject[]): Waiting {
  return { all: rejects.length, untold: rejects.filter(({ told }) => told === false).length };
}

function identity({ key, column, reason }: Reject): string {
  return JSON.stringify([key, column, reason]);
}

/**
 * The rejects of a load, each marked with whether a report has told of the same one before: of the same key, for the same
 * reason in the same column.
 * @param before the file as it was
 */
export function withTold(rejects: readonly Reject[], before: readonly Reject[]): Reject[] {
  const standing = new Map<string, number>();
  for (const reject of before) {
    if (reject.told !== false) standing.set(identity(reject), (standing.get(identity(reject)) ?? 0) + 1);
  }
  return rejects.map(({ key, column, reason, run_id }) => {
    const reject = { key, column, reason, run_id };
    // Rows without a key are told apart by their number alone.
    const left = standing.get(identity(reject)) ?? 0;
    standing.set(identity(reject), left - 1);
    return left > 0 ? reject : { ...reject, told: false };
  });
}

/** Marks all rejects of a file as told. */
export async function tellRejects(path: string): Promise<void> {
  const rejects = await readRejects(path);
  if (rejects.every(({ told }) => told !== false)) return;
  await writeRejects(
    path,
    rejects.map(({ told: _, ...reject }) => reject),
  );
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
  return `SELECT DISTINCT key FROM read_json(${fileText(path)}, format = 'newline_delimited', columns = ${columns}) WHERE key IS NOT NULL`;
}
