import type { Segment } from '../../api/management-api.js';
import type { Index } from '../../api/profile-api.js';
import { nearest } from '../../core/suggestions.js';
import { usageError } from '../output.js';
import type { PlannedStream } from './config.js';
import { streamNameFor } from './names.js';

/** Something that a stream can read, as the service lists it. */
export type Choosable = Pick<Index | Segment, 'id' | 'name'> & { readonly description?: string | null | undefined };

/** The one with this id or name. @throws {CdsyncError} `usage` with the nearest names */
function called<T extends Choosable>(what: string, wanted: string, all: readonly T[]): T {
  const byId = all.find(({ id }) => id === wanted);
  if (byId !== undefined) return byId;
  const [first, ...more] = all.filter(({ name }) => name === wanted);
  if (first !== undefined && more.length === 0) return first;
  if (first !== undefined) {
    const ids = [first, ...more].map(({ id }) => id).join(', ');
    throw usageError(`several are called ${JSON.stringify(wanted)}`, `give the id instead: ${ids}`);
  }
  const names = all.flatMap(({ id, name }) => (name ? [name] : [id]));
  const near = nearest(wanted, names);
  throw usageError(
    `the tenant has no ${what} ${JSON.stringify(wanted)}`,
    near.length > 0 ? `did you mean ${near.join(' or ')}?` : `there are: ${names.slice(0, 10).join(', ')}`,
  );
}

/** The ones with these ids or names, each once, in this order. @throws {CdsyncError} `usage` */
export function chooseByName<T extends Choosable>(what: string, wanted: readonly string[], all: readonly T[]): T[] {
  return [...new Set(wanted.map((name) => called(what, name, all)))];
}

/** The ones that an answer means: `1, 3`, `all`, `none` or a list of names. @throws {CdsyncError} `usage` */
export function chooseByAnswer<T extends Choosable>(what: string, answer: string, all: readonly T[]): T[] {
  if (answer === 'all') return [...all];
  if (answer === 'none') return [];
  const words = answer
    .split(',')
    .map((word) => word.trim())
    .filter((word) => word !== '');
  const names = words.map((word) => (/^\d+$/.test(word) ? (all[Number(word) - 1]?.id ?? word) : word));
  return chooseByName(what, names, all);
}

/** Lines to choose from: a number, the name, and what the service says of it. */
export function choiceLines(all: readonly Choosable[], shown: (text: string) => string): string[] {
  const width = String(all.length).length;
  return all.map(({ id, name, description }, index) => {
    const about = description ? `: ${shown(description)}` : '';
    return `  ${String(index + 1).padStart(width)}  ${shown(name || id)}${about}`;
  });
}

/** One stream for each chosen index or segment, each with its own name. */
export function plannedStreams(
  source: PlannedStream['source'],
  chosen: readonly Choosable[],
  all: readonly Choosable[],
  taken: Set<string>,
): PlannedStream[] {
  const kind = source === 'index_profiles' ? 'profiles' : 'members';
  return chosen.map(({ id, name, description }) => {
    const stream = streamNameFor(name || id, kind, taken);
    taken.add(stream);
    const isTold = all.filter((each) => each.name === name || each.id === name).length === 1;
    // A segment is requested by its id; an index also by its name, if no other has the same.
    const of = source === 'index_profiles' && name && isTold ? name : id;
    const about = source === 'segment_members' ? `Members of the segment ${name || id}` : (description ?? null);
    return { name: stream, source, of, about };
  });
}
