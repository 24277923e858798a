import { expect } from 'vitest';
import { type Checks, claimsOf, type Key, Setting } from './setting.js';

/** A separate service, since the tests move its time, and a key with a token that does not expire. */
async function withToken(): Promise<{ own: Setting; key: Key; first: string }> {
  const own = await Setting.own();
  const key = await own.key();
  return { own, key, first: await key.issue({ days: null }) };
}

/** States of access tokens, and the events that change them. */
export const section3: Checks = {
  '3.rows.Rotate key secret.1': async () => {
    const { own, key, first } = await withToken();
    const second = await key.issue({ days: null, rotate: true });
    expect(await key.accepted(first, second)).toEqual([true, true]);
    // A deposed token ends after 30 days; an active one does not.
    await own.days(40);
    expect(await key.accepted(first, second)).toEqual([false, true]);
  },
  '3.rows.Rotate key secret.2': async () => {
    const { key, first } = await withToken();
    const second = await key.issue({ rotate: true });
    const third = await key.issue();
    expect(claimsOf(second).secret).not.toBe(claimsOf(first).secret);
    expect(claimsOf(third).secret).toBe(claimsOf(second).secret);
  },
  '3.rows.Time': async () => {
    const { own, key, first } = await withToken();
    await key.issue({ rotate: true });
    await own.days(29.999);
    expect(await key.accepted(first)).toEqual([true]);
    await own.days(0.002);
    expect(await key.accepted(first)).toEqual([false]);
  },
  '3.rows.Explicit drop': async () => {
    const { key, first } = await withToken();
    const second = await key.issue({ rotate: true });
    expect(await key.accepted(first, second)).toEqual([true, true]);
    await key.drop();
    expect(await key.accepted(first, second)).toEqual([false, true]);
  },
  '3.rows.Another rotation': async () => {
    const { own, key, first } = await withToken();
    const second = await key.issue({ days: null, rotate: true });
    await own.days(10);
    const third = await key.issue({ days: null, rotate: true });
    expect(await key.accepted(first, second, third)).toEqual([false, true, true]);
    await own.days(29);
    expect(await key.accepted(second, third)).toEqual([true, true]);
    await own.days(2);
    expect(await key.accepted(second, third)).toEqual([false, true]);
  },
  '3.rows.Revoke old tokens': async () => {
    const { own, key, first } = await withToken();
    const second = await key.issue({ rotate: true });
    await key.revoke('old');
    expect(await key.accepted(first, second)).toEqual([false, true]);
    await own.days(-1);
    await key.issue();
    expect(await key.accepted(first)).toEqual([false]);
  },
  '3.rows.Revoke all tokens': async () => {
    const { own, key, first } = await withToken();
    const second = await key.issue({ rotate: true });
    expect(await key.accepted(first, second)).toEqual([true, true]);
    await key.revoke('all');
    expect(await key.accepted(first, second)).toEqual([false, false]);
    await own.days(-1);
    expect(await key.accepted(first, second, await key.issue())).toEqual([false, false, true]);
  },
  '3.text.1': async () => {
    const { own, key, first } = await withToken();
    await own.days(1000);
    expect(await key.accepted(first)).toEqual([true]);
    await key.issue({ rotate: true });
    await own.days(31);
    expect(await key.accepted(first)).toEqual([false]);
  },
  '3.text.2': async () => {
    const { key, first } = await withToken();
    await key.issue({ rotate: true });
    expect(await key.accepted(first)).toEqual([true]);
    // The deposed token still has most of its 30 days.
    await key.issue({ rotate: true });
    expect(await key.accepted(first)).toEqual([false]);
  },
};
