import { isAskable } from '../api/request.js';
import { CdsyncError } from '../core/errors.js';
import type { Pass } from '../core/run-report.js';
import { z } from '../core/zod.js';
import type { Source, Window } from '../sources/source.js';
import type { SplitPart } from '../sources/splits.js';

export const partitionSchema = z.discriminatedUnion('kind', [
  /** The list, unpartitioned. */
  z.object({ kind: z.literal('whole') }),
  /** The list in one response to a request without parameters. */
  z.object({ kind: z.literal('answer') }),
  /** The list once more, unpartitioned, to find records that the first reading missed. */
  z.object({ kind: z.literal('again') }),
  /** The records with one value of the partitioning attribute. */
  z.object({ kind: z.literal('value'), value: z.string() }),
  /** The records with these values, of one attribute or several. It names them itself: each run chooses them again. */
  z.object({ kind: z.literal('values'), values: z.array(z.tuple([z.string(), z.string()])) }),
  /** A span of time; `to` is excluded. */
  z.object({ kind: z.literal('window'), from: z.string(), to: z.string() }),
  /** One unfinished record of a list that is read in windows of time. */
  z.object({ kind: z.literal('record'), key: z.string() }),
  /** A chunk of the records that are requested by key, numbered from 0. */
  z.object({ kind: z.literal('keys'), chunk: z.number() }),
  /** Records that were requested one by one because a reading did not return them. */
  z.object({ kind: z.literal('single') }),
]);

/** The portion of a stream that one chain of pages reads. */
export type Partition = z.infer<typeof partitionSchema>;

/**
 * What messages call a partition; undefined for a whole list.
 * @param attribute the partitioning attribute of the configuration
 * @param hides whether messages must not show values of an attribute
 */
export function partitionLabel(
  partition: Partition,
  { attribute, hides }: { readonly attribute: string | undefined; readonly hides: (attribute: string) => boolean },
): string | undefined {
  const shown = (name: string, value: string) => (hides(name) ? name : `${name}=${value}`);
  switch (partition.kind) {
    case 'value':
      return `partition ${shown(attribute ?? 'value', partition.value)}`;
    case 'values':
      return `partition ${partition.values.map(([name, value]) => shown(name, value)).join(', ')}`;
    case 'window':
      return `records from ${partition.from} to ${partition.to}`;
    case 'keys':
      return `ids ${partition.chunk * chunkKeys + 1} to ${(partition.chunk + 1) * chunkKeys}`;
    case 'record':
      return `record ${partition.key}`;
    default:
      return undefined;
  }
}

/** How many requests by key form one chunk. A chunk is the unit of restart. */
const chunkKeys = 200;

/** The name of a partition in the journal. */
export function partitionName(partition: Partition): string {
  switch (partition.kind) {
    case 'whole':
      return '*';
    case 'answer':
      return '.';
    case 'again':
      return '**';
    case 'single':
      return '+';
    case 'value':
      return `=${partition.value}`;
    case 'values':
      return `&${JSON.stringify(partition.values)}`;
    case 'window':
      return `>${partition.from}/${partition.to}`;
    case 'record':
      return `!${partition.key}`;
    case 'keys':
      return `#${partition.chunk}`;
  }
}

/**
 * The partition with a given name in the journal.
 * @throws {CdsyncError} `state_unreadable` if this version gives no such name
 */
export function partitionNamed(name: string): Partition {
  if (name === '*') return { kind: 'whole' };
  if (name === '.') return { kind: 'answer' };
  if (name === '**') return { kind: 'again' };
  if (name === '+') return { kind: 'single' };
  const rest = name.slice(1);
  if (name.startsWith('=')) return { kind: 'value', value: rest };
  const values = name.startsWith('&') ? valuesIn(rest) : undefined;
  if (values !== undefined) return { kind: 'values', values };
  if (name.startsWith('!')) return { kind: 'record', key: rest };
  if (/^#(0|[1-9]\d{0,14})$/.test(name)) return { kind: 'keys', chunk: Number(rest) };
  const [from, to, ...more] = name.startsWith('>') ? rest.split('/') : [];
  if (from !== undefined && to !== undefined && more.length === 0) return { kind: 'window', from, to };
  throw new CdsyncError('a checkpoint names a partition of an unknown kind', {
    code: 'state_unreadable',
    hint: 'a newer cdsync may have written it: run that one, or remove the run with cdsync state reset',
  });
}

/** The values in the name of a partition; undefined if this version writes no such name. */
function valuesIn(text: string): [string, string][] | undefined {
  try {
    const values = z.array(z.tuple([z.string(), z.string()])).parse(JSON.parse(text));
    return JSON.stringify(values) === text ? values : undefined;
  } catch {
    return undefined;
  }
}

/** How a list is split into chains: by the values of the configured attribute, or into parts that the run has chosen. */
export type ListSplit =
  | { readonly attribute: string; readonly values: readonly string[] }
  | { readonly parts: readonly SplitPart[] };

/** The partitions of a split list. */
function partitionsIn(split: ListSplit): Partition[] {
  if ('values' in split) return split.values.map((value) => ({ kind: 'value', value }));
  return split.parts.map(({ values }) => ({ kind: 'values', values: values.map(([name, value]) => [name, value]) }));
}

/** Whether a partition is a part of a split list. */
export function isListPart({ kind }: Partition): boolean {
  return kind === 'value' || kind === 'values';
}

/** How a list is read in parts. */
export interface ReadingSplit {
  readonly attributes: readonly string[];
  readonly chains: number;
  /** How many records only one more pass over the whole list has returned; null if the parts were enough. */
  readonly missed: number | null;
}

/** @param passes those over the list besides the first @returns undefined if the list is read as one */
export function splitOf(
  partitions: readonly Partition[],
  configured: ListSplit | undefined,
  passes: readonly Pass[],
): ReadingSplit | undefined {
  const parts = partitions.filter(isListPart);
  const [first] = parts;
  if (first === undefined) return undefined;
  const attribute = configured !== undefined && 'attribute' in configured ? [configured.attribute] : [];
  const attributes = first.kind === 'values' ? first.values.map(([name]) => name) : attribute;
  const missed = passes.find(({ reason }) => reason === 'parts')?.added ?? null;
  return { attributes, chains: parts.length, missed };
}

/** The partitions that together make the whole stream. */
export function partitionsOf({
  source,
  partition,
  windows,
  unfinished,
}: {
  readonly source: Source;
  readonly partition: ListSplit | undefined;
  readonly windows: readonly Window[];
  readonly unfinished: readonly string[];
}): Partition[] {
  if (source.kind === 'windowed') {
    return [
      ...windows.map(({ from, to }) => ({ kind: 'window', from, to }) as const),
      // A record that no request can be made for stays as it is.
      ...unfinished.filter(isAskable).map((key) => ({ kind: 'record', key }) as const),
    ];
  }
  if (source.kind === 'keyed') {
    const chunks = Math.ceil(source.requests.length / chunkKeys);
    return Array.from({ length: chunks }, (_, chunk) => ({ kind: 'keys', chunk }));
  }
  const parts = partition === undefined ? [] : partitionsIn(partition);
  return parts.length === 0 ? [{ kind: 'whole' }] : parts;
}

/** The requests of a chunk. */
export function chunkOf<T>(chunk: number, requests: readonly T[]): readonly T[] {
  return requests.slice(chunk * chunkKeys, (chunk + 1) * chunkKeys);
}

/** The windows of time among the partitions of a journal. */
export function windowsOf(names: readonly string[]): Window[] {
  return names.flatMap((name) => {
    const partition = partitionNamed(name);
    return partition.kind === 'window' ? [{ from: partition.from, to: partition.to }] : [];
  });
}
