import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type LocalService, startLocalService } from '../../../src/local-service/service.js';
import { Caller } from './caller.js';

const dayMs = 86_400_000;
let service: LocalService;
let caller: Caller;
beforeEach(async () => {
  service = await startLocalService({ profiles: 10 });
  caller = new Caller(service);
});
afterEach(() => service.close());

async function issue(options: Record<string, unknown> = {}): Promise<string> {
  return (await caller.control('keys', { action: 'issue', ...options })).body.token;
}

async function valid(token: string): Promise<boolean> {
  const { status } = await caller.get('/api/indexes', { authorization: `Bearer ${token}` });
  expect([200, 401]).toContain(status);
  return status === 200;
}

const days = (count: number) => caller.control('time', { advance_ms: count * dayMs });

describe('access tokens (specification, sections 2.7 and 5)', () => {
  it('end after the number of days chosen at issue', async () => {
    const token = await issue({ days: 2 });
    await days(1.9);
    expect(await valid(token)).toBe(true);
    await days(0.2);
    expect(await valid(token)).toBe(false);
  });

  it('can be issued without an expiry', async () => {
    const token = await issue({ days: null });
    await days(3000);
    expect(await valid(token)).toBe(true);
    expect(JSON.parse(Buffer.from(token.split('.')[1] as string, 'base64url').toString())).not.toHaveProperty('exp');
  });

  it('are valid side by side if the key is not rotated', async () => {
    const [first, second] = [await issue(), await issue()];
    expect(await valid(first)).toBe(true);
    expect(await valid(second)).toBe(true);
  });
});

describe('rotation of a key (specification, section 3)', () => {
  it('deposes earlier tokens, which stay valid for 30 days', async () => {
    const old = await issue({ days: null });
    const fresh = await issue({ days: null, rotate: true });
    expect(await valid(old)).toBe(true);
    await days(29.99);
    expect(await valid(old)).toBe(true);
    await days(0.02);
    expect(await valid(old)).toBe(false);
    expect(await valid(fresh)).toBe(true);
  });

  it('does not keep a deposed token valid beyond its own expiry', async () => {
    const old = await issue({ days: 5 });
    await issue({ rotate: true });
    await days(6);
    expect(await valid(old)).toBe(false);
  });

  it('drops the tokens deposed before, and deposes the active ones', async () => {
    const first = await issue();
    const second = await issue({ rotate: true });
    const third = await issue({ rotate: true });
    expect([await valid(first), await valid(second), await valid(third)]).toEqual([false, true, true]);
  });

  it('gives the tokens that were active 30 days from that rotation', async () => {
    await issue();
    const second = await issue({ days: null, rotate: true });
    await days(20);
    await issue({ days: null, rotate: true });
    await days(29);
    expect(await valid(second)).toBe(true);
    await days(2);
    expect(await valid(second)).toBe(false);
  });

  it('does not touch tokens of other keys', async () => {
    await caller.control('keys', { action: 'create', name: 'second' });
    const other = await issue({ key: 'second' });
    await issue({ rotate: true });
    await issue({ rotate: true });
    expect(await valid(other)).toBe(true);
  });
});

describe('ending tokens (specification, section 3)', () => {
  it('an explicit drop ends deposed tokens only', async () => {
    const old = await issue();
    const fresh = await issue({ rotate: true });
    await caller.control('keys', { action: 'drop' });
    expect([await valid(old), await valid(fresh)]).toEqual([false, true]);
  });

  it('revoking old tokens ends those from before the last rotation, for good', async () => {
    const old = await issue();
    const fresh = await issue({ rotate: true });
    await caller.control('keys', { action: 'revoke', which: 'old' });
    expect([await valid(old), await valid(fresh)]).toEqual([false, true]);
    await caller.control('time', { advance_ms: -dayMs });
    expect(await valid(old)).toBe(false);
  });

  it('revoking old tokens of a key that was never rotated ends none', async () => {
    const token = await issue();
    await caller.control('keys', { action: 'revoke', which: 'old' });
    expect(await valid(token)).toBe(true);
  });

  it('revoking all tokens ends active and deposed ones at once, and later ones are valid', async () => {
    const old = await issue();
    const fresh = await issue({ rotate: true });
    expect(await valid(fresh)).toBe(true);
    await caller.control('keys', { action: 'revoke', which: 'all' });
    expect([await valid(old), await valid(fresh), await valid(service.token)]).toEqual([false, false, false]);
    expect(await valid(await issue())).toBe(true);
  });
});
