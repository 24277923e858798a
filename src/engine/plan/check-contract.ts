import type { StreamConfig } from '../../config/config.js';
import { asCdsyncError } from '../../core/errors.js';
import { hashVersion } from '../../rows/row-hash.js';
import { SnapshotStore } from '../../snapshot/snapshot-store.js';
import { describeViolations, violations } from '../run/enforce-contract.js';
import { openStream } from '../run/read-stream.js';
import { type Before, readBefore } from '../run/recover.js';
import type { RunContext } from '../run-context.js';
import { sampleStream } from './sample-stream.js';

/** Compares the service's present records with the columns of a stream's last snapshot. */
export interface ContractCheck {
  readonly name: string;
  /** Number of records in the sample. */
  readonly records: number;
  /** New columns and values that do not fit, in words. */
  readonly differences: readonly string[];
  /** Whether the stream's contract would fail it, or leave something out. */
  readonly breaks: boolean;
}

/** @returns undefined if there is nothing to compare: no snapshot, or nothing to ask the service for */
async function checkOne(
  context: RunContext,
  config: StreamConfig,
  { store, before }: { store: SnapshotStore; before: Before },
): Promise<ContractCheck | undefined> {
  const previous = before.streams.get(config.name);
  if (previous === undefined) return undefined;
  const meter = { requests: 0, retries: 0, throttled: 0, bytes: 0 };
  const { session } = store;
  const opened = await openStream(context, { config, meter, previous, session });
  if (opened.source === undefined) return undefined;
  const sample = await sampleStream(context, {
    opened,
    source: opened.source,
    previous,
    pageSize: config.reads.pageSize ?? context.config.service.pageSize,
    filter: config.reads.filter,
    hashVersion: hashVersion(before.duckdbVersion),
    meter,
    session,
  });
  if (sample === undefined) return undefined;
  const found = violations(sample.columns, previous.columns);
  const { columns, types } = config.contract;
  const breaks = (columns !== 'evolve' && found.added.length > 0) || (types !== 'evolve' && found.widened.length > 0);
  return { name: config.name, records: sample.records, differences: describeViolations(found), breaks };
}

/**
 * Compares a page or two of each stream with the columns of its last published snapshot. It skips streams that cannot be
 * read: the rest of the check reports them. Writes nothing.
 */
export async function checkContracts(context: RunContext): Promise<ContractCheck[]> {
  const { database, layout, job, salts } = context;
  await salts.define(database, job);
  const store = await SnapshotStore.openPublished(database, layout);
  if (store === undefined) return [];
  const checks: ContractCheck[] = [];
  try {
    const { before } = await readBefore(store, context);
    for (const config of job.streams) {
      try {
        const check = await checkOne(context, config, { store, before });
        if (check !== undefined) checks.push(check);
      } catch (error) {
        if (asCdsyncError(error).kind === 'interrupted') throw error;
      }
    }
  } finally {
    await store.close();
  }
  return checks;
}
