import { createHash } from 'node:crypto';
import type { StreamConfig } from '../../config/config.js';
import { CdsyncError } from '../../core/errors.js';
import type { Source } from '../../streams/source.js';

/** Parts of a stream's configuration that say which records it is about, each as a digest: a filter may hold a name. */
export type Definition = Readonly<Record<string, string>>;

function digest(value: unknown): string {
  return createHash('sha256')
    .update(JSON.stringify(value) ?? 'null')
    .digest('hex')
    .slice(0, 16);
}

/** What a stream is about: all of its options but those that its source has as `notDefining`. */
export function definitionOf(config: StreamConfig, source: Source | undefined, tenantId: string): Definition {
  const { key, definition } = config.reads;
  // Stores of version 0.1.0 have an index and a filter of every stream.
  const always = { source: config.source, tenant_id: tenantId, index: null, filter: [], key };
  const parts = { ...always, ...definition, ...source?.resolved };
  return Object.fromEntries(Object.entries(parts).map(([name, value]) => [name, digest(value)]));
}

/** @throws {CdsyncError} `definition_changed` where the snapshot before is about something else */
export function refuseChanged(before: Definition | undefined, now: Definition): void {
  if (before === undefined) return;
  const names = new Set([...Object.keys(before), ...Object.keys(now)]);
  const changed = [...names].filter((name) => before[name] !== now[name]);
  if (changed.length === 0) return;
  throw new CdsyncError(`its ${changed.join(' and ')} changed since the last snapshot, which is about other records`, {
    code: 'definition_changed',
    hint: 'run with --accept to make what it brings now the new baseline, or give the stream another name',
  });
}
