import { expect, test } from 'vitest';
import type { JobPlan, PlannedStream } from '../../../src/engine/plan/job-plan.js';
import { nextAfterPlan } from '../../../src/output/plan.js';

const plan = (error: PlannedStream['error']) => ({ streams: [{ error }] }) as unknown as Pick<JobPlan, 'streams'>;

test('a plan of a run that would fail never points to that run', () => {
  const error = { code: 'unreachable', message: 'no response', hint: null, request_id: null, auth: false };
  expect(nextAfterPlan(plan(error))).toBe('correct it, then: cdsync check');
  expect(nextAfterPlan(plan(null))).toBe('free space, or keep less, then: cdsync plan');
});
