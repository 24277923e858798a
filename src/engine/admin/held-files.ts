import { readdir, readlink } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { sha256OfFile } from '../../core/durable.js';
import { CdsyncError } from '../../core/errors.js';
import { quoteIdentifier, sqlText, sqlTexts } from '../../core/sql.js';
import { nearest } from '../../core/suggestions.js';
import { readManifest } from '../../snapshot/manifest.js';
import { assertOwnTables } from '../../snapshot/store-integrity.js';
import type { Session } from '../../storage/duckdb.js';
import {
  assertHeldFiles,
  damagedHeld,
  type HeldStream,
  heldRejectsPath,
  heldStreams,
  heldUnreadable,
  isHeldChanges,
} from '../../storage/held.js';
import type { JobLayout } from '../../storage/layout.js';
import { rejectsIn } from '../../storage/part.js';

/** The changes of a held stream, and the snapshot that it was compared with, as SQL for a session of DuckDB. */
export interface HeldFiles {
  readonly held: HeldStream;
  /** Rows with `_op`; undefined if the run would change nothing. */
  readonly changes: string | undefined;
  /** Rows of that snapshot; undefined if there was none. */
  readonly before: string | undefined;
  /** Records that could not be kept, and values that did not fit. */
  readonly rejects: readonly HeldReject[];
}

/** As `cdsync.rejects` has it. */
interface HeldReject {
  readonly key: string | null;
  readonly column: string | null;
  readonly reason: string;
}

/** @throws {CdsyncError} `not_held`; it names the held streams; `state_unreadable` */
async function findHeld(
  layout: JobLayout,
  streams: readonly string[],
  { runId, stream }: { runId: string; stream: string },
): Promise<HeldStream> {
  const all = await heldStreams(layout, streams);
  const heldStream = all.find((held) => held.run_id === runId && held.stream === stream);
  if (heldStream !== undefined) return heldStream;
  const damaged = (await damagedHeld(layout, [stream])).find((held) => held.run_id === runId);
  if (damaged !== undefined) throw heldUnreadable(damaged);
  const knownNames = all.map((held) => `${held.run_id} ${held.stream}`);
  const near = nearest(`${runId} ${stream}`, knownNames, 1);
  throw new CdsyncError(`nothing of stream "${stream}" is held of run ${runId}`, {
    code: 'not_held',
    hint:
      knownNames.length === 0 ? 'nothing is held at all' : `held: ${(near.length > 0 ? near : knownNames).join(', ')}`,
  });
}

async function before(layout: JobLayout, { stream, run_id, previous }: HeldStream): Promise<string | undefined> {
  if (previous === null) return undefined;
  const manifest = await readManifest(layout.manifest(stream)).catch(() => undefined);
  if (manifest === undefined) {
    // Without Parquet, only the published database has the rows.
    await layout.remoteFiles?.download(join(layout.folder, await readlink(layout.link)));
    return `(SELECT * FROM published.${quoteIdentifier(stream)})`;
  }
  if (manifest.sequence !== previous.sequence) {
    throw new CdsyncError(`stream "${stream}" has moved on since run ${run_id} was held`, {
      code: 'held_outdated',
      stream,
      hint: `discard it and run again: cdsync discard ${run_id}`,
    });
  }
  const paths: string[] = [];
  for (const { path: name, sha256 } of manifest.files) {
    const path = join(layout.stream(stream), name);
    await layout.remoteFiles?.download(path);
    // DuckDB reads an altered value of a Parquet file without an error.
    if ((await sha256OfFile(path).catch(() => undefined)) !== sha256)
      throw new CdsyncError(`${path} is damaged: its checksum is not that of the manifest`, {
        code: 'snapshot_incomplete',
        hint: 'cdsync run --full writes it again from the store',
      });
    paths.push(path);
  }
  return `read_parquet(${sqlTexts(paths)}, union_by_name = true)`;
}

/**
 * The files of a held stream. It locks nothing and writes nothing. If the job is in a bucket, only these files are downloaded.
 * @throws {CdsyncError} `not_held`, `held_outdated`, errors of the bucket
 */
export async function heldFiles(
  layout: JobLayout,
  streams: readonly string[],
  wanted: { runId: string; stream: string },
): Promise<HeldFiles> {
  const held = await findHeld(layout, streams, wanted);
  const folder = layout.streamRun(held.run_id, held.stream);
  const all = new Set([...(await readdir(folder)), ...(layout.remoteFiles?.names(folder) ?? [])]);
  const rejectsFile = heldRejectsPath(layout, held.run_id, held.stream);
  const hasRejects = all.has(basename(rejectsFile));
  if (hasRejects) await layout.remoteFiles?.download(rejectsFile);
  const names = [...all].filter(isHeldChanges);
  const paths = names.sort().map((name) => join(folder, name));
  for (const path of paths) await layout.remoteFiles?.download(path);
  await assertHeldFiles(layout, held, isHeldChanges);
  return {
    held,
    changes: paths.length === 0 ? undefined : `read_parquet(${sqlTexts(paths)}, union_by_name = true)`,
    before: await before(layout, held),
    rejects: hasRejects ? ((await rejectsIn(rejectsFile)) as HeldReject[]) : [],
  };
}

/** Attaches the published database, for {@link HeldFiles.before} of a job without Parquet. @throws {CdsyncError} `storage_altered` */
export async function attachPublished(session: Session, { link }: JobLayout): Promise<void> {
  await session.run(`ATTACH ${sqlText(link)} AS published (READ_ONLY)`);
  await assertOwnTables({ session, path: link, database: 'published' });
}
