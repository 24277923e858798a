import { expect, it } from 'vitest';
import { indexesPageOperation } from '../../../src/api/profile-api.js';
import { RetryAfterNotices } from '../../../src/api/retry.js';
import { ManualClock } from './clocks.js';
import { emptyPage, scriptedService, serviceOptions, testClient } from './scripted-service.js';

const list = indexesPageOperation({});

it('A wait that the service asks for, in seconds or until a date, is reported when it begins, unless it is short', async () => {
  const date = new Date(Date.UTC(2026, 0, 1)).toUTCString();
  const later = new Date(Date.UTC(2026, 0, 1, 0, 1)).toUTCString();
  const { baseUrl } = await scriptedService(
    { status: 429, headers: { 'retry-after': '60' } },
    emptyPage,
    { status: 503, headers: { 'retry-after': later, date } },
    { status: 503, headers: { 'retry-after': '5' } },
    emptyPage,
  );
  const { send, notices } = testClient(serviceOptions(baseUrl));
  await send(list);
  await send(list);
  expect(notices).toEqual([
    'waiting 1 min 0 s: the service asked for it (429)',
    'waiting for the Profile API: no success for 0.0 s, 1 failed request, last: 503; it asked to wait 1 min 0 s. cdsync waits for up to 5 min 0 s more',
    'waiting for the Profile API: no success for 1 min 0 s, 2 failed requests, last: 503. cdsync waits for up to 4 min 0 s more',
    'the Profile API responds again, after 1 min 5 s and 2 failed requests',
  ]);
});

it('A wait that many requests are asked for together is reported once, and a longer one again', () => {
  const reported: string[] = [];
  const notices = new RetryAfterNotices((notice) => reported.push(notice), new ManualClock());
  for (const seconds of [60, 60, 59, 61, 5, 300]) notices.begins(seconds * 1000, 429);
  expect(reported).toEqual([
    'waiting 1 min 0 s: the service asked for it (429)',
    'waiting 5 min 0 s: the service asked for it (429)',
  ]);
});
