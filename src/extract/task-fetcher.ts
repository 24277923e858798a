import type pLimit from 'p-limit';
import type { Source } from '../sources/source.js';
import { KeyedFetcher } from './keyed-fetcher.js';
import { type FetchContext, ListFetcher, type ListRequest, type PageFetcher } from './page-fetcher.js';
import { chunkOf } from './partition.js';
import type { ReadTask } from './read-task.js';
import { DetailedFetcher, type RecordDetails } from './record-details.js';
import { windowFetcher } from './window-fetcher.js';

/**
 * Returns the fetcher for the pages of a task.
 * @param limit how many requests for single records may be under way at once, over all tasks of a stream
 * @param details completes the records of the stream, if its pages leave out fields
 */
export function taskFetcher(
  { partition, filter }: ReadTask,
  source: Source,
  context: FetchContext,
  limit: ReturnType<typeof pLimit>,
  details: RecordDetails | undefined,
): PageFetcher {
  const { added } = source;
  if (source.kind === 'list') {
    const attributes = new Map(filter);
    const page = (request: ListRequest) => source.page({ ...request, filter: attributes, withTotal: false });
    return new ListFetcher(context, page, { added, takesLimit: true });
  }
  if (source.kind === 'keyed' && partition.kind === 'keys') {
    const requests = chunkOf(partition.chunk, source.requests);
    return new KeyedFetcher(context, requests, { mayMiss: source.mayMiss, limit });
  }
  if (source.kind === 'windowed' && partition.kind === 'window') {
    const pages = windowFetcher(context, source, { from: partition.from, to: partition.to });
    return details === undefined ? pages : new DetailedFetcher(context, pages, details);
  }
  if (partition.kind === 'record' && details !== undefined) {
    return { fetch: () => details.single(partition.key, context) };
  }
  const one = source.kind === 'windowed' ? source.one : undefined;
  if (partition.kind === 'record' && one !== undefined) {
    const { key } = partition;
    return new KeyedFetcher(context, [{ operation: () => one(key), answers: 'record', added }], {
      mayMiss: true,
      limit,
    });
  }
  throw new TypeError(`a ${source.kind} source has no partition of kind ${partition.kind}`);
}
