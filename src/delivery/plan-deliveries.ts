import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { asCdsyncError, type CdsyncError } from '../core/errors.js';
import { readFeed } from '../snapshot/feed.js';
import { Database } from '../storage/duckdb.js';
import { checkRules } from './check-destination.js';
import { type DeliveryContext, type DeliveryRequest, destinationContext } from './delivery.js';
import { FileDelivery } from './files/file-delivery.js';
import { RecordDelivery } from './records/record-delivery.js';
import type { PlannedDelivery } from './table/dry-run.js';
import { TableDelivery } from './table/table-delivery.js';

/** The plan of a delivery of one stream. */
export interface PlannedStream {
  readonly destination: string;
  readonly connector: string;
  readonly stream: string;
  /** Undefined if it cannot be said, or if the delivery would be refused. */
  readonly plan: PlannedDelivery | undefined;
  /** Why there is no plan, if nothing is wrong. */
  readonly reason: string | undefined;
  readonly error: CdsyncError | undefined;
}

/**
 * The plans of deliveries to one destination. It connects, reads the record and describes the table; it writes nothing there, nor into
 * the storage folder. It does not throw if a destination fails.
 */
export async function planDeliveries(
  context: DeliveryContext,
  request: DeliveryRequest,
  { showsValues } = { showsValues: false },
): Promise<PlannedStream[]> {
  const { name, connector } = request.destination;
  const planned = (stream: string, rest: Partial<PlannedStream>): PlannedStream => ({
    destination: name,
    connector: connector.name,
    stream,
    plan: undefined,
    reason: undefined,
    error: undefined,
    ...rest,
  });
  const database = await Database.open(context.resources);
  const folder = await mkdtemp(join(tmpdir(), 'cdsync-push-'));
  const planOf = async (stream: string): Promise<PlannedStream> => {
    const feed = await readFeed(context.layout, stream);
    if (feed === undefined) return planned(stream, { reason: 'the stream has no snapshot yet' });
    const session = await database.connect();
    const progress = { destination: name, stream, phase: 'preparing' as const, rows: 0, total: undefined };
    const own = join(folder, stream);
    const destination = { ...destinationContext(context, request.destination, own), isReadOnly: true };
    try {
      const task = { context, request, feed, session, folder: own, progress };
      const plan =
        connector.kind === 'tables'
          ? await new TableDelivery({ ...task, connector }).planned(destination)
          : connector.kind === 'files'
            ? await new FileDelivery({ ...task, connector }).planned()
            : await new RecordDelivery({ ...task, connector }).planned(destination, showsValues);
      return planned(stream, { plan });
    } finally {
      session.close();
    }
  };
  try {
    const found: PlannedStream[] = [];
    let outage: CdsyncError | undefined;
    for (const stream of request.streams) {
      if (outage !== undefined) {
        found.push(planned(stream, { error: outage }));
        continue;
      }
      try {
        await checkRules(context.layout, request.destination);
        found.push(await planOf(stream));
      } catch (thrown) {
        const error = asCdsyncError(thrown);
        if (context.signal.aborted) throw error;
        if (error.kind === 'retryable') outage = error;
        found.push(planned(stream, { error }));
      }
    }
    return found;
  } finally {
    database.close();
    await rm(folder, { recursive: true, force: true });
  }
}
