import { expect, it } from 'vitest';
import { Output } from '../../../src/cli/output.js';
import { approvalPrinter, exitCodeOfRun, reportPrinter } from '../../../src/cli/print-report.js';
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

it('the last line of an approval names old streams and destinations, and the command for them', async () => {
  const common = { json: true, quiet: true, verbose: false, showValues: false, logFormat: 'text' } as const;
  const error = { code: 'dependency', message: 'it needs the service', hint: null, request_id: null };
  const ended = {
    ...pastReport(1, []),
    status: 'partial' as const,
    streams: [
      streamReport({ name: 'members', status: 'ok' }),
      streamReport({ name: 'asked', status: 'skipped', error }),
      streamReport({ name: 'over', status: 'skipped', error }),
    ],
    destinations: [],
  };
  const print = approvalPrinter(new Output(common)).print;
  expect(await print(ended, true)).toMatchObject({
    old: ['asked, over'],
    next: 'next: cdsync run --stream asked --stream over',
    streams: ['asked', 'over'],
  });
  const destinations = ['members', 'over'].map((stream) =>
    destinationReport({ name: 'crm', stream, status: 'failed', error: { ...error, code: 'destination_unavailable' } }),
  );
  const undelivered = await print({ ...ended, streams: ended.streams.slice(0, 1), destinations }, true);
  expect(undelivered).toMatchObject({ old: ['crm (members, over)'], undelivered: true });
  expect(undelivered.next).toBeUndefined();
});
