import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { bodyOf, pingUrl } from '../../../src/notify/channels.js';
import { endMessage, type Message, messageSchema } from '../../../src/notify/message.js';
import { textOf } from '../../../src/notify/message-text.js';
import type { RunResult } from '../../../src/notify/result.js';
import { adaptiveCard, slackMessage } from '../../fixtures/notification-shapes.js';
import { destinationReport, runEnd, streamReport } from '../../fixtures/run-ends.js';

const error = {
  code: 'guard_max_deleted',
  message: 'max_deleted: 900 of 1,000 rows & <more> than 10%',
  hint: 'look at it, then: cdsync approve 20261103T021500Z-9f3a1c',
  request_id: null,
};

function message(properties: Partial<RunResult> = {}, more: Partial<Message> = {}): Message {
  return { ...endMessage(runEnd(properties), { previous: 'ok', found: [] }), events: ['failed'], late: false, ...more };
}

const held = message({ status: 'held', streams: [streamReport({ status: 'held', error })] }, { events: ['held'] });
const parsed = (of: Message, format: 'json' | 'slack' | 'teams') => JSON.parse(bodyOf(of, format).text);

describe('a message as text', () => {
  it('says what happened, why, what to do and where to look, with the result of each stream', () => {
    expect(textOf(held)).toBe(`cdsync nightly: held

members: max_deleted: 900 of 1,000 rows & <more> than 10% [guard_max_deleted]
  look at it, then: cdsync approve 20261103T021500Z-9f3a1c

members: held, would have 1,000 rows; 3 inserted, 20 updated, 1 deleted; 12 s

run 20261103T021500Z-9f3a1c, took 1 min 30 s
report /data/nightly/reports/20261103T021500Z-9f3a1c.json
`);
  });

  it('names the configuration in commands to paste', () => {
    const streams = [streamReport({ status: 'held', error })];
    const { errors } = endMessage(runEnd({ status: 'held', streams }), {
      previous: 'ok',
      found: [],
      file: '/srv/my jobs/cdsync.yaml',
    });
    expect(errors[0]?.hint).toBe(
      "look at it, then: cdsync approve '/srv/my jobs/cdsync.yaml' --job nightly 20261103T021500Z-9f3a1c",
    );
  });

  it('has the figures of a guard, not the keys of records that the report names', () => {
    const figures = '900 of 1,000 rows would be deleted, 10% may be';
    const named = { ...error, message: `max_deleted: ${figures}: ann@example.com, …` };
    const stream = streamReport({
      status: 'held',
      error: named,
      findings: [{ guard: 'max_deleted', message: figures }],
    });
    for (const format of ['json', 'slack', 'teams', 'text'] as const) {
      const { text } = bodyOf(message({ status: 'held', streams: [stream] }), format);
      expect(text).toContain(`max_deleted: ${figures}`);
      expect(text).not.toContain('ann@example.com');
    }
  });

  it('says that a job has recovered, and that a message is late', () => {
    const recovered = message({}, { events: ['ok', 'recovered'], previous_status: 'failed' });
    expect(textOf(recovered)).toContain('cdsync nightly: recovered: ok after failed\n');
    expect(textOf(message({ status: 'failed' }, { late: true }))).toContain(
      'cdsync nightly: failed (late: of 2026-11-03 02:15 UTC)\n',
    );
  });

  it('shows one cause of many failures once, and no more than twenty streams', () => {
    const streams = Array.from({ length: 30 }, (_, n) => streamReport({ name: `s${n}`, status: 'failed', error }));
    const text = textOf(message({ status: 'failed', streams }));
    expect(text.split(error.message)).toHaveLength(2);
    expect(text).toContain('s0; s1; s2 and 27 more: ');
    expect(text).toContain('and 10 more streams: see the report');
  });

  it('has the deliveries that loaded rows or failed', () => {
    const failure = { code: 'destination_unavailable', message: 'no response', hint: null, request_id: null };
    const destinations = [
      destinationReport(),
      destinationReport({ name: 'quiet', rows: 0 }),
      destinationReport({ name: 'crm', status: 'failed', rows: 0, error: failure }),
    ];
    const text = textOf(message({ status: 'partial', destinations }));
    expect(text).toContain('warehouse (members): ok, 24 rows delivered\n');
    expect(text).toContain('crm, members: no response [destination_unavailable]\n');
    expect(text).not.toContain('quiet');
  });
});

describe('a JSON message', () => {
  it('is a document with these keys', () => {
    const document = parsed(held, 'json');
    expect(messageSchema.strict().parse(document)).toEqual(document);
    expect(Object.keys(document).sort()).toEqual(
      [
        'deprecations',
        'destinations',
        'errors',
        'events',
        'finished_at',
        'job',
        'late',
        'previous_status',
        'report',
        'run_id',
        'schema_changes',
        'seconds',
        'sequence',
        'started_at',
        'status',
        'streams',
        'unusual',
        'version',
        'warnings',
      ].sort(),
    );
    expect(document.errors).toEqual([
      { stream: 'members', destination: null, code: error.code, message: error.message, hint: error.hint },
    ]);
  });
});

/** Texts with what markup begins with, and with halves of characters. */
const wild = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 6000 }),
  fc.string({ minLength: 2000, maxLength: 9000 }),
  fc.stringMatching(/^[<>&*_`@!🙂]{0,5000}$/u),
);

function wildMessage(words: string): Message {
  const said = { code: 'unexpected', message: words, hint: words, request_id: null };
  return message({ status: 'failed', streams: [streamReport({ status: 'failed', error: said })] });
}

describe('a message for Slack', () => {
  it('has a header, sections in escaped text and a context', () => {
    const document = parsed(held, 'slack');
    expect(slackMessage(document)).toEqual([]);
    expect(document.text).toBe('cdsync nightly: held');
    expect(document.blocks[1].text.text).toContain('1,000 rows &amp; &lt;more&gt; than 10%');
  });

  it('keeps within the limits and escapes, whatever the texts are', () => {
    fc.assert(
      fc.property(wild, (words) => {
        expect(slackMessage(parsed(wildMessage(words), 'slack'))).toEqual([]);
      }),
    );
  });
});

describe('a card for Teams', () => {
  it('is an Adaptive Card in the envelope of a workflow', () => {
    const document = parsed(held, 'teams');
    expect(adaptiveCard(document)).toEqual([]);
    const [first] = document.attachments[0].content.body;
    expect(first.inlines[0]).toMatchObject({ text: 'cdsync nightly: held', color: 'warning' });
  });

  it('keeps within the limits, whatever the texts are', () => {
    fc.assert(
      fc.property(wild, (words) => {
        expect(adaptiveCard(parsed(wildMessage(words), 'teams'))).toEqual([]);
      }),
    );
  });
});

describe('the URL of a ping', () => {
  it.each([
    ['https://hc.example.com/ping/abc', 'started', 'https://hc.example.com/ping/abc/start'],
    ['https://hc.example.com/ping/abc', 'ok', 'https://hc.example.com/ping/abc'],
    ['https://hc.example.com/ping/abc/', 'failed', 'https://hc.example.com/ping/abc/fail'],
    ['https://hc.example.com/ping/abc?create=1', 'held', 'https://hc.example.com/ping/abc/fail?create=1'],
    ['https://hc.example.com', 'partial', 'https://hc.example.com/fail'],
  ] as const)('%s, %s: %s', (base, status, url) => {
    expect(pingUrl(base, status)).toBe(url);
  });
});

describe('names that a program would obey', () => {
  const hostile = 'town\x1b[2J\x9b31m\u202E\u2066\r\u2028';
  const changes = [{ column: hostile, change: 'column_added' as const, from: null, to: hostile }];
  const odd = { ...error, message: `column ${hostile}\nnext line`, hint: hostile };
  const hidden = message(
    {
      status: 'failed',
      streams: [
        streamReport({ status: 'failed', error: odd }),
        streamReport({ name: 'other', schema_changes: changes }),
      ],
    },
    { events: ['failed', 'schema_changed'] },
  );

  it.each(['json', 'slack', 'teams', 'text'] as const)('are shown by their numbers: %s', (format) => {
    const { text } = bodyOf(hidden, format);
    expect(text).not.toMatch(/[^\P{Cc}\n]|[\p{Bidi_Control}\p{Zl}\p{Zp}]/u);
    expect(text).toContain(
      format === 'json' ? 'town\\u001b[2J' : format === 'text' ? 'town\\x1b[2J' : 'town\\\\x1b[2J',
    );
    if (format === 'json') expect(JSON.parse(text).errors[0].hint).toBe(hostile);
    else if (format === 'text') expect(text).toContain('\nnext line');
  });
});
