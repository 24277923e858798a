import type { RequestCounts } from '../../api/client.js';
import { isRefusal } from '../../extract/page-fetcher.js';
import type { WindowedSource } from '../../sources/source.js';
import type { RunContext } from '../run-context.js';

/** A `Date` header has whole seconds. The second that is under way is read now, and again by the next run. */
export const dateStepMs = 1_000;
const minuteMs = 60_000;
const dayMs = 86_400_000;

/**
 * Until when a list can be read that is read in windows of time: the service's time, because that stamps the records, and the second
 * that is under way. Some services refuse a window that ends in the future, and this machine's clock may be ahead of theirs: a
 * window that ends tomorrow shows it, and is an empty minute for the others.
 */
export async function readableUntil(
  { client, clock, signal }: Pick<RunContext, 'client' | 'clock' | 'signal'>,
  source: WindowedSource,
  meter: RequestCounts,
): Promise<number> {
  const dateOf = (fromMs: number, toMs: number) => {
    const window = { from: new Date(fromMs).toISOString(), to: new Date(toMs).toISOString() };
    const operation = source.page({ window, token: null, limit: 1, filter: new Map(), withTotal: false });
    return client.send(operation, (_, { headers }) => Date.parse(String(headers.date)), { signal, meter });
  };
  const nowMs = clock.now();
  try {
    const date = await dateOf(nowMs - minuteMs, nowMs + dayMs);
    return Number.isNaN(date) ? nowMs : date + dateStepMs;
  } catch (error) {
    if (!isRefusal(error)) throw error;
    const past = clock.now() - (client.aheadMs ?? 0) - dateStepMs;
    const date = await dateOf(past - minuteMs, past);
    return Number.isNaN(date) ? past : date;
  }
}
