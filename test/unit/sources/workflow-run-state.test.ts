import { describe, expect, it } from 'vitest';
import { ingestJobs } from '../../../src/sources/ingest-jobs.js';
import { isUnfinishedRun, plainState, workflowRuns } from '../../../src/sources/workflow-runs.js';

describe('The state of a workflow run or an ingest job', () => {
  it.each(['scheduled', 'started', 'in progress', 'IN_PROGRESS', 'In-Progress', 'stopping', 'a new word', '', null, 7])(
    '%j may still change',
    (state) => {
      expect(isUnfinishedRun({ state })).toBe(true);
    },
  );

  it.each(['succeeded', 'SUCCEEDED', ' Failed ', 'stopped', 'canceled', 'cancelled', 'CANCELLED', 'Skipped'])(
    '%j is final',
    (state) => {
      expect(isUnfinishedRun({ state })).toBe(false);
    },
  );

  it('that is unknown is final once there is a time of its end', () => {
    const ended = { state: 'timed out', ended_at: '2026-11-22T00:00:00Z' };
    expect(isUnfinishedRun(ended)).toBe(false);
    expect(isUnfinishedRun({ ...ended, ended_at: null })).toBe(true);
    expect(workflowRuns.isUnfinished?.(ended)).toBe(false);
    expect(workflowRuns.watched).toContain('ended_at');
    expect(ingestJobs.isUnfinished?.({ tables: [ended, { state: 'skipped' }] })).toBe(false);
    expect(ingestJobs.isUnfinished?.({ tables: [ended, { state: 'timed out' }, null] })).toBe(true);
  });

  it('has one spelling, whatever the service writes', () => {
    expect(['IN_PROGRESS', 'in  progress', 'Cancelled', 'canceled'].map(plainState)).toEqual([
      'in progress',
      'in progress',
      'canceled',
      'canceled',
    ]);
  });
});
