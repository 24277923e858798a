import { writeFileAtomically } from '../core/durable.js';
import { asCdsyncError, CdsyncError } from '../core/errors.js';
import type { RunReport } from '../core/run-report.js';
import { nearest } from '../core/suggestions.js';
import { damagedReports, pastRuns, readReport, reportedRuns } from '../storage/reports.js';
import { assertNoUntrustedLinks } from '../storage/untrusted-links.js';
import { makeRunPage, type PagesTask, writeIndex } from './write-pages.js';

/** A page that was made again. */
interface RemadePage {
  readonly page: string;
  /** Where it is kept. */
  readonly path: string;
  readonly document: RunReport;
  /** Why it could not be written there; undefined if it was. */
  readonly problem: string | undefined;
}

/**
 * Makes the page about a run again, from stored files. It needs neither the store nor the job's lock.
 * @param wanted the run; undefined for the last one
 * @throws {CdsyncError} `run_not_found`; `state_unreadable` if its report is damaged; those of {@link assertNoUntrustedLinks}
 */
export async function remakePage(task: PagesTask, wanted: string | undefined): Promise<RemadePage> {
  const { layout } = task;
  await assertNoUntrustedLinks(layout);
  const recent = (await pastRuns(layout, 5)).map(({ report }) => report.run_id);
  const runs = await reportedRuns(layout);
  const isShown = (run: string) => (wanted === undefined ? run > (recent[0] ?? '') : run === wanted);
  const [damaged] = await damagedReports(layout, runs.filter(isShown));
  if (damaged !== undefined) throw damaged;
  const runId = wanted ?? recent[0];
  const page = runId === undefined ? undefined : await makeRunPage(task, runId);
  const document = runId === undefined ? undefined : await readReport(layout, runId);
  if (runId === undefined || page === undefined || document === undefined) throw notFound(layout.job, wanted, recent);
  const path = layout.page(runId);
  try {
    await writeFileAtomically(path, page);
    await writeIndex(task, { changed: runId });
    return { page, path, document, problem: undefined };
  } catch (error) {
    return { page, path, document, problem: asCdsyncError(error).message };
  }
}

function notFound(job: string, wanted: string | undefined, recent: readonly string[]): CdsyncError {
  const message =
    wanted === undefined
      ? `no run of job "${job}" has ended yet`
      : `job "${job}" has no report of run ${JSON.stringify(wanted)}`;
  const near = wanted === undefined ? [] : nearest(wanted, recent, 3);
  const known = near.length > 0 ? `did you mean ${near.join(', ')}?` : `the last runs: ${recent.join(', ')}`;
  const hint = recent.length === 0 ? 'next: cdsync run' : known;
  return new CdsyncError(message, { code: 'run_not_found', hint });
}
