import { readDeliveryState } from '../../delivery/delivery-state.js';
import type { JobLayout } from '../../storage/layout.js';
import { namesIn } from '../../storage/storage.js';

/** A destination of the configuration, and the streams that it gets. */
export interface Receiver {
  readonly name: string;
  readonly streams: readonly string[];
  /** Where its connector may leave copies of erased rows. */
  readonly erasure?: string | undefined;
  /** Default: true. */
  readonly sendsDeletes?: boolean;
}

/** A stream at a destination that may have rows of erased people. */
export interface ErasureDestination {
  name: string;
  stream: string;
  /**
   * `waiting`: the next delivery erases the rows. `not_configured`: nothing does, because the configuration no longer has it.
   * `sends_no_deletes`: nothing does, because it is configured so.
   */
  status: 'waiting' | 'not_configured' | 'sends_no_deletes';
  /** Where copies may stay; null if nothing is known of that. */
  remains: string | null;
}

const left =
  'the configuration no longer delivers the stream there: delete the rows yourself, or configure it again and push';

const untold = 'as it is configured, no deletes are sent there: erase the person there yourself';

/** Destinations that something was delivered to and that the configuration no longer has for a stream. */
async function unconfigured(layout: JobLayout, receivers: readonly Receiver[]): Promise<ErasureDestination[]> {
  const places: ErasureDestination[] = [];
  for (const name of await namesIn(layout.deliveries)) {
    const { streams } = await readDeliveryState(layout, name);
    for (const stream of Object.keys(streams)) {
      const isConfigured = receivers.some((receiver) => receiver.name === name && receiver.streams.includes(stream));
      if (!isConfigured) places.push({ name, stream, status: 'not_configured', remains: left });
    }
  }
  return places;
}

/** The destinations that may have rows of these streams; those that left the configuration too. */
export async function erasureDestinations(
  layout: JobLayout,
  receivers: readonly Receiver[],
  streams: readonly string[],
): Promise<ErasureDestination[]> {
  const configured = receivers.flatMap(({ name, streams: delivered, erasure = null, sendsDeletes = true }) =>
    delivered.map(
      (stream): ErasureDestination =>
        sendsDeletes
          ? { name, stream, status: 'waiting', remains: erasure }
          : { name, stream, status: 'sends_no_deletes', remains: untold },
    ),
  );
  const all = [...configured, ...(await unconfigured(layout, receivers))];
  return all.filter(({ stream }) => streams.includes(stream));
}
