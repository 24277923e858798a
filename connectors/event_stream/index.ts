import { type JobStream, type OptionValues, recordConnector } from '../../src/sdk/index.js';
import { type EventStreamShape, eventStreamOptions } from './options.js';
import { EventStreamDestination } from './send.js';
import { eventsAtOnce } from './types.js';

/** Events move the profiles of a collection (specification, section 6): a job that reads it would react to its own events. */
function loops({ collection, allowLoop }: OptionValues<EventStreamShape>, streams: readonly JobStream[]) {
  if (allowLoop) return [];
  return streams
    .filter((stream) => stream.collection !== undefined && (collection ?? stream.collection) === stream.collection)
    .slice(0, 1)
    .map((stream) => ({
      path: [],
      message:
        collection === undefined
          ? `stream "${stream.name}" reads collection "${stream.collection}", and it is not known which one these events feed: name it with \`collection\`, or permit a loop with \`allow_loop: true\``
          : `these events feed collection "${collection}", which stream "${stream.name}" reads: every run would answer its own events; permit it with \`allow_loop: true\``,
    }));
}

export default recordConnector({
  name: 'event_stream',
  summary: "Sends rows as events to one of the service's event streams. Events move the profiles of a collection.",
  options: eventStreamOptions,
  usesService: true,
  // One by one, so that after a crash only those are sent again that were under way.
  capabilities: { batchRecords: 1, batchesAtOnce: eventsAtOnce },
  checkStreams: loops,

  async open({ options, service }) {
    return new EventStreamDestination(service, options);
  },
});
