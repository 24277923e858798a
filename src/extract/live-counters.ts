import type { RequestCounts } from '../api/client.js';

/** Counters of a stream's reading, updated while it runs. */
export interface LiveCounters extends RequestCounts {
  milliseconds: number;
  pages: number;
  read: number;
  kept: number;
  rejected: number;
  replaced: number;
  missing: number;
  recognised: number;
}
