import type { JobConfig } from '../../config/config.js';
import type { StreamState } from '../../snapshot/stream-state.js';
import { previousOf } from '../run/stream-order.js';

/**
 * The streams whose rows a ledger keeps: those that its query reads, and those that they read. Other streams have none: the rows
 * of a query follow those that it reads, unless it keeps rows that it no longer returns.
 */
export function ledgerSources(
  { streams: configured }: JobConfig,
  stored: ReadonlyMap<string, StreamState>,
  stream: string,
): StreamState[] {
  const reads = configured.find(({ name }) => name === stream)?.reads;
  const ledger = stored.get(stream);
  if (ledger === undefined || reads?.query === undefined || reads.coverage !== 'additions') return [];
  const sources = new Set([ledger]);
  for (const { reading } of sources)
    for (const state of stored.values())
      if ([state.stream, previousOf(state.stream)].some((name) => name in (reading?.inputs ?? {}))) sources.add(state);
  sources.delete(ledger);
  return [...sources];
}

/** The people of an erasure. */
export interface ErasedKeys {
  readonly request: { readonly keys: readonly string[] };
  readonly targets: readonly {
    readonly state: Pick<StreamState, 'key' | 'stream'>;
    readonly keys: readonly string[];
    readonly forms: ReadonlyMap<string, unknown>;
  }[];
}

/** The keys of an erasure that are of its people alone: a row of a ledger that names them may have another person's. */
export function ownKeys({ targets, request }: ErasedKeys): string[] {
  const conflicting = targets.flatMap(({ keys, forms, state }) =>
    keys.filter((key) => state.key.length > 1 || forms.has(key)),
  );
  return [...new Set([...request.keys, ...conflicting])];
}
