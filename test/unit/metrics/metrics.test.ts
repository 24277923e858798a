import { mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { JobSummary } from '../../../src/config/config.js';
import { families, prometheusName, samplesOf } from '../../../src/metrics/samples.js';
import { keepSamples } from '../../../src/metrics/stored-samples.js';
import { writeTextFile } from '../../../src/metrics/text-file.js';
import type { RunResult } from '../../../src/notify/result.js';
import { JobLayout } from '../../../src/storage/layout.js';
import { figureOf, readExposition } from '../../fixtures/exposition.js';
import { destinationReport, runEnd, streamReport } from '../../fixtures/run-ends.js';

let folder: string;
let textfile: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'cdsync-metrics-'));
  textfile = join(folder, 'collector', 'cdsync.prom');
});
afterEach(() => rm(folder, { recursive: true }));

/** A job with these streams, delivered to `warehouse`. */
function jobOf(name: string, streams = ['members']): JobSummary {
  const named = streams.map((each) => ({ name: each, source: 'index_profiles' }));
  return { name, streams: named, destinations: [{ name: 'warehouse', streams, sendsDeletes: true }] };
}

/** Stores the samples of a run that ends, and writes the text file, as a run does. */
async function measure(end: Partial<RunResult>, { job = jobOf('nightly'), jobs = ['nightly'] } = {}): Promise<void> {
  const layout = new JobLayout(folder, job.name);
  await mkdir(layout.private, { recursive: true });
  const run = samplesOf(runEnd({ job: job.name, ...end }), []);
  const { kept } = await keepSamples(layout, { job, textfile, run, now: 1_000 });
  const jobSummaries = jobs.map((name) => ({ name, streams: [], destinations: [] }));
  await writeTextFile({ storage: folder, jobSummaries }, textfile, { job: job.name, kept });
}

const exposed = async () => readExposition(await readFile(textfile, 'utf8'));

describe('the text file for Prometheus', () => {
  it('has the figures of a run, with units in their names', async () => {
    await measure({ destinations: [destinationReport({ refused: 2 })] });
    const found = await exposed();
    const job = { job: 'nightly' };
    expect(figureOf(found, 'cdsync_run_duration_seconds', job)).toBe(90);
    expect(figureOf(found, 'cdsync_last_success_timestamp_seconds', job)).toBe(
      Date.parse('2026-11-03T02:16:30Z') / 1000,
    );
    expect(figureOf(found, 'cdsync_run_status', { ...job, status: 'ok' })).toBe(1);
    expect(figureOf(found, 'cdsync_run_status', { ...job, status: 'failed' })).toBe(0);
    expect(figureOf(found, 'cdsync_stream_rows', { ...job, stream: 'members' })).toBe(1000);
    expect(figureOf(found, 'cdsync_stream_run_changes', { ...job, stream: 'members', operation: 'update' })).toBe(20);
    expect(figureOf(found, 'cdsync_stream_received_bytes_total', { ...job, stream: 'members' })).toBe(50_000);
    expect(figureOf(found, 'cdsync_destination_refused', { ...job, destination: 'warehouse', stream: 'members' })).toBe(
      2,
    );
    expect([...found.keys()]).toEqual(families.map(prometheusName));
  });

  it('counts a record that could not be kept once, also if a later run resumes the reading', async () => {
    const stream = { job: 'nightly', stream: 'members' };
    await measure({ status: 'failed', streams: [streamReport({ status: 'failed', rejected: 2 })] });
    const sent = { requests: 1, retries: 0, throttled: 0, pages: 1, bytes: 9, seconds: 1 };
    const process = { ...sent, rejected: 1, missing: 0 };
    await measure({ resumed: true, streams: [streamReport({ rejected: 3, process })] });
    expect(figureOf(await exposed(), 'cdsync_stream_rejected_total', stream)).toBe(3);
  });

  it('is replaced by rename, with a mode that other users may read, and leaves nothing beside it', async () => {
    const before = process.umask(0o077);
    try {
      await measure({});
    } finally {
      process.umask(before);
    }
    expect((await stat(textfile)).mode & 0o777).toBe(0o644);
    expect((await stat(join(folder, 'collector'))).mode & 0o777).toBe(0o755);
    const { ino } = await stat(textfile);
    await measure({});
    expect((await stat(textfile)).ino).not.toBe(ino);
    expect(await readdir(join(folder, 'collector'))).toEqual(['cdsync.prom']);
  });

  it('counts over runs, and keeps figures that a run does not report', async () => {
    const streams = ['members', 'vip'];
    const job = jobOf('nightly', streams);
    await measure({ streams: streams.map((name) => streamReport({ name })) }, { job });
    await measure({ streams: [streamReport({ status: 'held', rows: 5, deleted: 995 })], status: 'held' }, { job });
    await measure({ status: 'failed', streams: [], finishedAt: Date.parse('2026-11-04T02:15:00Z') }, { job });
    const found = await exposed();
    const members = { job: 'nightly', stream: 'members' };
    expect(figureOf(found, 'cdsync_runs_total', { status: 'failed' })).toBe(1);
    expect(figureOf(found, 'cdsync_runs_total', { status: 'ok' })).toBe(1);
    expect(figureOf(found, 'cdsync_stream_requests_total', members)).toBe(8);
    expect(figureOf(found, 'cdsync_stream_changes_total', { ...members, operation: 'delete' })).toBe(1);
    // Held: the snapshot is still the one before.
    expect(figureOf(found, 'cdsync_stream_rows', members)).toBe(1000);
    expect(figureOf(found, 'cdsync_stream_rows', { ...members, stream: 'vip' })).toBe(1000);
    expect(figureOf(found, 'cdsync_stream_status', { ...members, status: 'held' })).toBe(1);
    expect(figureOf(found, 'cdsync_last_success_timestamp_seconds', {})).toBe(
      Date.parse('2026-11-03T02:16:30Z') / 1000,
    );
  });

  it('forgets streams and deliveries that the job no longer has', async () => {
    await measure(
      { streams: ['members', 'vip'].map((name) => streamReport({ name })) },
      { job: jobOf('nightly', ['members', 'vip']) },
    );
    await measure({}, { job: jobOf('nightly', ['members']) });
    expect(await readFile(textfile, 'utf8')).not.toContain('vip');
  });

  it('is shared by the jobs of a configuration, also if they end at once', async () => {
    const jobs = ['a', 'b', 'c', 'd'];
    for (let round = 1; round <= 5; round += 1) {
      await Promise.all(jobs.map((name) => measure({}, { job: jobOf(name), jobs })));
      const found = await exposed();
      for (const job of jobs) expect(figureOf(found, 'cdsync_runs_total', { job, status: 'ok' })).toBe(round);
    }
    // A job that was removed goes with the next run of another.
    await measure({}, { job: jobOf('a'), jobs: ['a', 'b'] });
    expect(await readFile(textfile, 'utf8')).not.toContain('job="c"');
  });

  it.each([
    '',
    '{"version":1',
    '{"version":1,"since":1,"textfile":null,"samples":[{"name":"odd","labels":{},"value":1}]}',
  ])('starts to count from zero if the stored samples are damaged (%j)', async (damaged) => {
    await measure({});
    await writeFile(new JobLayout(folder, 'nightly').metrics, damaged);
    await measure({});
    expect(figureOf(await exposed(), 'cdsync_runs_total', { status: 'ok' })).toBe(1);
  });

  it('of another configuration stays as it is, and the run says so', async () => {
    await measure({});
    const theirs = await readFile(textfile, 'utf8');
    const other = join(folder, 'other');
    const job = jobOf('weekly');
    const layout = new JobLayout(other, job.name);
    await mkdir(layout.private, { recursive: true });
    const run = samplesOf(runEnd({ job: job.name }), []);
    const { kept } = await keepSamples(layout, { job, textfile, run, now: 1 });
    const write = () => writeTextFile({ storage: other, jobSummaries: [job] }, textfile, { job: job.name, kept });
    await expect(write()).rejects.toMatchObject({
      code: 'metrics_shared',
      message: expect.stringMatching(/job nightly/),
    });
    expect(await readFile(textfile, 'utf8')).toBe(theirs);
    await rm(textfile);
    await write();
    expect(await readFile(textfile, 'utf8')).toContain('job="weekly"');
  });

  it('of another configuration stays as it is also if both have a job of the same name, until the other one is gone', async () => {
    await measure({});
    const theirs = await readFile(textfile, 'utf8');
    const other = join(folder, 'other');
    const job = jobOf('nightly');
    const layout = new JobLayout(other, job.name);
    await mkdir(layout.private, { recursive: true });
    const { kept } = await keepSamples(layout, { job, textfile, run: samplesOf(runEnd(), []), now: 1 });
    const write = () => writeTextFile({ storage: other, jobSummaries: [job] }, textfile, { job: job.name, kept });
    await expect(write()).rejects.toMatchObject({ message: expect.stringContaining(`storage ${folder}`) });
    expect(await readFile(textfile, 'utf8')).toBe(theirs);
    await rm(new JobLayout(folder, 'nightly').folder, { recursive: true });
    await write();
    await expect(measure({})).rejects.toMatchObject({ code: 'metrics_shared' });
  });

  it('of a version that named no storage folder is taken over by the configuration that has its jobs', async () => {
    await measure({});
    const text = await readFile(textfile, 'utf8');
    await writeFile(textfile, text.slice(text.indexOf('\n') + 1));
    await measure({});
    expect(figureOf(await exposed(), 'cdsync_runs_total', { status: 'ok' })).toBe(2);
    expect(await readFile(textfile, 'utf8')).toMatch(/^# cdsync /);
  });

  it('is written even if nothing can be kept', async () => {
    const job = jobOf('nightly');
    const run = samplesOf(runEnd(), []);
    const { kept, error } = await keepSamples(new JobLayout(folder, 'nightly'), { job, textfile, run, now: 1 });
    expect(error).toMatchObject({ code: 'ENOENT' });
    await writeTextFile({ storage: folder, jobSummaries: [job] }, textfile, { job: 'nightly', kept });
    expect(figureOf(await exposed(), 'cdsync_runs_total', { status: 'ok' })).toBe(1);
  });
});
