import { expect, test } from 'vitest';
import { statusOf } from '../../../src/engine/run/run-status.js';

const ends = {
  committed: { commit: {}, isHeld: false, waits: false, outcome: { error: undefined } },
  held: { commit: undefined, isHeld: true, waits: false, outcome: { error: undefined } },
  waiting: { commit: undefined, isHeld: false, waits: true, outcome: { error: new Error() } },
  failed: { commit: undefined, isHeld: false, waits: false, outcome: { error: new Error() } },
};

test.each<[(keyof typeof ends)[], string]>([
  [['committed', 'committed'], 'ok'],
  [['committed', 'held'], 'held'],
  [['committed', 'held', 'waiting'], 'held'],
  [['failed', 'failed'], 'failed'],
  [['failed', 'held'], 'failed'],
  [['failed', 'committed'], 'partial'],
  [['failed', 'held', 'committed'], 'partial'],
])('a run with streams that are %j ends as %s', (streams, status) => {
  expect(statusOf(streams.map((end) => ends[end]))).toBe(status);
});
