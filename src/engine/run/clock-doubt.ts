import { formatDuration } from '../../core/quantities.js';
import type { StoreState } from '../../snapshot/snapshot-store.js';

/** A clock is doubted if it is further than this from the last run, and from the service. */
const farMs = 86_400_000;

/** What a run knows of the time. */
interface KnownTimes {
  /** By this machine, in milliseconds since 1970. */
  readonly now: number;
  /** How far this machine's clock is ahead of the service's; undefined if no answer had a date. */
  readonly aheadMs: number | undefined;
  readonly streams: StoreState['streams'];
}

/**
 * Why the clock of this machine cannot be trusted: it is far from the last run's and from the service's. A job that was not run
 * for long is only the former. Undefined: nothing speaks against it.
 */
export function clockDoubt({ now, aheadMs, streams }: KnownTimes): string | undefined {
  const last = Math.max(...[...streams.values()].map(({ synced_at: at }) => Date.parse(at)));
  if (aheadMs === undefined || !Number.isFinite(last)) return undefined;
  if (Math.abs(now - last) <= farMs || Math.abs(aheadMs) <= farMs) return undefined;
  const side = aheadMs > 0 ? 'ahead of' : 'behind';
  return `the clock of this machine is ${formatDuration(Math.abs(aheadMs))} ${side} the service's; nothing of the past was removed. Set the clock`;
}
