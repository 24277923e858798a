import { chmodSync, mkdirSync, mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { nextStep } from '../../../src/cli/next-step.js';
import { newRunId } from '../../../src/core/run-report.js';

const runId = '20261103T021500Z-9f3a1c';

/** A job with one report. */
function jobWith(status: string, streams: string[]): { storage: string; reports: string } {
  const storage = mkdtempSync(join(tmpdir(), 'cdsync-next-'));
  const reports = join(storage, 'nightly', 'reports');
  mkdirSync(reports, { recursive: true });
  const job = {
    job: 'nightly',
    run_id: runId,
    sequence: 1,
    status,
    streams: streams.map((each, index) => ({ name: `s${index}`, status: each })),
  };
  writeFileSync(join(reports, `${runId}.json`), JSON.stringify({ status, jobs: [job], error: null }));
  return { storage, reports };
}

const next = (storage: string) => nextStep({ code: 1, storage, job: 'nightly' });

describe('the last line of a failure', () => {
  it.each([
    ['ok', ['ok'], /the last good snapshot is/],
    ['held', ['ok', 'held'], /the last good snapshot is/],
    ['interrupted', ['ok', 'skipped'], /the last good snapshot is/],
    ['held', ['held'], /there is no good snapshot yet/],
    ['failed', ['failed'], /there is no good snapshot yet/],
  ])('after a run that is %s, with streams %j, is %s', async (status, streams, line) => {
    expect(await next(jobWith(status, streams).storage)).toMatch(line);
  });

  it('does not count a run whose commit is not published', async () => {
    const { storage, reports } = jobWith('ok', ['ok']);
    const error = { code: 'storage_permission', message: 'committed, but not published', hint: null, request_id: null };
    const job = { job: 'nightly', run_id: runId, sequence: 1, status: 'partial', streams: [{ status: 'ok', error }] };
    writeFileSync(join(reports, `${runId}.json`), JSON.stringify({ status: 'partial', jobs: [job], error: null }));
    expect(await next(storage)).toBe('next: cdsync run (there is no good snapshot yet)');
  });

  it('is about the stream that is meant, in hours or longer, and says no age after a usage error', async () => {
    const hour = 3_600_000;
    const { storage, reports } = jobWith('ok', ['ok', 'ok']);
    for (const [hours, statuses] of [
      [80, ['ok', 'ok']],
      [30, ['ok', 'failed']],
      [5, ['ok', 'failed']],
    ] as const) {
      const id = newRunId(Date.now() - hours * hour - 60_000);
      const streams = statuses.map((status, index) => ({ name: `s${index}`, status, error: null }));
      const job = { job: 'nightly', run_id: id, sequence: 1, status: 'partial', streams };
      writeFileSync(join(reports, `${id}.json`), JSON.stringify({ status: 'partial', jobs: [job], error: null }));
    }
    const of = (streams: string[] | undefined, errorCode = 'forbidden') =>
      nextStep({ code: 5, errorCode, storage, job: 'nightly', streams });
    expect(await of(['s1'])).toMatch(/\(the last good snapshot of s1 is 3 nights old\)$/);
    expect(await of(['s0'])).toMatch(/\(the last good snapshot of s0 is 5 hours old\)$/);
    expect(await of(['s0', 's1'])).toMatch(/\(the last good snapshot of s1 is 3 nights old\)$/);
    expect(await of(['s2'])).toMatch(/\(there is no good snapshot of s2 yet\)$/);
    expect(await of(undefined)).toMatch(/\(the last good snapshot is 5 hours old\)$/);
    for (const code of ['usage', 'stream_not_found']) expect(await of(undefined, code)).not.toMatch(/good snapshot/);
    expect(await of([])).not.toMatch(/good snapshot/);
  });

  it.skipIf(process.getuid?.() === 0)('says nothing of reports that this user may not read', async () => {
    const { storage } = jobWith('ok', ['ok']);
    chmodSync(join(storage, 'nightly'), 0);
    expect(await next(storage)).toBe('next: cdsync run');
  });

  const toRights = 'see what the key may do: cdsync check';
  it.each([
    ['usage', 'state', 2, 'see: cdsync state --help'],
    ['sql_not_allowed', 'query', 2, 'correct the SQL; the tables: cdsync query "show tables"'],
    ['definition_changed', 'run', 1, 'if that is meant: cdsync run --accept'],
    ['state_unreadable', 'run', 1, 'do what the message says (docs/recovery.md has more), then: cdsync verify'],
    ['index_not_found', 'run', 1, 'correct the stream in the configuration, then: cdsync check'],
    ['sql_failed', 'run', 1, 'correct the SQL, then: cdsync check'],
    ['service_unavailable', 'run', 1, 'wait until the service answers: cdsync check'],
    ['unreachable', 'run', 5, 'correct `base_url` or the network, then: cdsync check'],
    ['column_unknown', 'run', 3, /^correct the name under `columns:`, then: cdsync run; /],
    ['column_unknown', 'push', 5, 'correct the name under `columns:`, then: cdsync check'],
    ['forbidden', 'run', 5, toRights],
    ['destination_permission', 'run', 5, toRights],
    ['config_invalid', 'run', 2, 'correct the file, then: cdsync check'],
    ['partition_not_found', 'state reset', 2, 'see the parts: cdsync state show'],
    ['interrupted', 'plan', 130, 'next: cdsync plan'],
    ['interrupted', 'run', 130, 'next: cdsync run'],
    ['interrupted', 'query', 130, 'next: cdsync status'],
  ])('after %s of %s (exit code %i) is: %s', async (errorCode, command, code, line) => {
    expect(await nextStep({ errorCode, command, code, undelivered: code !== 130 })).toEqual(
      typeof line === 'string' ? line : expect.stringMatching(line),
    );
  });

  it('says nothing of an age where the folder of reports is none', async () => {
    const storage = mkdtempSync(join(tmpdir(), 'cdsync-next-'));
    writeFileSync(join(storage, 'nightly'), '');
    expect(await next(storage)).toBe('next: cdsync run');
    expect(await next(join(storage, 'none'))).toBe('next: cdsync run (there is no good snapshot yet)');
  });
});
