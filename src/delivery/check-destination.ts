import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type DestinationConfig, tableName } from '../config/destination-config.js';
import { asCdsyncError, type CdsyncError } from '../core/errors.js';
import type { Connector, DestinationCheck, DestinationContext, TableDestination } from '../sdk/destination.js';
import type { DeliveryContext } from './delivery.js';
import { TargetNames } from './target-names.js';

/** What a try of a destination has found. */
export interface CheckTarget extends Omit<DestinationCheck, 'reached'> {
  /** Null if it was not reached. */
  readonly reached: string | null;
  readonly error: CdsyncError | undefined;
}

/** For connectors without a check of their own: opens the destination, and describes its tables. */
async function open(
  connector: Connector,
  context: DestinationContext,
  tables: readonly string[],
): Promise<DestinationCheck> {
  if (connector.kind === 'records') {
    await (await connector.open(context)).close();
    return { reached: connector.name, lacks: [], untried: 'cannot be tested before the first delivery' };
  }
  const destination = (await connector.open(context)) as Pick<TableDestination, 'describe' | 'close'>;
  try {
    for (const table of tables) await destination.describe(table);
  } finally {
    await destination.close();
  }
  return { reached: connector.name, lacks: [], untried: 'writing is tested by the first load' };
}

function tablesOf({ connector, streams, table }: DestinationConfig, job: string): string[] {
  if (connector.kind !== 'tables') return [];
  // As a delivery does, each stream chooses alone.
  return streams.map((stream) =>
    new TargetNames(connector.capabilities.identifiers).give(tableName(table, job, stream)),
  );
}

/** Connects to a destination, and looks for what a load needs. Writes nothing; does not throw if the destination fails. */
export async function checkDestination(
  { layout, service, signal, notice }: Pick<DeliveryContext, 'layout' | 'service' | 'signal' | 'notice'>,
  destination: DestinationConfig,
): Promise<CheckTarget> {
  const { name, connector, options } = destination;
  const folder = await mkdtemp(join(tmpdir(), 'cdsync-check-'));
  const context: DestinationContext = {
    destination: name,
    job: layout.job,
    options: options as DestinationContext['options'],
    folder,
    service,
    signal,
    notice: (line) => notice(`destination ${name}: ${line}`),
  };
  const tables = tablesOf(destination, layout.job);
  try {
    const found = await (connector.check?.(context, tables) ?? open(connector, context, tables));
    return { ...found, error: undefined };
  } catch (thrown) {
    const error = asCdsyncError(thrown);
    if (error.kind === 'interrupted') throw error;
    return { reached: null, lacks: [], error };
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
