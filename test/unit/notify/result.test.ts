import { describe, expect, it } from 'vitest';
import type { DestinationReport, JobReport, StreamReport } from '../../../src/core/run-report.js';
import { endMessage } from '../../../src/notify/message.js';
import { textOf } from '../../../src/notify/message-text.js';
import { errorWithoutKeys, mergedStatus, resultOfReport } from '../../../src/notify/result.js';
import { pastReport } from '../../fixtures/run-ends.js';

type Statuses = Readonly<Record<string, string>>;

/** A report with streams and deliveries of these statuses; a delivery is written `destination stream`. */
function report(status: JobReport['status'], streams: Statuses, deliveries: Statuses = {}) {
  return {
    status,
    streams: Object.entries(streams).map(([name, each]) => ({ name, status: each }) as StreamReport),
    destinations: Object.entries(deliveries).map(([names, each]) => {
      const [name, stream] = names.split(' ');
      return { name, stream, status: each } as DestinationReport;
    }),
  };
}

describe('the status of a job after its run, approvals and deliveries', () => {
  it('is ok once all that was held is approved', () => {
    const last = report('held', { a: 'ok', b: 'held', c: 'held' });
    expect(mergedStatus(report('ok', { b: 'ok', c: 'ok' }), last)).toBe('ok');
    expect(mergedStatus(report('ok', { b: 'ok' }), last)).toBe('held');
  });

  it('is not ok while a stream that depends on the approved one is of the snapshot before, also after a delivery', () => {
    const last = report('held', { a: 'held', over: 'skipped', asked: 'skipped' });
    const approval = report('partial', { a: 'ok', over: 'ok', asked: 'skipped' }, { 'x a': 'ok' });
    expect(mergedStatus(approval, last)).toBe('partial');
    expect(mergedStatus(report('ok', {}, { 'x a': 'ok' }), approval)).toBe('partial');
    expect(
      mergedStatus(report('partial', { a: 'ok', asked: 'skipped' }), report('held', { a: 'held', b: 'held' })),
    ).toBe('held');
  });

  it('stays as bad as the streams and deliveries that were not tried again', () => {
    const last = report('partial', { a: 'failed', b: 'held' }, { 'x a': 'failed', 'y a': 'failed' });
    expect(mergedStatus(report('ok', { b: 'ok' }), last)).toBe('partial');
    const failed = report('partial', { a: 'ok' }, { 'x a': 'failed', 'y a': 'failed' });
    expect(mergedStatus(report('ok', {}, { 'x a': 'ok' }), failed)).toBe('partial');
    expect(mergedStatus(report('ok', {}, { 'x a': 'ok', 'y a': 'skipped' }), failed)).toBe('partial');
    expect(mergedStatus(report('ok', {}, { 'x a': 'ok', 'y a': 'ok' }), failed)).toBe('ok');
  });

  it('is failed while a step before the run has failed, and nothing was delivered', () => {
    const streams = report('failed', { a: 'skipped' }).streams.map((stream) => ({
      ...stream,
      error: { code: 'workflow_failed', message: 'it failed', hint: null, request_id: null },
    }));
    const last = { ...report('failed', {}), streams };
    expect(mergedStatus(report('failed', {}, { 'x a': 'not_tried' }), last)).toBe('failed');
    expect(mergedStatus(report('ok', {}, { 'x a': 'ok' }), last)).toBe('partial');
  });

  it('is that of a delivery that fails after a good run, or without any', () => {
    expect(mergedStatus(report('failed', {}, { 'x a': 'failed' }), report('ok', { a: 'ok' }))).toBe('partial');
    expect(mergedStatus(report('failed', {}, { 'x a': 'failed' }), undefined)).toBe('failed');
  });

  it('is ok after an interruption once all that it cut short was done', () => {
    const cut = report('interrupted', { a: 'ok', b: 'ok' }, { 'x a': 'ok', 'x b': 'skipped', 'y b': 'not_tried' });
    expect(mergedStatus(report('ok', {}, { 'x b': 'ok' }), cut)).toBe('interrupted');
    expect(mergedStatus(report('ok', {}, { 'x b': 'ok', 'y b': 'ok' }), cut)).toBe('ok');
  });

  it('is not known after an interruption', () => {
    expect(mergedStatus(report('ok', {}, { 'x a': 'ok' }), report('interrupted', { a: 'skipped' }))).toBe(
      'interrupted',
    );
    expect(mergedStatus(report('interrupted', {}), report('ok', { a: 'ok' }))).toBe('interrupted');
  });
});

it('leaves keys of records out of the error of a held stream, and no other error is touched', () => {
  const error = { code: 'guard_unique', message: 'unique: 2 rows: ann@example.com', hint: null, request_id: null };
  const findings = [{ guard: 'unique', message: '2 rows' }];
  expect(errorWithoutKeys({ error, findings })).toEqual({ ...error, message: 'unique: 2 rows' });
  expect(errorWithoutKeys({ error, findings: [] })).toBe(error);
  expect(errorWithoutKeys({ error: null, findings: [] })).toBeNull();
});

it('a warning about the run as a whole is in its notifications', () => {
  const warnings = [{ code: 'clock_off', message: 'the clock is 3 years ahead' }];
  const end = resultOfReport({ ...pastReport(1, []), warnings }, { startedAt: 0, finishedAt: 1, report: null });
  const message = endMessage(end, { previous: null, found: [] });
  expect(message.warnings).toEqual([{ stream: null, ...warnings[0] }]);
  expect(textOf({ ...message, events: ['ok'], late: false })).toContain('warning: the clock is 3 years ahead');
});
