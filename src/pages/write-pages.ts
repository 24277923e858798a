import { readdir, readFile, rm } from 'node:fs/promises';
import { writeFileAtomically } from '../core/durable.js';
import { runIdPattern } from '../core/run-report.js';
import type { DestinationStatus } from '../delivery/lag-words.js';
import { readHeld } from '../storage/held.js';
import type { JobLayout } from '../storage/layout.js';
import { type PastRun, pastRuns, readPastRun } from '../storage/reports.js';
import { readColumnFigures } from './column-figures.js';
import { indexPage, indexRow, listedRuns, rowsOf } from './index-page.js';
import { runPage } from './run-page.js';
import { plottedRuns } from './trends.js';

/** Pages that are kept; `cdsync report RUN` makes those of older runs again. */
const keptPages = 400;

/** The job whose pages are made. */
export interface PagesTask {
  readonly layout: JobLayout;
  /** The configuration file, for commands that people paste. */
  readonly file: string;
  readonly destinations: readonly { readonly name: string; readonly streams: readonly string[] }[];
  /** Milliseconds since the Unix epoch. */
  readonly now: number;
}

/** The ids of a job's runs that have a file of this kind, oldest first. */
async function runsWith({ remoteFiles }: JobLayout, folder: string, ending: string): Promise<string[]> {
  const present = await readdir(folder).catch(() => [] as string[]);
  const names = [...present, ...(remoteFiles?.names(folder) ?? [])];
  const ids = names.filter((name) => name.endsWith(ending)).map((name) => name.slice(0, -ending.length));
  return ids.filter((id) => runIdPattern.test(id)).sort();
}

async function stillHeld(layout: JobLayout, { report }: PastRun): Promise<Set<string>> {
  const held = new Set<string>();
  for (const { name, status } of report.streams ?? [])
    if (status === 'held' && (await readHeld(layout, report.run_id, name)) !== undefined) held.add(name);
  return held;
}

async function statusesOf({ layout, destinations }: PagesTask): Promise<readonly DestinationStatus[] | undefined> {
  if (destinations.length === 0) return [];
  const { destinationStatuses } = await import('../delivery/destination-status.js');
  return destinationStatuses(layout, destinations).catch(() => undefined);
}

/** The page about a run, from stored files; undefined if there is no report of the run that can be read. */
export async function makeRunPage(task: PagesTask, runId: string): Promise<string | undefined> {
  const { layout, file, now } = task;
  const run = await readPastRun(layout, runId);
  if (run === undefined) return undefined;
  const past = await pastRuns(layout, plottedRuns, runId);
  const before = past.filter(({ report }) => report.run_id !== runId).slice(0, plottedRuns - 1);
  return runPage({
    past: [run, ...before],
    figures: await readColumnFigures(layout, runId),
    held: await stillHeld(layout, run),
    destinations: await statusesOf(task),
    place: { config: file, envFile: run.report.env_file, jobs: [layout.job] },
    now,
  });
}

/** Rows of runs that the last page listed are taken from it: reading every report of a job would take longer with each run. */
export async function writeIndex(
  { layout, now }: PagesTask,
  { changed }: { changed: string | undefined },
): Promise<void> {
  const runsOf = (ending: string) => runsWith(layout, layout.reports, ending);
  const [runs, pages] = [await runsOf('.json'), new Set(await runsOf('.html'))];
  const past = await pastRuns(layout, plottedRuns);
  const rowCounts = rowsOf(await readFile(layout.indexPage, 'utf8').catch(() => ''));
  const fresh = new Map(past.map((run) => [run.report.run_id, run]));
  const rows: string[] = [];
  // Runs whose clock was ahead are not the last ones.
  const order = new Set([...fresh.keys(), ...runs.slice(-listedRuns).reverse()]);
  for (const runId of order) {
    const kept = rowCounts.get(runId);
    const isCurrent = kept !== undefined && runId !== changed && kept.includes('<a ') === pages.has(runId);
    const run = fresh.get(runId) ?? (isCurrent ? undefined : await readPastRun(layout, runId));
    const before = past.slice(past.findIndex(({ report }) => report.run_id === runId) + 1);
    if (run !== undefined) rows.push(indexRow(run, pages.has(runId), fresh.has(runId) ? before : []));
    else if (isCurrent) rows.push(kept);
  }
  const older = Math.max(0, runs.length - listedRuns);
  await writeFileAtomically(layout.indexPage, indexPage({ job: layout.job, past, rows, older, now }));
}

/** Removes what belongs to reports that are gone, and the oldest pages. */
async function removeOld({ layout }: PagesTask): Promise<void> {
  const kept = new Set((await runsWith(layout, layout.reports, '.json')).slice(-keptPages));
  const pages = (await runsWith(layout, layout.reports, '.html')).map((runId) => [runId, layout.page(runId)] as const);
  const figures = await runsWith(layout, layout.figuresFolder, '.json');
  for (const [runId, path] of [...pages, ...figures.map((id) => [id, layout.figures(id)] as const)]) {
    if (kept.has(runId)) continue;
    await rm(path, { force: true });
    layout.remoteFiles?.drop(path);
  }
}

/** Makes the page of a run and the one that lists all runs, and removes old ones. */
export async function writePages(task: PagesTask, runId: string): Promise<void> {
  const page = await makeRunPage(task, runId);
  if (page !== undefined) await writeFileAtomically(task.layout.page(runId), page);
  await removeOld(task);
  await writeIndex(task, { changed: runId });
}
