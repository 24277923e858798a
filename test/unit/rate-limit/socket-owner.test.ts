import { expect, it } from 'vitest';
import { AdaptiveLimit } from '../../../src/rate-limit/adaptive-limit.js';
import { reclaimDelayMs } from '../../../src/rate-limit/lease-table.js';
import type { FormerPermits, SocketOwnership } from '../../../src/rate-limit/limit-socket.js';
import { SlidingWindowLimiter } from '../../../src/rate-limit/limiter.js';
import { noLease } from '../../../src/rate-limit/participant.js';
import { longestUseMs, SocketOwner } from '../../../src/rate-limit/socket-owner.js';

const limit = 2_000;

/** An owner after others whose permits may still be in use, and its notes for its successor. */
function ownerAfter(former: readonly FormerPermits[]) {
  const notes: FormerPermits[] = [];
  const clock = { now: () => 0, monotonic: () => 1_000, sleep: () => Promise.resolve() };
  const learned = new AdaptiveLimit(limit);
  const limiter = new SlidingWindowLimiter(learned, clock);
  const demand = (part: number) => ({ limit, part, held: part, used: 0, waiting: true });
  const ownership = {
    former: [...former],
    onConnection: () => undefined,
    confirm: (use: FormerPermits) => notes.push(use) > 0,
    close: () => Promise.resolve(),
  } as unknown as SocketOwnership;
  const refuse = (error: Error) => {
    throw error;
  };
  const owner = new SocketOwner({ clock, limiter, learned, demand, refuse, lost: () => undefined }, ownership, noLease);
  owner.beat();
  return { permits: owner.at(1_000), note: notes.at(-1) };
}

it('a run right after a short one notes only the permits that are in use, so that the next run need not wait', () => {
  const { permits, note } = ownerAfter([{ permits: 163, forMs: 200 }]);
  expect(permits).toBe(limit - 163);
  expect(note).toEqual({ permits: 163 + Math.ceil(limit / 32), forMs: 250 });
});

it('what an owner of unknown use has left is handed on, with its time', () => {
  const { permits, note } = ownerAfter([{ permits: Number.POSITIVE_INFINITY, forMs: longestUseMs }]);
  expect(permits).toBe(0);
  expect(note).toEqual({ permits: 1_000_000, forMs: longestUseMs });
});

it('permits that have just become free are not in use', () => {
  const { permits, note } = ownerAfter([{ permits: 2_000, forMs: -reclaimDelayMs }]);
  expect(permits).toBe(limit);
  expect(note).toEqual({ permits: Math.ceil(limit / 32), forMs: 250 });
});
