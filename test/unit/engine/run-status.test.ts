import { expect, test } from 'vitest';
import type { RunStatus } from '../../../src/core/run-report.js';
import { statusOf, statusOfDeliveries, statusWithDestinations } from '../../../src/engine/run/run-status.js';

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

const deliveries = {
  rows: { status: 'ok', rows: 5 },
  nothing: { status: 'ok', rows: 0 },
  some: { status: 'partial', rows: 2 },
  failed: { status: 'failed', rows: 0 },
  skipped: { status: 'skipped', rows: 0 },
  untried: { status: 'not_tried', rows: 0 },
} as const;

test.each<[RunStatus, (keyof typeof deliveries)[], RunStatus]>([
  ['ok', ['rows', 'nothing'], 'ok'],
  ['ok', ['rows', 'skipped'], 'partial'],
  ['ok', ['rows', 'untried'], 'partial'],
  ['held', ['nothing', 'untried'], 'held'],
  ['failed', ['untried'], 'failed'],
  ['ok', ['rows', 'failed'], 'partial'],
  ['ok', ['failed'], 'partial'],
  ['ok', ['some'], 'partial'],
  ['held', ['nothing'], 'held'],
  ['held', ['failed'], 'failed'],
  ['held', ['rows', 'failed'], 'partial'],
  ['failed', ['nothing'], 'failed'],
  ['failed', ['failed'], 'failed'],
  ['failed', ['rows'], 'partial'],
  ['partial', ['rows'], 'partial'],
  ['interrupted', ['failed'], 'interrupted'],
])('a run that ended as %s ends as a whole, with deliveries that are %j, as %s', (status, names, whole) => {
  const destinations = names.map((name) => deliveries[name]);
  expect(statusWithDestinations(status, destinations)).toBe(whole);
});

test.each<[(keyof typeof deliveries)[], RunStatus]>([
  [['rows', 'nothing'], 'ok'],
  [['rows', 'untried'], 'partial'],
  [['skipped', 'untried'], 'failed'],
  [['failed', 'failed'], 'failed'],
  [['failed', 'nothing'], 'partial'],
  [['some'], 'partial'],
])('a delivery without a run, of destinations that are %j, ends as %s', (names, status) => {
  expect(statusOfDeliveries(names.map((name) => deliveries[name]))).toBe(status);
});
