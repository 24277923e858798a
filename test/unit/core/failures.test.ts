import { describe, expect, it } from 'vitest';
import { decisiveFailure, failuresOf, mayRetry } from '../../../src/core/failures.js';
import type { JobReport, RunStatus } from '../../../src/core/run-report.js';
import { destinationReport, streamReport } from '../../fixtures/run-ends.js';

const error = (code: string, message = code) => ({ code, message, hint: null, request_id: null });

/** A report whose streams `s0`, `s1` … and deliveries to `lake` ended with these codes; null is an end without an error. */
function reportOf(status: RunStatus, streams: (string | null)[], destinations: (string | null)[] = []) {
  const of = (code: string | null) => (code === null ? null : error(code));
  const ended = (code: string | null) =>
    code === null ? 'ok' : code.startsWith('guard_') ? 'held' : code === 'interrupted' ? 'skipped' : 'failed';
  return {
    status,
    streams: streams.map((code, n) => streamReport({ name: `s${n}`, status: ended(code), error: of(code) })),
    destinations: destinations.map((code, n) =>
      destinationReport({ name: 'lake', stream: `s${n}`, status: code === null ? 'ok' : 'failed', error: of(code) }),
    ),
  };
}

it.each<[boolean, RunStatus, (string | null)[], (string | null)[]]>([
  [false, 'ok', [null], [null]],
  [true, 'failed', ['service_unavailable', 'dependency'], []],
  [true, 'partial', [null, 'timeout'], ['destination_unavailable']],
  [true, 'interrupted', ['interrupted'], []],
  [true, 'interrupted', [], []],
  [true, 'partial', [null], ['locked']],
  [false, 'partial', [null, 'forbidden'], []],
  [false, 'failed', ['unauthorized', 'service_unavailable'], []],
  [false, 'failed', ['unreachable'], ['destination_login']],
  [false, 'held', ['guard_max_deleted'], []],
  [false, 'partial', ['guard_max_deleted', 'service_unavailable'], []],
  [false, 'failed', ['page_loop'], []],
  [false, 'failed', ['disk_full'], []],
  [false, 'failed', ['sql_failed', 'interrupted'], []],
])('retry is %s for a run that is %s with %j and %j', (retry, status, streams, destinations) => {
  expect(mayRetry(reportOf(status, streams, destinations))).toBe(retry);
});

describe('the failures of a run', () => {
  it('report an outage of several API groups once, and a refused login, and each held stream', () => {
    const report = reportOf('failed', [
      'service_unavailable',
      'unreachable',
      'unauthorized',
      'guard_x',
      'guard_x',
      null,
    ]);
    const failures = failuresOf(report).map(({ streams, isHeld }) => [streams, isHeld]);
    expect(failures).toEqual([
      [['s0', 's1'], false],
      [['s2'], false],
      [['s3'], true],
      [['s4'], true],
    ]);
  });

  it('name each destination that did not get its streams, and nothing that waits for a stream', () => {
    const report: Pick<JobReport, 'status' | 'streams' | 'destinations'> = {
      ...reportOf('partial', [null, 'forbidden']),
      destinations: [
        destinationReport({ name: 'a', stream: 's0', status: 'failed', error: error('destination_unavailable', 'x') }),
        destinationReport({ name: 'a', stream: 's2', status: 'failed', error: error('destination_unavailable', 'y') }),
        destinationReport({ name: 'b', stream: 's0', status: 'failed', error: error('destination_unavailable', 'x') }),
        destinationReport({ name: 'b', stream: 's1', status: 'not_tried' }),
        destinationReport({ name: 'c', stream: 's0', status: 'partial', refused: 2 }),
      ],
    };
    expect(failuresOf(report).map(({ destination, streams, error: { code } }) => [destination, streams, code])).toEqual(
      [
        [undefined, ['s1'], 'forbidden'],
        ['a', ['s0', 's2'], 'destination_unavailable'],
        ['b', ['s0'], 'destination_unavailable'],
        ['c', ['s0'], 'values_refused'],
      ],
    );
  });

  it.each([
    ['forbidden', ['service_unavailable', 'forbidden'], []],
    ['guard_x', ['service_unavailable', 'guard_x'], []],
    ['destination_login', ['service_unavailable'], ['destination_login']],
    ['service_unavailable', ['service_unavailable'], ['destination_unavailable']],
  ])('that need a person decide the next step: %s of %j and %j', (code, streams, destinations) => {
    expect(decisiveFailure(failuresOf(reportOf('failed', streams, destinations)))?.error.code).toBe(code);
  });
});
