import type { Index } from '../../api/profile-api.js';
import type { ErrorCode } from '../../core/error-codes.js';
import { asCdsyncError, CdsyncError } from '../../core/errors.js';
import { type Listed, listIndexes, type ServiceBrowser, tryList } from '../../engine/inspect/explorer.js';
import { onOneLine } from '../../output/discovery.js';
import { profilesOfIndex } from '../../sources/index-profiles.js';
import { membersOfSegment } from '../../sources/segment-members.js';
import type { ListSource } from '../../sources/source.js';
import { usageError } from '../output.js';
import type { Terminal } from '../terminal.js';
import { type Choosable, choiceLines, chooseByAnswer, chooseByName, plannedStreams } from './choice.js';
import type { ConfigPlan } from './config.js';

/** The streams that flags ask for; undefined if there is no such flag. */
interface WantedStreams {
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
    code: error.code as ErrorCode,
    kind: error.auth ? 'auth' : 'fatal',
    hint: 'give the API key the permission to list indexes, or name one by its id: --index ID',
  });
}

async function chooseIndexes(
  explorer: ServiceBrowser,
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

/** @throws {CdsyncError} what the client throws, with what could not be read */
async function tryReading(explorer: ServiceBrowser, { id, name }: Choosable, source: ListSource): Promise<void> {
  try {
    await tryList(explorer, source);
  } catch (thrown) {
    const error = asCdsyncError(thrown);
    error.stream = onOneLine(name || id);
    throw error;
  }
}

/** Whether the members of a real-time segment can be read: no operation lists these segments. @throws {CdsyncError} */
async function asked(explorer: ServiceBrowser, id: string): Promise<Choosable> {
  try {
    await tryReading(explorer, { id }, membersOfSegment(id));
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
  const found: Choosable[] = [];
  for (const id of new Set(ids)) found.push(await asked(explorer, id));
  return found;
}

async function chooseSegments(
  explorer: ServiceBrowser,
  { segment }: WantedStreams,
  terminal: Terminal | undefined,
): Promise<readonly Choosable[]> {
  if (segment !== undefined) return askedAll(explorer, segment);
  if (terminal === undefined) return [];
  const question = 'Whose members to read? Ids of real-time segments, separated by commas';
  return terminal.ask(question, 'none', (answer) => {
    const ids = answer.split(',').map((id) => id.trim());
    return answer === 'none'
      ? []
      : askedAll(
          explorer,
          ids.filter((id) => id !== ''),
        );
  });
}

/**
 * Chooses the streams by flags or answers; without either, all indexes. Reads once from each chosen one.
 * @throws {CdsyncError} `usage` if there is nothing to read, or a name fits nothing; what the client throws
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
  for (const index of indexes.chosen) await tryReading(explorer, index, profilesOfIndex(index.id));
  const taken = new Set<string>();
  const rest = indexes.all.filter((index) => !indexes.chosen.includes(index));
  return {
    streams: [
      ...plannedStreams('index_profiles', indexes.chosen, indexes.all, taken),
      ...plannedStreams('segment_members', segments, segments, taken),
    ],
    others: plannedStreams('index_profiles', rest, indexes.all, taken),
  };
}
