import type { Clock } from '../core/clock.js';
import type { CdsyncError } from '../core/errors.js';
import type { AdaptiveLimit } from './adaptive-limit.js';
import type { LimitDemand } from './lease-table.js';
import type { LimitSource, SlidingWindowLimiter } from './limiter.js';

/** How often processes that share a limit tell each other what they need. */
export const heartbeatMs = 100;
/** How long a process may use its part after the report that the owner has answered. */
export const leaseMs = 1_500;

/** What a role needs of its process. */
export interface Sharing {
  readonly clock: Clock;
  readonly limiter: SlidingWindowLimiter;
  readonly learned: AdaptiveLimit;
  /** The present needs of this process, if it may use `part` permits. */
  demand(part: number): LimitDemand;
  /** The role has ended: this process is not the owner any more, or has none. `silent` is an owner that does not answer. */
  lost(role: SharingRole, silent?: number): void;
  /** No permits can be had, and waiting would not help: all who ask get the error, now and later. */
  refuse(error: CdsyncError): void;
}

/**
 * Finds the others, and gives this process its role among them.
 * @param lease what this process may still use of its former role
 * @param silent an owner that does not answer
 */
export type Enter = (sharing: Sharing, lease: () => Lease, silent?: number) => Promise<SharingRole>;

/** A part that may be used until a time. */
export interface Lease {
  readonly permits: number;
  readonly until: number;
  /** Since when this process has had a part without interruption: permits from before have gone to others. */
  readonly since: number;
}

/** No part. */
export const noLease: Lease = {
  permits: 0,
  until: Number.NEGATIVE_INFINITY,
  since: Number.POSITIVE_INFINITY,
};

/** The lease that follows another one. It begins at `from`, unless that one had not ended by then. */
export function nextLease(before: Lease, permits: number, { from, until }: { from: number; until: number }): Lease {
  return { permits, until, since: from < before.until ? before.since : from };
}

/** Since when permits of a lease may be used at `now`; infinite if they may not. */
export function leasedSince({ until, since }: Lease, now: number): number {
  return now < until ? since : Number.POSITIVE_INFINITY;
}

/** What a process is to the others: owner, member, or still looking. */
export interface SharingRole extends LimitSource {
  heldSince(now: number): number;
  /** Processes that share the limit, this one included. */
  readonly sharers: number;
  /** What all of them share at present. */
  readonly total: number;
  /** What may still be used when the role ends. */
  readonly lease: Lease;
  /** Whether {@link beat} must be called every {@link heartbeatMs}. */
  readonly beats: boolean;
  beat(): void;
  /** Requests wait. */
  hurry(): void;
  /** Tells the others that the service asked to wait. */
  tellPause(ms: number): void;
  close(): Promise<void>;
}
