import {
  BodyTemplate,
  type JobStream,
  type OptionValues,
  recordConnector,
  unknownColumns,
} from '../../src/sdk/index.js';
import { type EventStreamShape, eventStreamOptions } from './options.js';
import { EventStreamDestination } from './send.js';

/** Most events under way at the same time. */
const eventsAtOnce = 64;

/** Events change the profiles of a collection (specification, section 6): a job that reads it would react to its own events. */
function loops({ collection, allowLoop }: OptionValues<EventStreamShape>, streams: readonly JobStream[]) {
  if (allowLoop) return [];
  return streams
    .filter((stream) => stream.collection !== undefined && (collection ?? stream.collection) === stream.collection)
    .slice(0, 1)
    .map((stream) => ({
      path: [],
      message:
        collection === undefined
          ? `stream "${stream.name}" reads collection "${stream.collection}", and these events may feed the same one: name their collection with \`collection\`, or allow a loop with \`allow_loop: true\``
          : `these events feed collection "${collection}", which stream "${stream.name}" reads: every run would react to its own events; allow it with \`allow_loop: true\``,
    }));
}

export default recordConnector({
  name: 'event_stream',
  summary: "Sends rows as events to one of the service's event streams. Events move the profiles of a collection.",
  erasure:
    'it gets a delete with the key alone, unless its mode is upsert; events that were sent stay with the service',
  options: eventStreamOptions,
  usesService: true,
  // One record a batch, so that after a crash only the events that were under way are sent again.
  capabilities: { batchRecords: 1, batchesAtOnce: eventsAtOnce },
  checkStreams: loops,
  checkColumns: ({ body }, stream) =>
    body === undefined ? [] : unknownColumns(new BodyTemplate(body), stream, ['body']),

  // The service has no request that tries an event stream without an event.
  check: async ({ options }) => ({
    reached: `event stream ${options.streamId}`,
    lacks: [],
    untried: 'whether it takes events shows the first delivery',
  }),

  async open({ options, service }) {
    return new EventStreamDestination(service, options);
  },
});
