import { z } from 'zod';
import { flag, option, verbatim } from '../../src/sdk/index.js';
import { templateFaults } from './template.js';

const bodyPart = option(z.unknown(), {
  description: 'A part of the event: a text, a number, a list, or a map.',
  example: '{{email}}',
  allowed: 'any value',
});

export const eventStreamOptions = {
  stream_id: verbatim({ description: 'The event stream that the events are sent to.', example: 'evs-1' }),
  body: option(z.record(z.string().min(1), bodyPart), {
    description:
      'The event, a map of any depth. `{{column}}` stands for the value of a column, `{{_op}}`, `{{_key}}`, `{{_id}}`, `{{_stream}}` and `{{_synced_at}}` for what is known of the change. Where it is all of a text, numbers, lists and the like stay what they are. Left out, the row itself is the event.',
    example: {
      event_id: '{{_id}}',
      event_type: 'tier_{{_op}}',
      keys: { email: '{{email}}' },
      attributes: { tier: '{{tier}}' },
    },
    allowed: 'a map',
    check: templateFaults,
  }).optional(),
  collection: verbatim({
    description:
      'The profile collection that the event stream feeds, which the service does not tell. A job that reads it too would answer its own events with new ones, run after run, and is refused.',
    example: 'col-1',
  }).optional(),
  allow_loop: flag({
    description: 'Lets a job read the collection that its events feed.',
    example: true,
  }).prefault(false),
};

export type EventStreamShape = typeof eventStreamOptions;
