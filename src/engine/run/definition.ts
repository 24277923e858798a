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

/**
 * What a stream is about. Which keys are asked for is no part of it: a key that is no longer listed is a delete; nor is how
 * the records are read.
 */
export function definitionOf(config: StreamConfig, source: Source | undefined, tenantId: string): Definition {
  const given = config as unknown as Readonly<Record<string, unknown>>;
  const names = ['segment', 'collection', 'scale', 'destinationDataTemplateId', 'query'];
  const filter = config.source === 'index_profiles' ? Object.entries(config.filter).sort() : [];
  const parts: Record<string, unknown> = {
    source: config.source,
    tenant_id: tenantId,
    index: source?.identity.index ?? null,
    filter,
    key: source?.key ?? given.key,
  };
  for (const name of names) if (given[name] !== undefined) parts[name] = given[name];
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
