import { expect, it } from 'vitest';
import { Output } from '../../../src/cli/output.js';
import { exitCodeOfRun, reportPrinter } from '../../../src/cli/print-report.js';
import type { JobReport, RunStatus } from '../../../src/core/run-report.js';
import { destinationReport, pastReport, streamReport } from '../../fixtures/run-ends.js';

/** The report of a run whose streams and destinations ended with these codes; null is an end without an error. */
function reportOf(
  status: RunStatus,
  streams: readonly (string | null)[],
  destinations: readonly string[] = [],
): JobReport {
  const ended = (code: string | null) => ({ error: code === null ? null : { code, message: code } });
  return { status, streams: streams.map(ended), destinations: destinations.map(ended) } as unknown as JobReport;
}

it.each<[number, RunStatus, (string | null)[], string[]]>([
  [0, 'ok', [null], []],
  [130, 'interrupted', ['interrupted', 'unauthorized'], []],
  [5, 'partial', [null, 'unauthorized'], []],
  [3, 'held', ['guard_max_deleted'], []],
  [4, 'failed', ['unauthorized', 'forbidden'], []],
  [4, 'failed', ['unauthorized', 'dependency'], []],
  [4, 'failed', [null], ['destination_login']],
  [1, 'failed', ['unauthorized', 'page_loop'], []],
  [1, 'failed', ['page_loop', 'dependency'], []],
  [1, 'failed', ['dependency'], []],
  [1, 'failed', [null], []],
])('the exit code is %i for a run that is %s with %j and %j', (code, status, streams, destinations) => {
  expect(exitCodeOfRun(reportOf(status, streams, destinations))).toBe(code);
});

it.each([
  ['destination', [null], ['state_unreadable'], 'do what the message says, then: cdsync push'],
  ['stream', ['state_unreadable'], [], undefined],
])('after state that cannot be read of a %s, the next step is one that helps', async (_, streams, codes, next) => {
  const common = { json: true, quiet: true, verbose: false, showValues: false, logFormat: 'text' } as const;
  const failed = reportOf('partial', streams, codes);
  const ended = {
    ...pastReport(1, []),
    streams: failed.streams.map(({ error }) => streamReport({ error, status: error === null ? 'ok' : 'failed' })),
    destinations: failed.destinations.map(({ error }) => destinationReport({ error, status: 'failed' })),
  };
  expect((await reportPrinter(new Output(common)).print(ended, true)).next).toBe(next);
});
