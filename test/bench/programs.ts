import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { JobReport, RunReport } from '../../src/core/run-report.js';
import { measure, type ServedService, type Usage } from './process.js';

/** A run of cdsync with its report. */
export interface Run extends Usage {
  readonly job: JobReport;
  /** Seconds of the slowest stream's extraction. */
  readonly extraction: number;
  /** Seconds from the last page to the end. */
  readonly after: number;
}

/** The cost of a run in one of its phases. Reading, scanning and conversion are at the same time. */
export interface Phase {
  readonly phase: string;
  readonly wall: number;
  readonly cpu: number;
  readonly peakMb: number;
}

/** Runs cdsync for the cost of each phase. That takes samples of its main thread, so it is no run to measure the whole by. */
export async function billOf(
  cdsync: string,
  config: string,
  service: ServedService,
  folder: string,
): Promise<readonly Phase[]> {
  const bill = join(folder, 'bill.json');
  const preload = ['--import', join(import.meta.dirname, 'phases.mjs')];
  await runCdsync(cdsync, config, { ...service, env: { ...service.env, CDSYNC_BENCH_BILL: bill } }, preload);
  return JSON.parse(await readFile(bill, 'utf8')) as readonly Phase[];
}

export async function runCdsync(
  cdsync: string,
  config: string,
  service: ServedService,
  node: readonly string[] = [],
): Promise<Run> {
  const words = [...node, cdsync, 'run', config, '--json', '--quiet'];
  const usage = await measure(process.execPath, words, { env: service.env });
  if (usage.code !== 0) throw new Error(`cdsync run ended with ${usage.code}: ${usage.stderr}${usage.stdout}`);
  const [job] = (JSON.parse(usage.stdout) as RunReport).jobs;
  if (job === undefined) throw new Error('the report has no job');
  const extraction = Math.max(...job.streams.map(({ seconds }) => seconds));
  return { ...usage, job, extraction, after: job.seconds - extraction };
}

/** The plain way to compare with: fetch, JSON.parse, row appender. `database` must be new. */
export async function runPlain(database: string, service: ServedService, pageSize: number): Promise<Usage> {
  const program = join(import.meta.dirname, 'plain.mjs');
  const words = [program, service.url, service.token, service.tenant, database, String(pageSize)];
  const usage = await measure(process.execPath, words);
  if (usage.code !== 0) throw new Error(`the plain way ended with ${usage.code}: ${usage.stderr}`);
  return usage;
}
