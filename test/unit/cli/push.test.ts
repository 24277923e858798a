import { expect, it } from 'vitest';
import { assertDelivered } from '../../../src/cli/push.js';
import type { JobConfig } from '../../../src/config/config.js';

const job = {
  streams: [{ name: 'members' }, { name: 'vip' }],
  destinations: [
    { name: 'crm', streams: ['members'] },
    { name: 'lake', streams: ['members', 'vip'] },
  ],
} as unknown as JobConfig;

it.each<[streams: string[] | undefined, destinations: string[] | undefined, isRefused: boolean]>([
  [undefined, undefined, false],
  [['vip'], undefined, false],
  [['vip'], ['lake'], false],
  [['vip'], ['crm'], true],
  [['members', 'vip'], ['crm'], true],
  // An unknown name is an error of the delivery itself.
  [['nope'], ['crm'], false],
  [['vip'], ['nope'], false],
])('a delivery of %j to %j is refused if that would be nothing: %j', (streams, destinations, isRefused) => {
  const push = () => assertDelivered(job, { streams, destinations });
  if (isRefused)
    expect(push).toThrow(
      expect.objectContaining({ code: 'stream_not_found', hint: 'these streams are delivered there: members' }),
    );
  else expect(push).not.toThrow();
});
