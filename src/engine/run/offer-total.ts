import { optionalTotal } from '../../extract/list-total.js';
import type { LiveCounters } from '../../extract/read-result.js';
import type { StreamProgress } from '../progress.js';
import type { RunContext } from '../run-context.js';
import type { OpenedStream } from './open-stream.js';

/** Lets a display ask for the number of records of a list that was never read. @returns call it after the reading */
export function offerTotal(
  { client, signal }: Pick<RunContext, 'client' | 'signal'>,
  progress: StreamProgress,
  { opened: { source, config }, live }: { readonly opened: OpenedStream; readonly live: LiveCounters },
): () => void {
  const isList = source?.kind === 'list' && source.coverage === 'everything';
  // A list that may be one response is over before its total is known.
  if (!isList || source.plain !== undefined || progress.expectedRows !== undefined) return () => undefined;
  const isRead = new AbortController();
  progress.askTotal = () => {
    if (live.pages === 0) return;
    progress.askTotal = undefined;
    const operation = source.page({ token: null, limit: 1, filter: config.reads.filter, withTotal: true });
    // Nothing depends on it: without a total, the display shows only the rows so far.
    void optionalTotal(client, operation, { signal: AbortSignal.any([signal, isRead.signal]), meter: live }).then(
      (total) => {
        progress.expectedRows = total ?? undefined;
      },
      () => undefined,
    );
  };
  return () => {
    progress.askTotal = undefined;
    isRead.abort();
  };
}
