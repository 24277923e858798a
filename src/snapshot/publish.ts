import { constants } from 'node:fs';
import { copyFile, readdir, readlink, rename, rm, symlink, utimes } from 'node:fs/promises';
import { dirname, join, relative } from 'node:path';
import { CdsyncError } from '../core/errors.js';
import { runIdPattern, runIdStamp } from '../core/run.js';
import { ColumnSet } from '../rows/columns.js';
import { type Database, readThrough } from '../store/duckdb.js';
import {
  renameDurably,
  setMode,
  statsIfThere,
  syncFile,
  syncFolder,
  temporaryName,
  writeFileAtomically,
} from '../store/durable.js';
import type { JobLayout } from '../store/layout.js';
import { type Manifest, readManifest } from '../store/manifest.js';
import { folderMode, makeFolder } from '../store/storage.js';
import { publishFeed } from './publish-feed.js';
import type { CommittedFile, StoreState, StreamState } from './snapshot-store.js';

export interface PublishOptions {
  /** Whether to publish the DuckDB file. */
  readonly duckdb: boolean;
  /** Permissions of the published files. */
  readonly mode: number;
  /** How many snapshots of a stream stay as Parquet files, including the newest. */
  readonly keepSnapshots: number;
  /** Parquet files with the changes of runs that began before this time are removed: ISO 8601. */
  readonly changesBefore: string;
  /** Whether to write the DuckDB file again although it is already published. */
  readonly again?: boolean;
}

async function moveFile(layout: JobLayout, stream: string, file: CommittedFile, mode: number): Promise<void> {
  const target = join(layout.stream(stream), file.path);
  const source = join(layout.folder, file.from);
  if ((await statsIfThere(source)) !== undefined) {
    await setMode(source, mode);
    await rename(source, target);
    return;
  }
  if ((await statsIfThere(target)) !== undefined) return;
  throw new CdsyncError(`${target} is missing, and so is the file it is made from`, {
    code: 'snapshot_incomplete',
    stream,
    hint: `run again with --full, which writes stream "${stream}" anew`,
  });
}

/** Moves the files of a stream's last commit to where readers look for them. Repeating it does no harm. */
async function promote(layout: JobLayout, state: StreamState, { mode }: PublishOptions): Promise<void> {
  const files = [...state.snapshot, ...state.changes];
  const folders = new Set(files.map(({ path }) => dirname(join(layout.stream(state.stream), path))));
  const above = [layout.stream(state.stream), ...[...folders].map(dirname)];
  for (const folder of new Set([...above, ...folders])) await makeFolder(folder, folderMode(mode));
  for (const file of files) await moveFile(layout, state.stream, file, mode);
  for (const folder of folders) {
    await syncFolder(folder);
    await syncFolder(dirname(folder));
  }
}

function manifestOf(state: StreamState): Manifest {
  return {
    version: 1,
    stream: state.stream,
    run_id: state.run_id,
    sequence: state.sequence,
    schema: ColumnSet.restore(state.columns).list.map(({ name, fileType }) => ({ name, type: fileType })),
    rows: state.rows,
    files: state.snapshot.map(({ path, rows, bytes, sha256 }) => ({ path, rows, bytes, sha256 })),
  };
}

async function pruneSnapshots(layout: JobLayout, state: StreamState, keep: number): Promise<void> {
  const folder = layout.snapshots(state.stream);
  const runs = (await readdir(folder)).filter((name) => runIdPattern.test(name)).sort();
  const inUse = new Set(state.snapshot.map(({ path }) => path.split('/')[1]));
  const unused = runs.filter((run) => !inUse.has(run));
  const old = state.rewritten ? unused : unused.slice(0, Math.max(0, unused.length + 1 - keep));
  for (const run of old) await rm(join(folder, run), { recursive: true, force: true });
}

async function pruneChanges(layout: JobLayout, state: StreamState, before: string): Promise<void> {
  const folder = dirname(layout.changes(state.stream, state.run_id));
  const oldest = runIdStamp(Date.parse(before));
  for (const name of await readdir(folder).catch(() => [])) {
    if (!runIdPattern.test(name) || name === state.run_id || (name >= oldest && !state.rewritten)) continue;
    await rm(join(folder, name), { recursive: true, force: true });
  }
}

/** Promotes one stream's last commit and points its manifest to it, unless that is already done. Then removes old files. */
async function publishStream(
  layout: JobLayout,
  store: StoreState,
  state: StreamState,
  options: PublishOptions,
): Promise<void> {
  const feed = () => publishFeed(layout, store, state, runIdStamp(Date.parse(options.changesBefore)));
  if (state.snapshot.length === 0) return feed();
  const current = await readManifest(layout.manifest(state.stream)).catch(() => undefined);
  const manifest = manifestOf(state);
  const isNew = JSON.stringify(current) !== JSON.stringify(manifest) || state.rewritten === true;
  if (isNew) {
    await promote(layout, state, options);
    await writeFileAtomically(layout.manifest(state.stream), `${JSON.stringify(manifest, null, 1)}\n`, options.mode);
  }
  // Update the feed first: it must never name a file that is already removed.
  await feed();
  await pruneSnapshots(layout, state, options.keepSnapshots);
  // Without a new commit, the feed still names these files.
  if (isNew) await pruneChanges(layout, state, options.changesBefore);
}

/** A version of the DuckDB file. */
interface Version {
  readonly sequence: number;
  /** When its last change was synced, in whole seconds since 1970: the modification time that cdsync gives the file. */
  readonly changedAt: number;
}

function versionOf({ sequence, streams }: StoreState): Version {
  const times = [...streams.values()].map(({ synced_at }) => Date.parse(synced_at));
  return { sequence, changedAt: Math.floor(Math.max(0, ...times) / 1000) };
}

/** The logs that DuckDB writes beside a file before it changes it: one for each name of the file. */
export function publishedLogs(layout: JobLayout, sequence: number): string[] {
  return [layout.link, layout.published(sequence)].map((path) => `${path}.wal`);
}

/** Whether the link leads to this version, and nobody has written to the file since. */
async function isPublished(layout: JobLayout, { sequence, changedAt }: Version): Promise<boolean> {
  const target = layout.published(sequence);
  if ((await readlink(layout.link).catch(() => undefined)) !== relative(layout.folder, target)) return false;
  for (const log of publishedLogs(layout, sequence)) if ((await statsIfThere(log)) !== undefined) return false;
  return (await statsIfThere(target))?.mtimeMs === changedAt * 1000;
}

/**
 * Publishes a copy of the store as the file that people open. The link is swapped by a rename, so everyone who opens it gets
 * one whole version. The previous version stays for those who have it open. The store must not be attached anywhere.
 */
async function publishDatabase(
  database: Database,
  layout: JobLayout,
  version: Version,
  { mode, keepsEarlier, again }: PublishOptions & { readonly keepsEarlier: boolean },
): Promise<void> {
  const { sequence, changedAt } = version;
  if (again !== true && (await isPublished(layout, version))) return prunePublished(layout, sequence, keepsEarlier);
  const target = layout.published(sequence);
  const copy = temporaryName(target);
  try {
    // If the file system can share blocks, the copy takes no space.
    await copyFile(layout.store, copy, constants.COPYFILE_FICLONE | constants.COPYFILE_EXCL);
    await utimes(copy, changedAt, changedAt);
    await syncFile(copy);
    // Only now: the mode may forbid writing.
    await setMode(copy, mode);
    // A block that went bad on the disk must not replace one that people can still read.
    await readThrough(database, copy);
    // DuckDB would apply the log of an earlier file of this name to the new file.
    for (const log of publishedLogs(layout, sequence)) await rm(log, { force: true });
    await renameDurably(copy, target);
  } catch (error) {
    await rm(copy, { force: true });
    throw error;
  }
  const link = temporaryName(layout.link);
  await symlink(relative(layout.folder, target), link);
  await renameDurably(link, layout.link);
  await prunePublished(layout, sequence, keepsEarlier);
}

/** Keeps the version that the link points to and, for those who have it open, the one before. Removes all others. */
async function prunePublished(layout: JobLayout, sequence: number, keepsEarlier: boolean): Promise<void> {
  const names = await readdir(layout.publishedFolder);
  const numberOf = (name: string) => Number(/^(\d+)\.duckdb(\.wal)?$/.exec(name)?.[1] ?? Number.NaN);
  const earlier = Math.max(...names.map(numberOf).filter((version) => version < sequence));
  for (const name of names) {
    const version = numberOf(name);
    if (Number.isNaN(version) || version === sequence || (keepsEarlier && version === earlier)) continue;
    await rm(join(layout.publishedFolder, name), { force: true });
  }
}

/**
 * Brings all published files up to date with the store. Repeating it does no harm, so it also repairs them: a DuckDB file
 * that somebody has written to since is published again.
 * @throws {CdsyncError} `state_unreadable` if the store is damaged: the files published before stay
 */
export async function publish(
  database: Database,
  layout: JobLayout,
  state: StoreState,
  options: PublishOptions,
): Promise<void> {
  for (const stream of state.streams.values()) await publishStream(layout, state, stream, options);
  // All restored files are in their place by now. Anything left here was begun by a run that broke off.
  await rm(layout.restored, { recursive: true, force: true });
  if (!options.duckdb || state.sequence === 0) return;
  const isRewritten = [...state.streams.values()].some(
    ({ rewritten, sequence }) => rewritten === true && sequence === state.sequence,
  );
  await publishDatabase(database, layout, versionOf(state), { ...options, keepsEarlier: !isRewritten });
}
