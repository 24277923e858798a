import { describe, expect, it } from 'vitest';
import { isUnfinishedRun, plainState } from '../../../src/sources/workflow-run-state.js';

describe('The state of a workflow run or an ingest job', () => {
  it.each(['scheduled', 'started', 'in progress', 'IN_PROGRESS', 'In-Progress', 'stopping', 'a new word', '', null, 7])(
    '%j may still change',
    (state) => {
      expect(isUnfinishedRun(state)).toBe(true);
    },
  );

  it.each(['succeeded', 'SUCCEEDED', ' Failed ', 'stopped', 'canceled', 'cancelled', 'CANCELLED', 'Skipped'])(
    '%j is final',
    (state) => {
      expect(isUnfinishedRun(state)).toBe(false);
    },
  );

  it('has one spelling, whatever the service writes', () => {
    expect(['IN_PROGRESS', 'in  progress', 'Cancelled', 'canceled'].map(plainState)).toEqual([
      'in progress',
      'in progress',
      'canceled',
      'canceled',
    ]);
  });
});
