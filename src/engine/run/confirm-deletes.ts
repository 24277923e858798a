import pLimit from 'p-limit';
import { type RequestCounts, type ServiceClient, ServiceError } from '../../api/client.js';
import { CdsyncError } from '../../core/errors.js';
import { copyTrimmed } from '../../extract/scan/json-bytes.js';
import type { ConcurrencyController } from '../../rate-limit/concurrency.js';
import type { Confirmable } from './stream-reader.js';

interface ConfirmTask {
  readonly stream: string;
  readonly keys: readonly string[];
  /** The request for one record. */
  readonly one: NonNullable<Confirmable['one']>;
  /** Adds a record to what was read. @returns whether it was kept */
  readonly add: Confirmable['addSingle'];
  readonly meter: RequestCounts;
  readonly client: ServiceClient;
  readonly signal: AbortSignal;
  readonly atOnce: ConcurrencyController;
}

/**
 * Asks the service for each record that a reading did not bring. An index changes while it is read, so an absent key is
 * only a candidate for a delete. A 404 confirms the delete; a record that comes is added to the reading.
 * @returns how many records came
 */
export async function confirmDeletes(task: ConfirmTask): Promise<number> {
  const { one, add, client, signal, keys, atOnce, meter } = task;
  const limit = pLimit(atOnce.count);
  const end = atOnce.govern(limit);
  let present = 0;
  let failed = false;
  const ask = async (key: string) => {
    if (failed) return;
    try {
      const body = await client.send(one(key), copyTrimmed, { signal, meter });
      if (await add(key, body)) present += 1;
    } catch (error) {
      if (error instanceof ServiceError && error.status === 404) return;
      failed = true;
      throw error;
    }
  };
  const outcomes = await Promise.allSettled(keys.map((key) => limit(() => ask(key))));
  end();
  const failure = outcomes.find((outcome) => outcome.status === 'rejected');
  if (failure !== undefined) throw confirmError(failure.reason, task.stream);
  return present;
}

function confirmError(reason: unknown, stream: string): unknown {
  if (reason instanceof CdsyncError) reason.stream ??= stream;
  return reason;
}
