import { flag, option, templateFaults, verbatim, z } from '../../src/sdk/index.js';

const bodyPart = option(z.unknown(), {
  description: 'A part of the event: a text, a number, a list, or a map.',
  example: '{{ email }}',
  allowed: 'any value',
  template: true,
});

export const eventStreamOptions = {
  stream_id: verbatim({ description: 'The event stream to send events to.', example: 'evs-1' }),
  body: option(z.record(z.string().min(1), bodyPart), {
    description:
      'The event, a map of any depth. `{{ column }}` is replaced by the value of a column; `{{ _op }}`, `{{ _key }}`, `{{ _id }}`, `{{ _stream }}` and `{{ _synced_at }}` describe the change. If a text is one placeholder alone, numbers, lists and the like keep their type. docs/templates.md has filters and tags. Default: the row itself is the event.',
    example: {
      event_id: '{{ _id }}',
      event_type: 'tier_{{ _op }}',
      keys: { email: '{{ email | downcase }}' },
      attributes: { tier: '{{ tier }}' },
    },
    allowed: 'a map',
    check: templateFaults,
  }).optional(),
  collection: verbatim({
    description:
      'The profile collection that the event stream feeds; the service does not report it. cdsync refuses a job that also reads it, because it would react to its own events with new ones, run after run.',
    example: 'col-1',
  }).optional(),
  allow_loop: flag({
    description: 'Lets a job read the collection that its events feed.',
    example: true,
  }).prefault(false),
};

export type EventStreamShape = typeof eventStreamOptions;
