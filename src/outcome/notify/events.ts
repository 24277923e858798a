import type { NotifyOptions, RunEvent } from '../../config/config.js';
import type { RunEnd } from '../run-end.js';
import type { Unusual } from '../unusual.js';

/** How the last run that was not interrupted has ended; undefined before the first. A failure in part is a failure. */
export type Settled = 'ok' | 'held' | 'failed' | undefined;

/**
 * Something that is true of a run, as receivers remember it: an event, and for `unusual` which figure of which stream, so that
 * another figure is news.
 */
export type Fact = string;

/** What `settled` is after a run. An interrupted run changes nothing. */
export function settledBy(status: RunEnd['status'], before: Settled): Settled {
  if (status === 'interrupted') return before;
  return status === 'partial' ? 'failed' : status;
}

function eventOf(fact: Fact): RunEvent {
  return fact.split(':')[0] as RunEvent;
}

/** Everything that is true of a run. */
export function factsOf(status: RunEnd['status'], before: Settled, unusual: readonly Unusual[]): Fact[] {
  const recovered = status === 'ok' && before !== undefined && before !== 'ok';
  return [
    status,
    ...(status === 'partial' ? ['failed'] : []),
    ...(recovered ? ['recovered'] : []),
    ...unusual.map(({ stream, figure }) => `unusual:${stream}.${figure}`),
  ];
}

/**
 * The events that a receiver is told of: those in its `on` that were not true before.
 * @param known the facts that it remembers
 */
export function eventsToTell(
  { on, every }: Pick<NotifyOptions, 'on' | 'every'>,
  facts: readonly Fact[],
  known: readonly Fact[],
): RunEvent[] {
  const news = facts.filter((fact) => every || !known.includes(fact)).map(eventOf);
  return on.filter((event, index) => news.includes(event) && on.indexOf(event) === index);
}

/** What a receiver remembers after a run. An interruption does not make it forget: a job that failed before it still fails. */
export function remembered(status: RunEnd['status'], facts: readonly Fact[], known: readonly Fact[]): Fact[] {
  return status === 'interrupted' ? [...known.filter((fact) => fact !== 'interrupted'), ...facts] : [...facts];
}
