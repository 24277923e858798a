import { expect, it } from 'vitest';
import { deprecationLine } from '../../../src/core/deprecation.js';
import { eventKeysOf, newEvents, nextEventKeys } from '../../../src/notify/events.js';
import { runEnd } from '../../fixtures/run-ends.js';

const ending = {
  api: 'profile',
  version: '2025-07-31',
  deprecated: '2026-01-01T00:00:00.000Z',
  sunset: '2026-12-31T00:00:00.000Z',
} as const;
const receiver = { on: ['deprecated'] as const, every: false };
const after = (deprecations: readonly (typeof ending)[], status: 'ok' | 'failed' = 'ok') =>
  eventKeysOf(runEnd({ status, deprecations }), 'ok', []);

it('a receiver is notified once of each announcement that a version ends', () => {
  const first = after([ending]);
  expect(newEvents({ ...receiver, on: [...receiver.on] }, first, [])).toEqual(['deprecated']);
  const known = nextEventKeys('ok', first, []);
  expect(newEvents({ ...receiver, on: [...receiver.on] }, after([ending]), known)).toEqual([]);
  const moved = after([{ ...ending, sunset: '2027-06-30T00:00:00.000Z' as never }]);
  expect(newEvents({ ...receiver, on: [...receiver.on] }, moved, known)).toEqual(['deprecated']);
});

it('a run that reached nothing does not make it news again', () => {
  const known = nextEventKeys('failed', after([], 'failed'), nextEventKeys('ok', after([ending]), []));
  expect(newEvents({ ...receiver, on: [...receiver.on] }, after([ending]), known)).toEqual([]);
});

it('an end without a date is shown as a sentence', () => {
  expect(deprecationLine({ api: 'profile', version: null, deprecated: null, sunset: 'true' })).toBe(
    'the Profile API will end, the service says',
  );
  expect(deprecationLine({ ...ending, deprecated: 'true', sunset: 'true' })).toContain(
    'is deprecated and will end, the service says',
  );
});
