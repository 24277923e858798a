import { randomBytes } from 'node:crypto';
import { mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { fileText, fileTexts, sqlTexts } from '../core/sql.js';
import { KnownSet } from '../rows/known-set.js';
import { type StandingRows, seenRows } from '../rows/standing.js';
import {
  type KnownHeader,
  knownPaths,
  promoteKnownFile,
  readKnownFile,
  removeKnownFile,
  writeKnownFile,
} from '../store/known-file.js';
import type { JobLayout } from '../store/layout.js';
import { writeParquet } from '../store/parquet.js';
import { replacedKeys } from './snapshot-files.js';
import type { SnapshotStore } from './snapshot-store.js';
import type { WorkTables } from './unify-parts.js';

/** The rows of a snapshot whose records the next run can recognise. */
export interface KnownRows {
  /** Of the hash, in hex. */
  readonly secret: string;
  readonly separator: KnownHeader['separator'];
  /** Digest of all that decides what becomes of a record's bytes. */
  readonly fingerprint: string;
  readonly standing: StandingRows | null;
  /** The keys files of the parts. */
  readonly keysPaths: readonly string[];
  /** The stream's private folder in the run. */
  readonly folder: string;
  /** When every record was last converted and compared: ISO 8601. */
  readonly verifiedAt: string;
}

/** A stream after its commit, in the session that compared it. */
export interface KnownTask {
  readonly stream: string;
  readonly tables: WorkTables;
  /** What this run has left the next one, nothing new, or nothing at all. */
  readonly known: KnownRows | 'the same' | 'nothing';
  /** Whose rows they are: the store, and the run whose commit of the stream they are of. */
  readonly storeId: string;
  readonly runId: string;
}

/** SQL for (key, raw_hi, raw_lo) of the rows of the new snapshot. */
function rowsNow({ tables }: KnownTask, { keysPaths, standing }: KnownRows): string {
  const selects: string[] = [];
  if (keysPaths.length > 0) {
    const keys = `read_parquet(${fileTexts(keysPaths)}, union_by_name = true)`;
    selects.push(`SELECT k.key, r.raw_hi, r.raw_lo FROM ${tables.keys} AS k
       JOIN (SELECT part, row, raw_hi, raw_lo FROM ${keys} WHERE raw_hi IS NOT NULL) AS r ON k.part = r.part AND k.row = r.row`);
  }
  if (standing !== null)
    selects.push(`SELECT key, raw_hi, raw_lo FROM (${seenRows(standing)}) WHERE key NOT IN (${replacedKeys(tables)})`);
  return selects.length > 0
    ? selects.join(' UNION ALL ')
    : 'SELECT NULL::VARCHAR AS key, NULL::UBIGINT AS raw_hi, NULL::UBIGINT AS raw_lo WHERE false';
}

/** The hashes of a keys file as a set. */
async function setOf({ session }: SnapshotStore, path: string, rows: number): Promise<KnownSet> {
  const set = KnownSet.empty(rows);
  const hash = new Uint32Array(4);
  for await (const [hi, lo] of session.words(`SELECT raw_hi, raw_lo FROM read_parquet(${fileText(path)})`)) {
    if (hi === undefined || lo === undefined) throw new TypeError('two columns were asked for');
    for (let at = 0; at < hi.length; at += 2) {
      hash[0] = hi[at] as number;
      hash[1] = hi[at + 1] as number;
      hash[2] = lo[at] as number;
      hash[3] = lo[at + 1] as number;
      set.add(hash, 0);
    }
  }
  return set;
}

/** Where a known file is written, until it may take its place. */
function nextFolder(folder: string): string {
  return join(folder, 'next');
}

/** Writes a known file of the rows (key, raw_hi, raw_lo) of a query. @returns its id */
async function writeKnown(
  store: SnapshotStore,
  query: string,
  folder: string,
  about: Pick<KnownHeader, 'store_id' | 'run_id' | 'fingerprint' | 'secret' | 'separator' | 'verified_at'>,
): Promise<string> {
  const id = randomBytes(16).toString('hex');
  const next = nextFolder(folder);
  const { image, keys } = knownPaths(next);
  await rm(next, { recursive: true, force: true });
  await mkdir(next, { recursive: true, mode: 0o700 });
  const { rows, sha256, path } = await writeParquet(store.session, query, keys(id), { compression: 'snappy' });
  await writeKnownFile(image, await setOf(store, path, rows), { id, ...about, keys: { rows, sha256 } });
  return id;
}

/** Puts a known file in the place of the one before. */
async function promote(folder: string, known: string, id: string): Promise<void> {
  const next = nextFolder(folder);
  await promoteKnownFile(next, known, id);
  await rm(next, { recursive: true, force: true });
}

/** Puts the next known file in its place, after the commit whose rows it has. */
export type KeepKnown = () => Promise<void>;

/**
 * Writes what the next run recognises records by. Until the commit, the known file before stays. Nothing depends on it but the
 * cost of that run.
 * @throws {CdsyncError} and errors of the file system
 */
export async function prepareKnown(store: SnapshotStore, layout: JobLayout, task: KnownTask): Promise<KeepKnown> {
  const { known } = task;
  const folder = layout.known(task.stream);
  if (known === 'the same') return async () => undefined;
  if (known === 'nothing') return () => removeKnownFile(folder);
  const id = await writeKnown(store, rowsNow(task, known), known.folder, {
    store_id: task.storeId,
    run_id: task.runId,
    fingerprint: known.fingerprint,
    secret: known.secret,
    separator: known.separator,
    verified_at: known.verifiedAt,
  });
  return () => promote(known.folder, folder, id);
}

/** Rows that are erased from a snapshot. */
export interface ForgottenKnown {
  readonly stream: string;
  readonly keys: readonly string[];
  readonly storeId: string;
  /** The commit of the stream before, and the one that erases the rows. */
  readonly before: string;
  readonly runId: string;
  /** A private folder for new files. */
  readonly folder: string;
}

/** Takes erased rows out of what the next run recognises records by. */
export async function forgetKnown(store: SnapshotStore, layout: JobLayout, task: ForgottenKnown): Promise<void> {
  const { stream, keys, storeId, before, runId, folder } = task;
  const known = layout.known(stream);
  const { header } = (await readKnownFile(known, () => undefined).catch(() => undefined)) ?? {};
  if (header === undefined || header.store_id !== storeId || header.run_id !== before) return removeKnownFile(known);
  const all = `FROM read_parquet(${fileText(knownPaths(known).keys(header.id))})`;
  const { fingerprint, secret, separator, verified_at } = header;
  const about = { store_id: storeId, run_id: runId, fingerprint, secret, separator, verified_at };
  const left = `SELECT key, raw_hi, raw_lo ${all} WHERE key NOT IN (SELECT unnest(${sqlTexts(keys)}))`;
  // Whatever becomes of the new file, the old one must go.
  await writeKnown(store, left, folder, about)
    .then((id) => promote(folder, known, id))
    .catch(() => removeKnownFile(known));
}
