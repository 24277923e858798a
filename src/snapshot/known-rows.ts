import { randomBytes } from 'node:crypto';
import { mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { sqlText, sqlTexts } from '../core/sql.js';
import { KnownSet } from '../rows/known-set.js';
import { type StandingRows, seenRows } from '../rows/standing.js';
import {
  type KnownHeader,
  knownPaths,
  promoteKnownFile,
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
  /** The known file that the reading went by; undefined: every record was converted. */
  readonly base: KnownHeader | undefined;
  /** Digest of all that decides what becomes of a record's bytes. */
  readonly fingerprint: string;
  readonly standing: StandingRows | null;
  /** The keys files of the parts. */
  readonly keysPaths: readonly string[];
  /** The stream's private folder in the run. */
  readonly folder: string;
  /** When the run began, which converted every record unless there is a `base`: ISO 8601. */
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
    const keys = `read_parquet(${sqlTexts(keysPaths)}, union_by_name = true)`;
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
  for await (const [hi, lo] of session.words(`SELECT raw_hi, raw_lo FROM read_parquet(${sqlText(path)})`)) {
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

async function writeKnown(store: SnapshotStore, layout: JobLayout, task: KnownTask, known: KnownRows): Promise<void> {
  const { secret, separator, fingerprint, folder, base, verifiedAt } = known;
  const id = randomBytes(16).toString('hex');
  const next = join(folder, 'next');
  const { image, keys } = knownPaths(next);
  await mkdir(next, { recursive: true, mode: 0o700 });
  const { rows, sha256, path } = await writeParquet(store.session, rowsNow(task, known), keys(id), {
    compression: 'snappy',
  });
  await writeKnownFile(image, await setOf(store, path, rows), {
    id,
    store_id: task.storeId,
    run_id: task.runId,
    fingerprint,
    secret,
    separator,
    verified_at: base?.verified_at ?? verifiedAt,
    keys: { rows, sha256 },
  });
  await promoteKnownFile(next, layout.known(task.stream), id);
}

/**
 * After a commit, leaves what the next run recognises records by. Nothing depends on it but the cost of that run.
 * @throws {CdsyncError} and errors of the file system: then nothing is left, and the next run converts every record
 */
export async function keepKnown(store: SnapshotStore, layout: JobLayout, task: KnownTask): Promise<void> {
  const { known } = task;
  if (known === 'the same') return;
  const folder = layout.known(task.stream);
  try {
    if (known === 'nothing') await removeKnownFile(folder);
    else await writeKnown(store, layout, task, known);
  } catch (error) {
    await removeKnownFile(folder).catch(() => undefined);
    throw error;
  } finally {
    if (typeof known === 'object') await rm(join(known.folder, 'next'), { recursive: true, force: true });
  }
}
