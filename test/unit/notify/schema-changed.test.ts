import { expect, it } from 'vitest';
import type { SchemaChange } from '../../../src/core/schema-change.js';
import { eventKeysOf, newEvents, nextEventKeys } from '../../../src/notify/events.js';
import { endMessage } from '../../../src/notify/message.js';
import { headline, textOf } from '../../../src/notify/message-text.js';
import { runEnd, streamReport } from '../../fixtures/run-ends.js';

const added: SchemaChange = { column: 'attributes.vip', change: 'column_added', from: null, to: 'BOOLEAN' };
const fellBack: SchemaChange = { column: 'attributes.n', change: 'type_fell_back', from: 'BIGINT', to: 'VARCHAR' };

function keys(changes: readonly SchemaChange[], status: 'ok' | 'held' = 'ok') {
  return eventKeysOf(runEnd({ status, streams: [streamReport({ status, schema_changes: [...changes] })] }), 'ok', []);
}
const on = { on: ['schema_changed' as const], every: false };

it('a receiver learns of each change of a column that is in the new snapshot, and not of one that is held', () => {
  expect(newEvents(on, keys([added]), [])).toEqual(['schema_changed']);
  expect(newEvents(on, keys([added]), nextEventKeys('ok', keys([added]), []))).toEqual([]);
  expect(newEvents(on, keys([added, fellBack]), keys([added]))).toEqual(['schema_changed']);
  expect(newEvents(on, keys([added], 'held'), [])).toEqual([]);
});

it('the message names stream, column and types', () => {
  const streams = [
    { name: 'members', status: 'ok', schema_changes: [added, fellBack], warnings: [], error: null, seconds: 1 },
  ];
  const counts = { rows: 1, inserted: 0, updated: 0, deleted: 0, rejected: 0 };
  const run = {
    job: 'nightly',
    runId: null,
    status: 'ok' as const,
    sequence: 2,
    resumed: false,
    startedAt: 0,
    finishedAt: 1,
  };
  const end = {
    ...run,
    streams: streams.map((each) => ({ ...each, ...counts })),
    destinations: [],
    error: null,
    report: null,
  };
  const message = {
    ...endMessage(end as never, { previous: 'ok', found: [] }),
    events: ['schema_changed' as const],
    late: false,
  };
  expect(message.schema_changes).toEqual([
    { stream: 'members', ...added },
    { stream: 'members', ...fellBack },
  ]);
  expect(headline(message)).toBe('cdsync nightly: ok, columns changed');
  expect(textOf(message)).toContain('members: new columns: attributes.vip (BOOLEAN)');
  expect(textOf(message)).toContain('members: text again, because a value does not fit: attributes.n (was BIGINT)');
});
