import { expect, test } from 'vitest';
import type { JobPlan, PlannedStream } from '../../../src/engine/plan/job-plan.js';
import { nextAfterPlan, planLines } from '../../../src/output/plan.js';

const plan = (error: PlannedStream['error']) => ({ streams: [{ error }] }) as unknown as Pick<JobPlan, 'streams'>;

test('a plan of a run that would fail never points to that run', () => {
  const error = { code: 'unreachable', message: 'no response', hint: null, request_id: null, auth: false };
  expect(nextAfterPlan(plan(error))).toBe('correct it, then: cdsync check');
  expect(nextAfterPlan(plan(null))).toBe('free space, or keep less, then: cdsync plan');
});

test('one of a thing is named in the singular', () => {
  const disk = { need: { staging: 1, parts: 1, store: 1, published: 1, total: 4 }, free: 1e12, short: 'no' };
  const stream = {
    ...{ name: 'a', source: 'index_profiles', reads: 'list', records: 1, snapshot_rows: null, pages: 1, requests: 1 },
    ...{ seconds: 1, chains: 1, held: null, needs: [], error: null, split: null },
    resumes: { run_id: 'r', records: 1, pages: 1 },
    sample: {
      records: 1,
      rejected: 1,
      new: null,
      changed: null,
      unchanged: null,
      columns_added: [],
      columns_widened: [],
    },
  };
  const job = {
    ...{ status: 'ok', job: 'nightly', sequence: null, running: null, workflows: [], streams: [stream], requests: 1 },
    ...{ budgets: [{ group: 'management', limit: 10, other_processes: 0, requests: 1, seconds: 0.1 }], seconds: 1 },
    ...{ disk, notes: [] },
  };
  const text = planLines(job as unknown as JobPlan).join('\n');
  expect(text).toContain('a: 1 record of the sample could not be kept');
  expect(text).toContain('which has read 1 record in 1 page');
  expect(text).toContain('Management API: 1 request at 10 a second: 0.1 s at least');
  expect(text).not.toMatch(/\b1 (requests|records|pages)\b/);
});
