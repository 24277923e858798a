import type { Source, Window } from '../streams/source.js';

/*
 * What journals call the chains of a stream. What one reads stands behind the first letter of its name: `=<value>` of the
 * partitioning attribute, `><from>/<to>` of time, `!<key>` of one record, `#<number>` of the chunks of keys.
 */

/** The chain that reads the list unpartitioned. */
export const whole = '*';
/** The second unpartitioned reading, which decides about too many absent keys. */
export const wholeAgain = '**';
/** Records that were asked for one by one. */
export const single = '+';
/** Records that are asked for by key become one batch of requests, the unit of restart. */
const chunkKeys = 200;

/** The chains that read a stream completely. */
export function partitionNames({
  source,
  partition,
  windows,
  unfinished,
}: {
  readonly source: Source;
  readonly partition: { readonly values: readonly string[] } | undefined;
  readonly windows: readonly Window[];
  readonly unfinished: readonly string[];
}): string[] {
  if (source.kind === 'windowed') {
    return [...windows.map(({ from, to }) => `>${from}/${to}`), ...unfinished.map((key) => `!${key}`)];
  }
  if (source.kind === 'keyed') {
    return Array.from({ length: Math.ceil(source.requests.length / chunkKeys) }, (_, index) => `#${index}`);
  }
  return partition === undefined ? [whole] : partition.values.map((value) => `=${value}`);
}

/** The value of the partitioning attribute that a chain asks for. */
export function filteredValue(partition: string): string | undefined {
  return partition.startsWith('=') ? partition.slice(1) : undefined;
}

/** The key of the one record that a chain asks for. */
export function recordOf(partition: string): string | undefined {
  return partition.startsWith('!') ? partition.slice(1) : undefined;
}

/** The requests of a chunk. */
export function chunkOf<T>(partition: string, requests: readonly T[]): readonly T[] {
  const from = Number(partition.slice(1)) * chunkKeys;
  return requests.slice(from, from + chunkKeys);
}

/** The windows of time that chains read. */
export function windowsOf(partitions: readonly string[]): Window[] {
  return partitions.flatMap((name) => {
    const [from, to] = name.startsWith('>') ? name.slice(1).split('/') : [];
    return from === undefined || to === undefined ? [] : [{ from, to }];
  });
}
