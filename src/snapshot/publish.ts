import { readdir, rename, rm } from 'node:fs/promises';
import { basename, dirname, join, relative } from 'node:path';
import { ColumnSet } from '../columns/columns.js';
import {
  linkOrCopy,
  setMode,
  statOrUndefined,
  syncFolder,
  temporaryName,
  writeFileAtomically,
} from '../core/durable.js';
import { CdsyncError } from '../core/errors.js';
import { runIdPattern, runIdStamp } from '../core/run-report.js';
import type { Database } from '../storage/duckdb.js';
import type { JobLayout } from '../storage/layout.js';
import { folderMode, makeFolder, namesIn } from '../storage/storage.js';
import { publishFeed } from './feed.js';
import { type Manifest, readManifest } from './manifest.js';
import { publishDatabase } from './publish-database.js';
import { swapCurrentLink } from './snapshot-folder.js';
import type { StoreState } from './snapshot-store.js';
import type { CommittedFile, StreamState } from './stream-state.js';

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

/** Moves a new file to its place; a file of an earlier snapshot stays there too. */
async function placeFile(layout: JobLayout, stream: string, file: CommittedFile, mode: number): Promise<void> {
  const target = join(layout.stream(stream), file.path);
  const source = join(layout.folder, file.from);
  const isShared = file.from.startsWith(`${relative(layout.folder, layout.parquet)}/`);
  const isThere = (await statOrUndefined(target)) !== undefined || layout.remoteFiles?.find(target) !== undefined;
  if (isShared && (isThere || layout.remoteFiles?.share(source, target))) return;
  if ((await statOrUndefined(source)) !== undefined) {
    if (isShared) return linkOrCopy(source, target, temporaryName(join(layout.stream(stream), basename(target))));
    await setMode(source, mode);
    return rename(source, target);
  }
  if (isThere) return;
  throw new CdsyncError(`${target} is missing, and so is the file it is made from`, {
    code: 'snapshot_incomplete',
    stream,
    hint: `run again with --full, which writes stream "${stream}" again`,
  });
}

/** The files that took the place of earlier changes, as far as these are kept. */
function rewrittenFiles({ rewritten_changes }: StreamState, { changesBefore }: PublishOptions): CommittedFile[] {
  const oldest = runIdStamp(Date.parse(changesBefore));
  const kept = rewritten_changes?.commits.filter(({ run_id }) => run_id >= oldest) ?? [];
  return kept.flatMap(({ files }) => files);
}

/** Puts the files of a stream's last commit where readers look for them. Repeating it does no harm. */
async function promote(layout: JobLayout, state: StreamState, options: PublishOptions): Promise<void> {
  const { mode } = options;
  const files = [...state.snapshot, ...state.changes, ...rewrittenFiles(state, options)];
  const folders = new Set(files.map(({ path }) => dirname(join(layout.stream(state.stream), path))));
  const above = [layout.stream(state.stream), ...[...folders].map(dirname)];
  for (const folder of new Set([...above, ...folders])) await makeFolder(folder, folderMode(mode));
  for (const file of files) await placeFile(layout, state.stream, file, mode);
  for (const folder of folders) {
    await syncFolder(folder);
    await syncFolder(dirname(folder));
  }
}

/** The manifest of a stream's last commit. */
export function manifestOf(state: StreamState): Manifest {
  return {
    version: 1,
    stream: state.stream,
    run_id: state.run_id,
    sequence: state.sequence,
    schema: ColumnSet.restore(state.columns).list.map(({ name, fileType: type, form }) => ({
      name,
      type,
      ...(form?.format === undefined ? {} : { format: form.format }),
    })),
    rows: state.rows,
    files: state.snapshot.map(({ path, rows, bytes, sha256 }) => ({ path, rows, bytes, sha256 })),
  };
}

async function pruneSnapshots(layout: JobLayout, state: StreamState, keep: number): Promise<void> {
  const folder = layout.snapshots(state.stream);
  const runFolders = (await readdir(folder)).filter((name) => runIdPattern.test(name)).sort();
  // Ids after that of the newest snapshot are of a clock that was ahead: those runs are older.
  const isAhead = (run: string) => run > state.run_id;
  const runs = [...runFolders.filter(isAhead), ...runFolders.filter((run) => !isAhead(run))];
  const inUse = new Set(state.snapshot.map(({ path }) => path.split('/')[1]));
  const unused = runs.filter((run) => !inUse.has(run));
  const old = state.rewritten ? unused : unused.slice(0, Math.max(0, unused.length + 1 - keep));
  for (const run of old) await rm(join(folder, run), { recursive: true, force: true });
}

async function pruneChanges(layout: JobLayout, state: StreamState, options: PublishOptions): Promise<void> {
  const folder = dirname(layout.changes(state.stream, state.run_id));
  const oldest = runIdStamp(Date.parse(options.changesBefore));
  const rewritten = new Set(rewrittenFiles(state, options).map(({ path }) => join(layout.stream(state.stream), path)));
  for (const name of await namesIn(folder)) {
    if (!runIdPattern.test(name) || name === state.run_id || (name >= oldest && !state.rewritten)) continue;
    const files = (await readdir(join(folder, name))).map((file) => join(folder, name, file));
    if (!files.some((file) => rewritten.has(file))) await rm(join(folder, name), { recursive: true, force: true });
    else for (const file of files) if (!rewritten.has(file)) await rm(file, { force: true });
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
  if (isNew) await promote(layout, state, options);
  await swapCurrentLink(layout, state);
  if (isNew) {
    await writeFileAtomically(layout.manifest(state.stream), `${JSON.stringify(manifest, null, 1)}\n`, options.mode);
  }
  // Update the feed first: it must never name a file that is already removed.
  await feed();
  await pruneSnapshots(layout, state, options.keepSnapshots);
  // Without a new commit, the feed still names these files.
  if (isNew) await pruneChanges(layout, state, options);
}

/**
 * Updates all published files from the store. Repeating it does no harm, so it also repairs them: a DuckDB file
 * that someone has written to since is published again.
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
  await publishDatabase(database, layout, state, { ...options, keepsEarlier: !isRewritten });
}
