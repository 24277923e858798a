import type { Segment } from '../../api/management-api.js';
import type { Index } from '../../api/profile-api.js';
import { streamNameSchema } from '../../config/names.js';
import type { ErrorCode } from '../../core/error-codes.js';
import { asCdsyncError, CdsyncError } from '../../core/errors.js';
import { formatNames } from '../../core/quantities.js';
import { nearest } from '../../core/suggestions.js';
import { type Listed, listIndexes, type ServiceBrowser, tryList } from '../../engine/inspect/explorer.js';
import { sampleIndex } from '../../engine/inspect/sample-index.js';
import { onOneLine } from '../../output/discovery.js';
import { profilesOfIndex } from '../../sources/index-profiles.js';
import { membersOfSegment } from '../../sources/segment-members.js';
import { usageError } from '../output.js';
import type { Terminal } from '../terminal.js';
import type { ConfigPlan, PlannedStream } from './config.js';

const longest = 48;

function cut(text: string, length: number): string {
  return text.slice(0, length).replace(/(?<!_)_+$/, '');
}

function* candidates(text: string, kind: string): Generator<string> {
  const plain = text
    .normalize('NFKD')
    .replace(/\p{M}+/gu, '')
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '_')
    .replace(/^[_0-9]+|(?<!_)_+$/g, '');
  const base = plain === '' ? kind : plain;
  yield cut(base, longest);
  yield `${cut(base, longest - kind.length - 1)}_${kind}`;
  for (let number = 2; ; number += 1) {
    const ending = `_${number}`;
    yield `${cut(base, longest - ending.length)}${ending}`;
  }
}

/**
 * A stream's name, made from the service's name for its source: allowed in a configuration, and not yet taken.
 * @param kind of the stream's records; added to names that are not allowed or taken: `profiles`
 */
export function streamNameFor(text: string, kind: 'profiles' | 'members', taken: ReadonlySet<string>): string {
  for (const name of candidates(text, kind)) {
    if (!taken.has(name) && streamNameSchema.safeParse(name).success) return name;
  }
  throw new TypeError('there is always another number');
}

/** Something that a stream can read, as the service lists it. */
type Choosable = Pick<Index | Segment, 'id' | 'name'> & { readonly description?: string | null | undefined };

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
    near.length > 0 ? `did you mean ${near.join(' or ')}?` : `there are: ${formatNames(names, 10) || 'none'}`,
  );
}

/** The ones with these ids or names, each once, in this order. @throws {CdsyncError} `usage` */
function chooseByName<T extends Choosable>(what: string, wanted: readonly string[], all: readonly T[]): T[] {
  return [...new Set(wanted.map((name) => called(what, name, all)))];
}

/** The ones that the input names: `1, 3`, `all`, `none` or a list of names. @throws {CdsyncError} `usage` */
function chooseByReply<T extends Choosable>(what: string, reply: string, all: readonly T[]): T[] {
  if (reply === 'all') return [...all];
  if (reply === 'none') return [];
  const words = reply
    .split(',')
    .map((word) => word.trim())
    .filter((word) => word !== '');
  const names = words.map((word) => (/^\d+$/.test(word) ? (all[Number(word) - 1]?.id ?? word) : word));
  return chooseByName(what, names, all);
}

/** Lines to choose from: a number, the name, and the service's description. */
function choiceLines(all: readonly Choosable[], shown: (text: string) => string): string[] {
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
  attributes: ReadonlyMap<string, readonly string[]> = new Map(),
): PlannedStream[] {
  const kind = source === 'index_profiles' ? 'profiles' : 'members';
  return chosen.map(({ id, name, description }) => {
    const stream = streamNameFor(name || id, kind, taken);
    taken.add(stream);
    const isUnique = all.filter((choice) => choice.name === name || choice.id === name).length === 1;
    // A segment is requested by its id; an index also by its name, if no other has the same.
    const of = source === 'index_profiles' && name && isUnique ? name : id;
    const about = source === 'segment_members' ? `Members of the segment ${name || id}` : (description ?? null);
    const select = source === 'index_profiles' ? attributes.get(id) : undefined;
    return { name: stream, source, of, about, ...(select === undefined ? {} : { select }) };
  });
}

/** The streams that flags ask for; undefined if there is no such flag. */
interface WantedStreams {
  readonly index: readonly string[] | undefined;
  readonly segment: readonly string[] | undefined;
}

/** If the key may not list indexes, the wanted names are taken as ids. */
function listed({ items, error }: Listed<Index>, wanted: WantedStreams): readonly Choosable[] {
  if (error === null) return items;
  if (wanted.index !== undefined) return wanted.index.map((id) => ({ id }));
  throw new CdsyncError(`the indexes cannot be listed: ${error.message}`, {
    code: error.code as ErrorCode,
    kind: error.auth ? 'auth' : 'fatal',
    hint: 'give the API key the permission to list indexes, or name one by its id: --index ID',
  });
}

async function chooseIndexes(
  explorer: ServiceBrowser,
  wanted: WantedStreams,
  terminal: Terminal | undefined,
): Promise<{ readonly all: readonly Choosable[]; readonly chosen: readonly Choosable[] }> {
  const all = listed(await listIndexes(explorer), wanted);
  if (wanted.index !== undefined) return { all, chosen: chooseByName('index', wanted.index, all) };
  if (terminal === undefined) return { all, chosen: wanted.segment === undefined ? all : [] };
  if (all.length === 0) return { all, chosen: [] };
  terminal.list('Indexes of the tenant:', choiceLines(all, onOneLine));
  const question = 'Which ones to read? Numbers or names, separated by commas';
  return { all, chosen: await terminal.ask(question, 'all', (reply) => chooseByReply('index', reply, all)) };
}

/** @throws {CdsyncError} errors of the client, with the list that could not be read */
async function tryReading<T>({ id, name }: Choosable, read: () => Promise<T>): Promise<T> {
  try {
    return await read();
  } catch (thrown) {
    const error = asCdsyncError(thrown);
    error.stream = onOneLine(name || id);
    throw error;
  }
}

/** Profiles to look at for the attributes of an index: a page or two. */
const sampledProfiles = 1000;

/** The attributes of an index as `select` names them. */
async function attributesOf(explorer: ServiceBrowser, { id }: Choosable): Promise<string[]> {
  const { attributes } = await sampleIndex(explorer, id, { size: sampledProfiles, filters: false });
  const envelope = profilesOfIndex(id).declared.map(({ field }) => field);
  return attributes.flatMap(({ path }) => {
    const [, field] = /^attributes\.(.+)$/s.exec(path) ?? [];
    return field === undefined ? [] : [envelope.includes(field) ? path : field];
  });
}

/** Whether the members of a real-time segment can be read: no operation lists these segments. @throws {CdsyncError} */
async function asked(explorer: ServiceBrowser, id: string): Promise<Choosable> {
  try {
    await tryReading({ id }, () => tryList(explorer, membersOfSegment(id)));
  } catch (thrown) {
    const error = asCdsyncError(thrown);
    if (error.code !== 'not_found') throw error;
    const hint =
      'give the id of a real-time segment, as the user interface shows it; the batch segments of GET /segments have no members to read';
    throw usageError(`the tenant has no real-time segment ${JSON.stringify(id)}`, hint);
  }
  return { id };
}

/** The segments with these ids, each once. @throws {CdsyncError} `usage` if one has no members to read */
async function askedAll(explorer: ServiceBrowser, ids: readonly string[]): Promise<Choosable[]> {
  const choices: Choosable[] = [];
  for (const id of new Set(ids)) choices.push(await asked(explorer, id));
  return choices;
}

async function chooseSegments(
  explorer: ServiceBrowser,
  { segment }: WantedStreams,
  terminal: Terminal | undefined,
): Promise<readonly Choosable[]> {
  if (segment !== undefined) return askedAll(explorer, segment);
  if (terminal === undefined) return [];
  const question = 'Whose members to read? Ids of real-time segments, separated by commas';
  return terminal.ask(question, 'none', (reply) => {
    const ids = reply.split(',').map((id) => id.trim());
    return reply === 'none'
      ? []
      : askedAll(
          explorer,
          ids.filter((id) => id !== ''),
        );
  });
}

/**
 * Chooses the streams by flags or the user's replies; without either, all indexes. Reads once from each chosen one.
 * @throws {CdsyncError} `usage` if there is nothing to read, or a name fits nothing; errors of the client
 */
export async function chooseStreams(
  explorer: ServiceBrowser,
  wanted: WantedStreams,
  terminal: Terminal | undefined,
): Promise<Pick<ConfigPlan, 'streams' | 'others'>> {
  const indexes = await chooseIndexes(explorer, wanted, terminal);
  const segments = await chooseSegments(explorer, wanted, terminal);
  if (indexes.chosen.length + segments.length === 0) {
    const hint = 'is --tenant-id right? Name what to read: --index NAME, --segment ID';
    throw usageError('there is nothing to read: no index and no segment', hint);
  }
  const attributes = new Map<string, readonly string[]>();
  for (const index of indexes.chosen)
    attributes.set(index.id, await tryReading(index, () => attributesOf(explorer, index)));
  const taken = new Set<string>();
  const rest = indexes.all.filter((index) => !indexes.chosen.includes(index));
  return {
    streams: [
      ...plannedStreams('index_profiles', indexes.chosen, indexes.all, taken, attributes),
      ...plannedStreams('segment_members', segments, segments, taken),
    ],
    others: plannedStreams('index_profiles', rest, indexes.all, taken),
  };
}
