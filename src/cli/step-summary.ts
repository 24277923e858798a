import { appendFile } from 'node:fs/promises';
import type { JobReport } from '../core/run-report.js';
import { markdownSummary } from '../output/markdown-summary.js';
import type { Output } from './output.js';

/** Adds what a job did to the summary of a build, where CI names a file for it (GITHUB_STEP_SUMMARY). No run fails for that. */
export async function writeStepSummary(report: JobReport, output: Output): Promise<void> {
  const file = process.env.GITHUB_STEP_SUMMARY ?? '';
  if (file === '') return;
  await appendFile(file, markdownSummary(report)).catch((error: NodeJS.ErrnoException) => {
    output.notice(`warning: the summary of this build could not be written: ${error.code}`);
  });
}
