import type { RequestMeter } from '../client/client.js';

/** What a stream's reading has done so far, counted while it runs. */
export interface LiveCounters extends RequestMeter {
  milliseconds: number;
  pages: number;
  read: number;
  kept: number;
  rejected: number;
  replaced: number;
  missing: number;
}
