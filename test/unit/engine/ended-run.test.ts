import { describe, expect, it } from 'vitest';
import type { WorkflowRun } from '../../../src/api/management-api.js';
import { requireSuccess } from '../../../src/engine/workflow/ended-run.js';

const run = (changes: Partial<WorkflowRun>): WorkflowRun => ({ id: 'wr-1', state: 'started', ...changes });

describe('A run that has not succeeded', () => {
  const error = { type: 'IngestError', message: 'no such feed\u001b[31m', attribution: 'customer' };

  it('fails with type, message and attribution', () => {
    expect(() => requireSuccess(run({ state: 'failed', error }), 'cg-1')).toThrow(
      expect.objectContaining({
        code: 'workflow_failed',
        kind: 'fatal',
        message: 'workflow cg-1 failed (run wr-1): IngestError: no such feed [31m (attribution: customer)',
        hint: expect.stringContaining('of the tenant'),
      }),
    );
  });

  it('fails with the error of its failed task, if the run itself has none', () => {
    const failed = run({ state: 'failed', task_instances: [{ id: 't-1' }, { id: 't-2', error }] });
    expect(() => requireSuccess(failed, 'cg-1')).toThrow('IngestError: no such feed');
  });

  it.each(['stopped', 'canceled'])('fails as well if it was %s, without any reason', (state) => {
    expect(() => requireSuccess(run({ state }), 'cg-1')).toThrow(
      expect.objectContaining({
        code: 'workflow_failed',
        message: `workflow cg-1 ended as ${state} (run wr-1): the service gives no reason`,
      }),
    );
  });
});
