import { createHash } from 'node:crypto';
import type { ColumnRules } from '../../columns/column-rules.js';
import { hashWords } from '../../columns/record-hash.js';
import { hashVersion } from '../../columns/row-hash.js';
import type { StreamConfig } from '../../config/config.js';
import { formatDuration } from '../../core/quantities.js';
import { type CacheHeader, UnusableCache } from '../../record-cache/cache-file.js';
import { requireFree } from '../../record-cache/cache-memory.js';
import type { StreamCacheOptions } from '../../record-cache/stream-cache.js';
import type { StreamState } from '../../snapshot/stream-state.js';
import type { Source } from '../../sources/source.js';
import { partVersion } from '../../storage/part.js';
import type { RunContext } from '../run-context.js';

/** A stream that may use a record cache, and its last snapshot. */
interface CacheTask {
  readonly config: StreamConfig;
  readonly source: Source;
  readonly rules: ColumnRules;
  readonly previous: StreamState | undefined;
  /** Id of the store that the stream was opened from. */
  readonly storeId: string;
  readonly duckdbVersion: string;
  /** Why the cache must not be used this time, in words; undefined if it may. */
  readonly refusal?: string | undefined;
}

/** A digest of all that decides how the bytes of a record are converted. */
function recordFingerprint(
  { config: { service } }: Pick<RunContext, 'config'>,
  { config, source, rules }: Pick<CacheTask, 'config' | 'source' | 'rules'>,
): string {
  const parts = {
    converterVersion: partVersion,
    baseUrl: service.baseUrl,
    tenantId: service.tenantId,
    apiVersions: service.apiVersions,
    identity: source.identity,
    key: source.key,
    filter: [...config.reads.filter].sort(),
    contract: config.contract,
    rules: rules.identity,
  };
  return createHash('sha256').update(JSON.stringify(parts)).digest('hex');
}

/**
 * How a stream uses its record cache; undefined if it has none. Only a list returns all of its records in every run, and records
 * with values that a contract discards must be reported in every run.
 */
export function cacheOptionsFor(context: RunContext, task: CacheTask): StreamCacheOptions | undefined {
  const { config, source } = task;
  const { columns, types } = config.contract;
  const discards = [columns, types].some((action) => action.startsWith('discard'));
  if (!context.job.recognition.enabled || source.kind !== 'list' || source.coverage === 'additions' || discards)
    return undefined;
  const fingerprint = recordFingerprint(context, task);
  return {
    folder: context.layout.known(config.name),
    fingerprint,
    accept: (header) => assertFit(context, task, header, fingerprint),
  };
}

/** Reserves memory for a stream's cache. @throws {UnusableCache} if the run must not use the cache, or has no memory for it */
function assertFit(
  { job, clock, full, rekey, caches }: RunContext,
  { config: { name: stream }, previous, storeId, duckdbVersion, refusal }: CacheTask,
  header: CacheHeader,
  fingerprint: string,
): void {
  const refuse = (why: string) => {
    throw new UnusableCache(why);
  };
  if (refusal !== undefined) refuse(refusal);
  if (full) refuse('--full asks for that');
  if (rekey) refuse('--rekey asks for that');
  if (previous === undefined) refuse('there is no snapshot yet');
  if (header.store_id !== storeId || header.run_id !== previous?.run_id)
    refuse('the cache belongs to another snapshot');
  if (previous?.hash_version !== hashVersion(duckdbVersion)) refuse('rows are hashed in another way than before');
  if (header.fingerprint !== fingerprint) refuse('the request or the column rules changed');
  const { verifyEvery } = job.recognition;
  const age = clock.now() - Date.parse(header.verified_at);
  // A clock that was set back must not delay the check.
  if (!(Math.abs(age) < verifyEvery)) refuse(`each is checked once in ${formatDuration(verifyEvery)}`);
  const bytes = header.slots * hashWords * Uint32Array.BYTES_PER_ELEMENT;
  requireFree(caches, stream, bytes);
  caches.reserve(stream, bytes);
}
