import { createHash } from 'node:crypto';
import type { StreamConfig } from '../../config/config.js';
import { CdsyncError } from '../../core/errors.js';
import type { Source } from '../../sources/source.js';

/** The options that decide which records a stream is about, each as a digest: a filter may contain a person's name. */
export type Definition = Readonly<Record<string, string>>;

function digest(value: unknown): string {
  return createHash('sha256')
    .update(JSON.stringify(value) ?? 'null')
    .digest('hex')
    .slice(0, 16);
}

/** The definition of a stream: all its options except those that its source lists as `notDefining`. */
export function definitionOf(config: StreamConfig, source: Source | undefined, tenantId: string): Definition {
  const { key, definition } = config.reads;
  // Stores of version 0.1.0 have an index and a filter for every stream.
  const always = { source: config.source, tenant_id: tenantId, index: null, filter: [], key };
  const parts = { ...always, ...definition, ...source?.resolved };
  return Object.fromEntries(Object.entries(parts).map(([name, value]) => [name, digest(value)]));
}

/** @throws {CdsyncError} `definition_changed` if the last snapshot is about other records */
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
