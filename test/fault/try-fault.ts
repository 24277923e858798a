import { readdir, readlink } from 'node:fs/promises';
import { join } from 'node:path';
import type { RunReport } from '../../src/core/run-report.js';
import type { Ended } from '../fixtures/workspace.js';
import type { Baseline, Expected } from './baseline.js';
import type { Ending, Fault } from './fault.js';
import type { Lane, RunOptions } from './lane.js';
import { type Published, readDestination, readParquet, readPublished } from './published.js';
import type { Random } from './random.js';
import { kinds, listed, runsOf } from './residue.js';
import { job, streamNames } from './situations.js';

/** Something that a fault must not do. */
export class Broken extends Error {}

function require(holds: boolean, says: string): asserts holds {
  if (!holds) throw new Broken(says);
}

async function readable<T>(what: string, read: Promise<T>): Promise<T> {
  return read.catch((error) => {
    throw new Broken(`${what} cannot be read: ${error.message}`);
  });
}

/** Whether a print equals the state before or after; a mixture is neither. */
function versionOf<T>(found: T, before: T | undefined, after: T | undefined): 'before' | 'after' | 'none' {
  const text = JSON.stringify(found);
  if (text === JSON.stringify(after)) return 'after';
  return text === JSON.stringify(before) ? 'before' : 'none';
}

/** The print of a table that was created but not yet filled. */
const noRows = '0 rows';

/** After a fault, readers see the snapshot from before or after the run, each stream whole. */
export async function expectWhole(lane: Lane, fault: Fault, { before, after }: Expected): Promise<void> {
  if (fault.harms !== 'published') {
    const published = await readable('the published file', readPublished(lane.jobFolder));
    require(published !== undefined || before === undefined, 'the published file is missing');
    if (published !== undefined && fault.moves !== true)
      expectVersions(lane, published, before?.published, after.published);
    if (published !== undefined) expectFolded(published);
  }
  const there = await readable('the destination', readDestination(lane.destination));
  for (const [stream, rows] of there) {
    const known = [before?.destination.get(stream), after.destination.get(stream), noRows];
    require(fault.moves === true ||
      known.some(
        (each) => each !== undefined && rows.startsWith(each),
      ), `${stream} at the destination is neither snapshot: ${rows}`);
  }
  if (fault.harms === 'parquet') return;
  const parquet = await readable('a Parquet snapshot', readParquet(lane.jobFolder));
  for (const [stream, { rows }] of parquet) {
    const known = [before?.parquet.get(stream)?.rows, after.parquet.get(stream)?.rows];
    require(fault.moves === true || known.includes(rows), `Parquet of ${stream} is neither snapshot: ${rows}`);
  }
}

function expectVersions(lane: Lane, published: Published, before: Published | undefined, after: Published): void {
  const versions = new Map<string, string>();
  for (const stream of streamNames) {
    const found = published.streams.get(stream);
    const version = versionOf(found, before?.streams.get(stream), after.streams.get(stream));
    require(version !== 'none', `${stream} is neither snapshot: ${JSON.stringify(found)}`);
    versions.set(stream, version);
  }
  const isSame = versionOf(before?.streams.get('tiers'), undefined, after.streams.get('tiers')) === 'after';
  require(isSame ||
    lane.hasFailed('tiers') ||
    versions.get('tiers') === versions.get('members'), 'tiers were computed of other members');
}

/** Applied one after the other, the changes give the rows. */
function expectFolded({ streams }: Published): void {
  for (const [stream, { rows, folded }] of streams)
    require(rows === folded, `the changes of ${stream} make ${folded}, but there are ${rows}`);
}

/**
 * Checks how a run with a fault ended, unless it was killed: its exit code fits, it wrote one document, each error has
 * a specific code, and standard error is not empty.
 */
export function expectEnding(ended: Ended): Ending {
  const { code, stdout, stderr } = ended;
  if (code === null) return { ...ended, errors: [] };
  let document: { status?: string };
  try {
    document = JSON.parse(stdout);
  } catch {
    throw new Broken(`exit ${code} without a document: ${stdout}${stderr}`);
  }
  const errors = [...stdout.matchAll(/"code": ?"([a-z_]+)"/g)].map(([, found]) => found as string);
  const vague = errors.filter((error) => error === 'unexpected' || error === 'database_failed');
  require(vague.length === 0, `an error without a specific code: ${stdout}${stderr}`);
  require(code !== 0 || document.status === 'ok', `exit 0, but ${document.status}`);
  require(code === 0 || stderr.trim() !== '', `exit ${code}, but standard error is empty`);
  return { ...ended, errors };
}

/** Error codes of a run that do not follow from the fault: none of `codes`, and not about a destination. */
export function otherErrors({ errors }: Ending, codes: readonly string[]): string[] {
  return errors.filter((error) => ![...codes, 'dependency'].includes(error) && !error.startsWith('destination_'));
}

/** After the next run, rows, changes, history and files equal those of an undisturbed storage folder. */
export async function expectDone(lane: Lane, fault: Fault, { after }: Expected): Promise<void> {
  const published = await readable('the published file', readPublished(lane.jobFolder));
  require(published !== undefined, 'nothing is published');
  const parquet = await readable('a Parquet snapshot', readParquet(lane.jobFolder));
  for (const stream of streamNames) {
    const [found, wanted] = [published.streams.get(stream), after.published.streams.get(stream)];
    if (fault.moves === true) expectSame(`rows of ${stream}`, found?.rows, wanted?.rows);
    else expectSame(stream, found, wanted);
    const files = parquet.get(stream);
    expectSame(`Parquet rows of ${stream}`, files?.rows, after.parquet.get(stream)?.rows);
    if (fault.moves !== true) expectSame(`Parquet of ${stream}`, files, after.parquet.get(stream));
  }
  expectFolded(published);
  const there = await readable('the destination', readDestination(lane.destination));
  expectSame('the destination', [...there], [...after.destination]);
  await expectNoResidue(lane, published, after.kinds, fault);
}

function expectSame(what: string, found: unknown, wanted: unknown): void {
  const [is, should] = [JSON.stringify(found), JSON.stringify(wanted)];
  require(is === should, `${what}: ${is}, where an undisturbed run has ${should}`);
}

async function expectNoResidue(
  lane: Lane,
  published: Published,
  wanted: ReadonlySet<string>,
  fault: Fault,
): Promise<void> {
  const files = await listed(lane.storage);
  const found = kinds(files);
  // A list that moves is read by several runs: the later ones have changes of their own.
  const isOfMore = (name: string) => fault.moves === true && /^[^/]+\/parquet\/[^/]+\/changes/.test(name);
  const surplus = [...found].filter((name) => !wanted.has(name) && !isOfMore(name));
  const missing = [...wanted].filter((name) => !found.has(name));
  require(surplus.length === 0, `left behind: ${surplus.join(', ')}`);
  require(missing.length === 0, `missing: ${missing.join(', ')}`);
  const strangers = [...runsOf(files)].filter((run) => !published.runs.has(run));
  require(strangers.length === 0, `Parquet files of runs that never committed: ${strangers.join(', ')}`);
  const versions = await readdir(join(lane.jobFolder, 'published'));
  const link = await readlink(join(lane.jobFolder, `${job}.duckdb`));
  require(versions.length <= 2, `${versions.length} versions are kept: ${versions.join(', ')}`);
  require(versions.includes(link.split('/')[1] ?? ''), `the link points to ${link}`);
  // The budget that the machine shares lies in such a folder, and outlives every process.
  const temporary = (await listed(join(lane.folder, 'tmp'))).filter((name) => !/^cdsync-\d+(\/|$)/.test(name));
  const remote = [...temporary, ...(await listed(join(lane.folder, 'home')))];
  require(remote.length === 0, `left outside of the storage folder: ${remote.join(', ')}`);
}

/** A run that nothing disturbs any more. @returns whether it resumed an earlier one */
async function expectOk(lane: Lane, options?: RunOptions): Promise<{ readonly resumed: boolean }> {
  const { code, stdout, stderr } = await lane.run(options);
  require(code === 0, `the next run ended with ${code}: ${stderr}${stdout}`);
  const { jobs } = JSON.parse(stdout) as RunReport;
  return { resumed: jobs.some((each) => each.resumed) };
}

/**
 * Tries one fault: it strikes, published files stay whole, and after the next run the storage folder equals one that was
 * never disturbed.
 * @returns whether it struck
 * @throws {Broken} with the promise that the fault broke
 */
export async function tryFault(baseline: Baseline, lane: Lane, fault: Fault, random: Random): Promise<boolean> {
  const expected = baseline.expected(fault.situation);
  await baseline.arrange(lane, fault.situation);
  try {
    const struck = await fault.strike(lane, random);
    await expectWhole(lane, fault, expected);
    await fault.mend?.(lane);
    await lane.calm();
    const { resumed } = await expectOk(lane, fault.next);
    // The resumed run keeps the pages from before the change. Only the run after it finds records that were deleted since.
    if (fault.moves === true && resumed) await expectOk(lane);
    await expectDone(lane, fault, expected);
    return struck;
  } finally {
    await fault.leave?.(lane);
  }
}
