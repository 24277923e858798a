import { permitWindowMs } from './limiter.js';

/**
 * How long the permits of a process that ended stay unused: those of its last second still count, and requests that it had
 * written to a connection may reach the service a little later.
 */
export const reclaimDelayMs = permitWindowMs + 250;

/** The share of the limit that an idle process keeps, so that its first requests need not wait. All processes together. */
const idleShare = 0.01;
/** How often a permit that cannot be divided goes to the next process. */
const turnMs = 1_250;

/** The need of one process. */
export interface LimitDemand {
  /** Its configured limit. */
  readonly limit: number;
  /** The part that it may use at present: none after a suspension, because others may have it. */
  readonly part: number;
  /** The larger of its part and the permits in use. */
  readonly held: number;
  /** The most permits in use lately. */
  readonly used: number;
  /** Whether requests have waited for a permit lately. */
  readonly waiting: boolean;
}

/** The report of one process, and the part that it requests. */
export interface LeaseRequest extends LimitDemand {
  /** The account, as text. */
  readonly account: string;
  /** The process, and the number of its report: a report that arrives late changes nothing. */
  readonly member: string;
  readonly number: number;
  /** Responses since its last report, and how many of them were 429s. */
  readonly answered: number;
  readonly refused: number;
  /** How long the service asked to wait; 0 if it did not. */
  readonly pauseMs: number;
  /** How long it may use its part; 0 if it leaves. */
  readonly leaseMs: number;
  /**
   * The part that it wants, and the permits that all divide. It gets more than `part` only from free permits.
   * @param leases of all, if the store knows them before it decides; else those of the last response count
   */
  wanted(leases?: LeaseResponse): { readonly target: number; readonly total: number };
}

/** The stored lease of a process. */
export interface ParticipantLease extends LimitDemand {
  readonly number: number;
  /** Until when its permits count, by the store's clock, in milliseconds. */
  readonly until: number;
}

/** The leases of one account. */
export interface LeaseResponse {
  /** The store's clock, in milliseconds. */
  readonly now: number;
  /** Responses of the service to all processes, ever. */
  readonly answered: number;
  readonly refused: number;
  readonly pause_until: number;
  readonly members: Readonly<Record<string, ParticipantLease>>;
}

/** A place where processes lease their parts of limits. Together they never have more than a limit: a part grows only by free permits. */
export interface LeaseStore {
  /** Reports of all processes together, a second, that it can take. */
  readonly reportsPerSecond: number;
  /**
   * Records the needs of a process, and returns the leases of all.
   * @throws {LeaseStoreUnavailable} if it does not respond at present: leases are used to their end
   * @throws {CdsyncError} `budget_unusable` if it will never respond
   * @throws {Error} if the processes cannot find each other: each continues alone
   */
  report(request: LeaseRequest): Promise<LeaseResponse>;
  /** Shows a line to the user. */
  notice(line: string): void;
  close(): Promise<void>;
}

/** A store cannot be reached at present. */
export class LeaseStoreUnavailable extends Error {}

/** Leases of processes that have or want a part. @param except a process that is left out */
export function activeLeases(leases: LeaseResponse, except?: string): Record<string, ParticipantLease> {
  const all = Object.entries(otherLeases(leases, except));
  return Object.fromEntries(all.filter(([, { part, waiting }]) => part > 0 || waiting));
}

/** The leases that have not ended. */
function otherLeases({ members, now }: LeaseResponse, except: string | undefined): Record<string, ParticipantLease> {
  return Object.fromEntries(Object.entries(members).filter(([key, { until }]) => key !== except && until > now));
}

/** The leases after a report: a part grows only by free permits. */
export function nextLeases(leases: LeaseResponse, request: LeaseRequest): LeaseResponse {
  const { member, number, limit, used, waiting, pauseMs } = request;
  const { now } = leases;
  const others = otherLeases(leases, member);
  const { target, total } = request.wanted(leases);
  const free = total - Object.values(others).reduce((sum, { held }) => sum + held, 0);
  const part = Math.min(target, Math.max(request.part, free));
  const lease = { number, limit, held: Math.max(request.held, part), part, used, waiting };
  return {
    now,
    answered: leases.answered + request.answered,
    refused: leases.refused + request.refused,
    pause_until: Math.max(leases.pause_until, pauseMs > 0 ? now + pauseMs : 0),
    members: { ...others, [member]: { ...lease, until: now + request.leaseMs + reclaimDelayMs } },
  };
}

/** The parts of `total` that processes should have by their needs, in their order. The odd permits rotate with the time. */
export function fairShares(
  total: number,
  needs: readonly Pick<LimitDemand, 'used' | 'waiting'>[],
  nowMs: number,
): number[] {
  const kept = Math.floor((total * idleShare) / needs.length);
  const wanted = needs.map(({ waiting, used }) =>
    waiting ? Number.POSITIVE_INFINITY : used + Math.max(kept, Math.ceil(used / 4)),
  );
  return splitEvenly(total, wanted, Math.floor(nowMs / turnMs));
}

/**
 * Divides `total` by wants. No process gets more than it wants while another gets less than it wants; the latter get equal parts.
 * The odd permits rotate with `turn`, and the rest is divided evenly.
 */
export function splitEvenly(total: number, wanted: readonly number[], turn: number): number[] {
  const parts = wanted.map(() => 0);
  let left = total;
  let lacking = wanted.map((_, index) => index);
  while (lacking.length > 0) {
    const even = Math.floor(left / lacking.length);
    const content = lacking.filter((index) => (wanted[index] as number) <= even);
    if (content.length === 0) break;
    for (const index of content) {
      parts[index] = wanted[index] as number;
      left -= wanted[index] as number;
    }
    lacking = lacking.filter((index) => !content.includes(index));
  }
  const takers = lacking.length > 0 ? lacking : parts.map((_, index) => index);
  const odd = left % takers.length;
  for (const [place, index] of takers.entries()) {
    const isOdd = (place + turn * odd) % takers.length < odd;
    parts[index] = (parts[index] as number) + Math.floor(left / takers.length) + (isOdd ? 1 : 0);
  }
  return parts;
}
