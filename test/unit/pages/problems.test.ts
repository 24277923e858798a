import { describe, expect, it } from 'vitest';
import type { JobReport } from '../../../src/core/run-report.js';
import { problemBoxes } from '../../../src/pages/problems.js';
import { id, report, stream } from './samples.js';

describe('what needs you', () => {
  it('shows a stream that another one kept from being read as skipped', () => {
    const because = {
      code: 'dependency',
      message: 'it needs stream "vip", which a guard holds',
      hint: null,
      request_id: null,
    };
    const broken = { code: 'timeout', message: 'no response', hint: null, request_id: null };
    const streams = [
      stream('profiles', { status: 'skipped', error: because }),
      stream('members', { status: 'failed', error: broken }),
    ];
    const { text } = problemBoxes(report(id(1), streams, { status: 'failed' }), {}, new Set()) ?? { text: '' };
    const boxes = [...text.matchAll(/class="box (\w+)"><h3>.*?(profiles|members).*?(skipped|failed)<\/span>/g)];
    expect(boxes.map(([, ...found]) => found)).toEqual([
      ['failed', 'members', 'failed'],
      ['skipped', 'profiles', 'skipped'],
    ]);
  });

  it('shows what keeps a stream once: neither as something to do for streams that need it nor for its deliveries', () => {
    const because = {
      code: 'dependency',
      message: 'it needs stream "vip"',
      hint: 'see stream "vip"',
      request_id: null,
    };
    const kept = {
      code: 'not_published',
      message: 'no snapshot yet',
      hint: 'run it first: cdsync run',
      request_id: null,
    };
    const streams = [
      stream('vip', { status: 'held', findings: [{ guard: 'max_deleted', message: 'too many' }] }),
      stream('profiles', { status: 'skipped', error: because }),
    ];
    const destinations = [{ name: 'lake', stream: 'profiles', status: 'not_tried', error: kept }];
    const all = { ...report(id(1), streams, { status: 'held' }), destinations } as unknown as JobReport;
    const { text } = problemBoxes(all, {}, new Set(['vip'])) ?? { text: '' };
    expect(text.match(/class="box /g)).toHaveLength(2);
    expect(text.match(/Do this:/g)).toHaveLength(1);
    expect(text).not.toContain('cdsync run');
  });

  it('leads from a guard that only warns to the changes, and shows a message of several lines on one', () => {
    const warnings = [{ code: 'guard_max_changed', message: '9 changes on 9 rows' }];
    const error = {
      code: 'sql_failed',
      message: 'Binder Error: no column "x"\nLINE 1: select x\n    ^',
      hint: null,
      request_id: null,
    };
    const streams = [stream('members', { warnings }), stream('vip', { status: 'failed', error })];
    const { text } = problemBoxes(report(id(1), streams), { config: 'a.yaml' }, new Set()) ?? { text: '' };
    expect(text).toContain('<code>cdsync diff a.yaml members</code>');
    expect(text).toContain('no column &quot;x&quot; LINE 1: select x <code>[sql_failed]</code>');
  });

  it('has a command where a hint only explains: for a login, and for a delivery', () => {
    const refused = { code: 'unauthorized', message: 'refused', hint: 'issue another token', request_id: null };
    const away = { code: 'destination_unavailable', message: 'away', hint: 'the rest is sent later', request_id: null };
    const destinations = [{ name: 'hook', stream: 'vip', status: 'failed', error: away }];
    const streams = [stream('members', { status: 'failed', error: refused }), stream('vip')];
    const all = { ...report(id(1), streams, { status: 'partial' }), destinations } as unknown as JobReport;
    const { text } = problemBoxes(all, { config: 'a.yaml' }, new Set()) ?? { text: '' };
    expect(text).toContain('<code>cdsync check a.yaml</code></pre><p class="note">Issue another token</p>');
    expect(text).toContain('<code>cdsync push a.yaml</code></pre><p class="note">The rest is sent later</p>');
  });

  it('asks for a delivery, not for a run, if a destination failed', () => {
    const error = { code: 'destination_unavailable', message: 'away', hint: null, request_id: null };
    const destinations = [{ name: 'lake', stream: 'members', status: 'failed', error }];
    const all = { ...report(id(1), [stream('members')], { status: 'partial' }), destinations } as unknown as JobReport;
    const { text } = problemBoxes(all, {}, new Set()) ?? { text: '' };
    expect(text).toMatch(/Do this:<\/b> Correct the destination, or wait until it is back, then: cdsync push</);
  });
});
