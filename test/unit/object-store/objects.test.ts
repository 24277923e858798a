import { describe, expect, it } from 'vitest';
import { withRetry } from '../../../src/object-store/objects.js';
import { unavailable } from '../../../src/sdk/errors.js';

/** A clock that waits move on, and work of that many milliseconds that always fails. */
function failing(ms: number) {
  let [now, attempts] = [0, 0];
  const time = {
    now: () => now,
    wait: async (pause: number) => {
      now += pause;
    },
  };
  const work = async () => {
    attempts += 1;
    now += ms;
    throw unavailable('s3://b is unavailable (503)');
  };
  return { time, work, seen: () => ({ attempts, seconds: Math.round(now / 1000) }) };
}

describe('a bucket that cannot be reached', () => {
  it('is tried again for a minute, with growing pauses', async () => {
    const { time, work, seen } = failing(100);
    await expect(withRetry(work, undefined, time)).rejects.toMatchObject({ code: 'bucket_unavailable' });
    expect(seen()).toEqual({ attempts: 7, seconds: 61 });
  });

  it('and that takes minutes to fail is not tried seven times', async () => {
    const { time, work, seen } = failing(240_000);
    await expect(withRetry(work, undefined, time)).rejects.toMatchObject({ code: 'bucket_unavailable' });
    expect(seen()).toEqual({ attempts: 2, seconds: 481 });
  });

  it('is not tried again after a refusal', async () => {
    let attempts = 0;
    const work = async () => {
      attempts += 1;
      throw Object.assign(new Error('no'), { code: 'x' });
    };
    await expect(withRetry(work)).rejects.toThrow('no');
    expect(attempts).toBe(1);
  });
});
