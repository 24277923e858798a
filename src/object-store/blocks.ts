import { createHash } from 'node:crypto';
import { open } from 'node:fs/promises';
import type { ObjectParts } from './state.js';

/*
 * A DuckDB file changes in place: a commit writes new blocks, and the headers. So the bucket gets only the blocks that differ from
 * those that it has, together as one object, and the file is then pieces of several objects.
 */

/** The headers before the first block of a DuckDB file, and the blocks themselves. */
const headBytes = 12_288;
export const blockBytes = 262_144;

/** If the objects that have pieces of a file are this many, or this many times its length, it is put as a whole again. */
const maxObjects = 64;
const maxWaste = 2;
/** The blocks are put together in memory. */
const maxPacked = 256 * 1024 * 1024;

/** Where block `index` of a file of `size` bytes is. */
export function blockAt(index: number, size: number): { readonly from: number; readonly bytes: number } {
  const from = index === 0 ? 0 : headBytes + (index - 1) * blockBytes;
  const to = Math.min(size, headBytes + index * blockBytes);
  return { from, bytes: Math.max(0, to - from) };
}

function blockCount(size: number): number {
  return size <= headBytes ? (size === 0 ? 0 : 1) : 1 + Math.ceil((size - headBytes) / blockBytes);
}

/** A file as the hashes of its blocks. */
export interface Blocks {
  readonly bytes: number;
  readonly sha256: string;
  readonly hashes: readonly string[];
}

/** Reads a file once, for its checksum and those of its blocks. */
export async function blocksOf(path: string): Promise<Blocks> {
  const handle = await open(path, 'r');
  try {
    const { size } = await handle.stat();
    const whole = createHash('sha256');
    const hashes: string[] = [];
    const buffer = Buffer.allocUnsafe(blockBytes);
    for (let index = 0; index < blockCount(size); index += 1) {
      const { from, bytes } = blockAt(index, size);
      const block = buffer.subarray(0, bytes);
      await readAt(handle, block, from);
      whole.update(block);
      // Half of a checksum distinguishes the blocks of one file.
      hashes.push(createHash('sha256').update(block).digest('hex').slice(0, 32));
    }
    return { bytes: size, sha256: whole.digest('hex'), hashes };
  } finally {
    await handle.close();
  }
}

interface Readable {
  read(buffer: Buffer, offset: number, length: number, position: number): Promise<{ bytesRead: number }>;
}

/** Fills a buffer from a position of a file. @throws {RangeError} if the file is shorter */
export async function readAt(handle: Readable, buffer: Buffer, position: number): Promise<void> {
  for (let done = 0; done < buffer.length; ) {
    const { bytesRead } = await handle.read(buffer, done, buffer.length - done, position + done);
    if (bytesRead === 0) throw new RangeError('a file became shorter while it was read');
    done += bytesRead;
  }
}

/** What to put of a file: `changed` are the blocks of the new object, in this order; their ranges name it by the index `objects.length`. */
interface Patch {
  readonly changed: readonly number[];
  /** Bytes of the new object. */
  readonly bytes: number;
  /** The objects that are used again. */
  readonly objects: ObjectParts['objects'];
  readonly ranges: ObjectParts['ranges'];
}

/**
 * How a file is made of pieces that the bucket has, and of a new object with the other blocks.
 * @returns undefined if it is better put as a whole
 */
export function patchOf(before: { blocks: Blocks; pieces: ObjectParts }, current: Blocks): Patch | undefined {
  const places = new Map<string, readonly [object: number, offset: number]>();
  for (const [index, hash] of before.blocks.hashes.entries()) {
    const { from, bytes } = blockAt(index, before.blocks.bytes);
    const place = placeOf(before.pieces, from, bytes);
    if (place !== undefined) places.set(`${hash} ${bytes}`, place);
  }
  const old: [number, number, number][] = [];
  const changed: number[] = [];
  let packed = 0;
  for (const [index, hash] of current.hashes.entries()) {
    const { bytes } = blockAt(index, current.bytes);
    const place = places.get(`${hash} ${bytes}`);
    if (place !== undefined) old.push([place[0], place[1], bytes]);
    else {
      old.push([-1, packed, bytes]);
      changed.push(index);
      packed += bytes;
    }
  }
  const used = [...new Set(old.map(([object]) => object))].filter((object) => object >= 0).sort((a, b) => a - b);
  const objects = used.flatMap((object) => before.pieces.objects[object] ?? []);
  const kept = objects.reduce((sum, { bytes }) => sum + bytes, 0);
  if (
    packed * 2 > current.bytes ||
    packed > maxPacked ||
    objects.length >= maxObjects ||
    kept + packed > current.bytes * maxWaste
  )
    return undefined;
  const ranges = joined(
    old.map(([object, offset, bytes]) => [object < 0 ? objects.length : used.indexOf(object), offset, bytes]),
  );
  return { changed, bytes: packed, objects, ranges };
}

/** Where bytes of a file are, if they are next to each other in one object. */
function placeOf({ ranges }: ObjectParts, from: number, bytes: number): readonly [number, number] | undefined {
  let at = 0;
  for (const [object, offset, length] of ranges) {
    if (from >= at && from + bytes <= at + length) return [object, offset + from - at];
    at += length;
  }
  return undefined;
}

/**
 * Where a file has bytes of an object: the positions in the file, in order.
 * @returns undefined if it lacks some of them
 */
export function rangesHere(
  { objects, ranges }: ObjectParts,
  wanted: { readonly object: string; readonly from: number; readonly bytes: number },
): readonly (readonly [at: number, bytes: number])[] | undefined {
  const index = objects.findIndex(({ object }) => object === wanted.object);
  const blocks: [number, number][] = [];
  const end = wanted.from + wanted.bytes;
  for (let next = wanted.from; next < end; ) {
    let at = 0;
    let taken = 0;
    for (const [object, offset, length] of ranges) {
      if (object === index && offset <= next && next < offset + length) {
        taken = Math.min(end, offset + length) - next;
        blocks.push([at + next - offset, taken]);
        break;
      }
      at += length;
    }
    if (taken === 0) return undefined;
    next += taken;
  }
  return blocks;
}

function joined(list: readonly (readonly [number, number, number])[]): ObjectParts['ranges'] {
  const ranges: [number, number, number][] = [];
  for (const [object, offset, bytes] of list) {
    const last = ranges.at(-1);
    if (last !== undefined && last[0] === object && last[1] + last[2] === offset) last[2] += bytes;
    else ranges.push([object, offset, bytes]);
  }
  return ranges;
}
