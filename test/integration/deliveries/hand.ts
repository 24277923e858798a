import type { Series } from './series.js';

/** Something that others do to a table, a record or a storage folder, and the deliveries that follow from it. */
export interface Hand {
  readonly name: string;
  readonly keyed?: true;
  /** Whether it is the same where a table takes no statements. */
  readonly anywhere?: true;
  may?(series: Series): boolean;
  act(series: Series): Promise<void>;
}
