import type { Index } from '../../client/profile-api.js';
import { asCdsyncError, CdsyncError } from '../../core/errors.js';
import { type Explorer, type Listed, listIndexes, listSegments, tryList } from '../../engine/inspect/explorer.js';
import { onOneLine } from '../../report/discovery.js';
import { profilesOfIndex } from '../../streams/index-profiles.js';
import { membersOfSegment } from '../../streams/segment-members.js';
import type { ListSource } from '../../streams/source.js';
import { usageError } from '../output.js';
import type { Terminal } from '../terminal.js';
import { type Choosable, choiceLines, chooseByAnswer, chooseByName, plannedStreams } from './choice.js';
import type { ConfigPlan } from './config.js';

/** The streams that flags ask for; undefined if there is no such flag. */
export interface WantedStreams {
  readonly index: readonly string[] | undefined;
  readonly segment: readonly string[] | undefined;
}

interface Choice {
  readonly all: readonly Choosable[];
  readonly chosen: readonly Choosable[];
}

/** If the key may not list indexes, the wanted names are taken as ids. */
function listed({ items, error }: Listed<Index>, wanted: WantedStreams): readonly Choosable[] {
  if (error === null) return items;
  if (wanted.index !== undefined) return wanted.index.map((id) => ({ id }));
  throw new CdsyncError(`the indexes cannot be listed: ${error.message}`, {
    code: error.code,
    kind: error.auth ? 'auth' : 'fatal',
    hint: 'give the API key the permission to list indexes, or name one by its id: --index ID',
  });
}

async function chooseIndexes(
  explorer: Explorer,
  wanted: WantedStreams,
  terminal: Terminal | undefined,
): Promise<Choice> {
  const all = listed(await listIndexes(explorer), wanted);
  if (wanted.index !== undefined) return { all, chosen: chooseByName('index', wanted.index, all) };
  if (terminal === undefined) return { all, chosen: wanted.segment === undefined ? all : [] };
  if (all.length === 0) return { all, chosen: [] };
  terminal.list('Indexes of the tenant:', choiceLines(all, onOneLine));
  const question = 'Which ones to read? Numbers or names, separated by commas';
  return { all, chosen: await terminal.ask(question, 'all', (answer) => chooseByAnswer('index', answer, all)) };
}

async function chooseSegments(
  explorer: Explorer,
  { segment }: WantedStreams,
  terminal: Terminal | undefined,
): Promise<Choice> {
  if (segment === undefined && terminal === undefined) return { all: [], chosen: [] };
  const { items: all, error } = await listSegments(explorer);
  if (error !== null) {
    // A user whose key cannot list the segments may still know an id.
    const unseen = (segment ?? []).map((id) => ({ id }));
    return { all: unseen, chosen: unseen };
  }
  if (segment !== undefined) return { all, chosen: chooseByName('segment', segment, all) };
  if (terminal === undefined || all.length === 0) return { all, chosen: [] };
  terminal.list('Segments of the tenant:', choiceLines(all, onOneLine));
  const question = 'Whose members to read? Numbers, names, all or none';
  return { all, chosen: await terminal.ask(question, 'none', (answer) => chooseByAnswer('segment', answer, all)) };
}

/** @throws {CdsyncError} what the client throws, with what could not be read */
async function tryReading(explorer: Explorer, { id, name }: Choosable, source: ListSource): Promise<void> {
  try {
    await tryList(explorer, source);
  } catch (thrown) {
    const error = asCdsyncError(thrown);
    error.stream = onOneLine(name || id);
    throw error;
  }
}

/**
 * Chooses the streams by flags or answers; without either, all indexes. Reads once from each chosen one.
 * @throws {CdsyncError} `usage` if there is nothing to read, or a name fits nothing; what the client throws
 */
export async function chooseStreams(
  explorer: Explorer,
  wanted: WantedStreams,
  terminal: Terminal | undefined,
): Promise<Pick<ConfigPlan, 'streams' | 'others'>> {
  const indexes = await chooseIndexes(explorer, wanted, terminal);
  const segments = await chooseSegments(explorer, wanted, terminal);
  if (indexes.chosen.length + segments.chosen.length === 0) {
    const hint = 'is --tenant-id right? Name what to read: --index NAME, --segment ID';
    throw usageError('there is nothing to read: no index and no segment', hint);
  }
  for (const index of indexes.chosen) await tryReading(explorer, index, profilesOfIndex(index.id));
  for (const segment of segments.chosen) await tryReading(explorer, segment, membersOfSegment(segment.id));
  const taken = new Set<string>();
  const rest = indexes.all.filter((index) => !indexes.chosen.includes(index));
  return {
    streams: [
      ...plannedStreams('index_profiles', indexes.chosen, indexes.all, taken),
      ...plannedStreams('segment_members', segments.chosen, segments.all, taken),
    ],
    others: plannedStreams('index_profiles', rest, indexes.all, taken),
  };
}
