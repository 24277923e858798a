import type { Clock } from '../core/clock.js';
import type { CdsyncError } from '../core/errors.js';
import type { AdaptiveLimit } from './adaptive-limit.js';
import type { LimitDemand } from './lease-table.js';
import type { LimitSource, SlidingWindowLimiter } from './limiter.js';

/** How often processes that share a limit report their needs. */
export const heartbeatMs = 100;
/** How long a process may use its part after the report for which the owner returned it. */
export const leaseMs = 1_500;

/** The process of a participant. */
export interface ParticipantContext {
  readonly clock: Clock;
  readonly limiter: SlidingWindowLimiter;
  readonly learned: AdaptiveLimit;
  /** The present needs of this process, if it may use `part` permits. */
  demand(part: number): LimitDemand;
  /** The participant has ended: this process is no longer the owner, or has lost it. `silent` is an owner that does not respond. */
  lost(role: Participant, silent?: number): void;
  /** There will never be permits: all callers get the error, now and later. */
  refuse(error: CdsyncError): void;
}

/**
 * Finds the other processes, and returns this one's participant.
 * @param lease the part that this process may still use after its former participant ended
 * @param silent an owner that does not respond
 */
export type Join = (context: ParticipantContext, lease: () => Lease, silent?: number) => Promise<Participant>;

/** A part that may be used until a time. */
export interface Lease {
  readonly permits: number;
  readonly until: number;
  /** Since when this process has had a part without interruption: earlier permits belong to others. */
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

/** How a process takes part in a shared limit: as owner or member of a socket, or through a database. */
export interface Participant extends LimitSource {
  heldSince(now: number): number;
  /** Processes that share the limit, this one included. */
  readonly participants: number;
  /** The permits that they share at present. */
  readonly total: number;
  /** The part that this process may still use when the participant ends. */
  readonly lease: Lease;
  /** Whether {@link beat} must be called every {@link heartbeatMs}. */
  readonly beats: boolean;
  beat(): void;
  /** Requests wait. */
  hurry(): void;
  /** Passes on to the others that the service asked to wait. */
  sharePause(ms: number): void;
  close(): Promise<void>;
}
