import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Blocks, blockAt, blockBytes, blocksOf, patchOf, rangesHere } from '../../../src/object-store/blocks.js';
import type { ObjectParts } from '../../../src/object-store/state.js';

/** A file of these blocks, by one byte each; short names for whole blocks. */
function fileOf(bytes: readonly number[]): Blocks {
  const size = bytes.length === 0 ? 0 : 12_288 + (bytes.length - 1) * blockBytes;
  return {
    bytes: size,
    sha256: bytes.join(),
    hashes: bytes.map((byte, index) => `${index === 0 ? 'head' : ''}${byte}`),
  };
}

/** The stored objects by name, each as the list of its blocks: (hash, length). */
type Kept = Map<string, { readonly hash: string; readonly bytes: number }[]>;

function hashesOf(pieces: ObjectParts, kept: Kept): string[] {
  return pieces.ranges.flatMap(([object, offset, bytes]) => {
    const found: string[] = [];
    let at = 0;
    for (const block of kept.get(pieces.objects[object]?.object ?? '') ?? []) {
      if (at >= offset && at + block.bytes <= offset + bytes) found.push(block.hash);
      at += block.bytes;
    }
    return found;
  });
}

describe('rangesHere', () => {
  const pieces: ObjectParts = {
    objects: [
      { object: 'base', bytes: 100 },
      { object: 'patch', bytes: 20 },
    ],
    ranges: [
      [0, 0, 40],
      [1, 0, 20],
      [0, 60, 40],
    ],
  };

  it('finds bytes of an object in a file that is made of it, also around a replaced range', () => {
    expect(rangesHere(pieces, { object: 'base', from: 10, bytes: 20 })).toEqual([[10, 20]]);
    expect(rangesHere(pieces, { object: 'base', from: 60, bytes: 40 })).toEqual([[60, 40]]);
    expect(rangesHere(pieces, { object: 'patch', from: 5, bytes: 15 })).toEqual([[45, 15]]);
  });

  it('finds nothing if some bytes are not in the file', () => {
    expect(rangesHere(pieces, { object: 'base', from: 30, bytes: 20 })).toBeUndefined();
    expect(rangesHere(pieces, { object: 'base', from: 0, bytes: 100 })).toBeUndefined();
    expect(rangesHere(pieces, { object: 'other', from: 0, bytes: 1 })).toBeUndefined();
  });

  it('returns several ranges if the bytes are apart in the file', () => {
    const split: ObjectParts = {
      objects: [{ object: 'base', bytes: 10 }],
      ranges: [
        [0, 5, 5],
        [0, 0, 5],
      ],
    };
    expect(rangesHere(split, { object: 'base', from: 2, bytes: 6 })).toEqual([
      [7, 3],
      [0, 3],
    ]);
  });
});

describe('patchOf', () => {
  it('makes each file again from the stored blocks and the changed ones, run after run', () => {
    const days = fc.array(fc.array(fc.nat(30), { minLength: 1, maxLength: 40 }), { minLength: 2, maxLength: 30 });
    fc.assert(
      fc.property(days, (files) => {
        const kept: Kept = new Map();
        const [first = []] = files;
        const whole = (blocks: Blocks): ObjectParts => {
          const name = `whole ${kept.size}`;
          kept.set(
            name,
            blocks.hashes.map((hash, index) => ({ hash, bytes: blockAt(index, blocks.bytes).bytes })),
          );
          return { objects: [{ object: name, bytes: blocks.bytes }], ranges: [[0, 0, blocks.bytes]] };
        };
        let before = { blocks: fileOf(first), pieces: whole(fileOf(first)) };
        for (const bytes of files.slice(1)) {
          const now = fileOf(bytes);
          const patch = patchOf(before, now);
          let pieces: ObjectParts;
          if (patch === undefined) pieces = whole(now);
          else {
            const name = `patch ${kept.size}`;
            const changed = patch.changed.map((index) => ({
              hash: now.hashes[index] ?? '',
              bytes: blockAt(index, now.bytes).bytes,
            }));
            kept.set(name, changed);
            pieces = {
              objects: [...patch.objects, ...(changed.length > 0 ? [{ object: name, bytes: patch.bytes }] : [])],
              ranges: patch.ranges,
            };
          }
          expect(hashesOf(pieces, kept)).toEqual(now.hashes);
          expect(pieces.ranges.reduce((sum, [, , length]) => sum + length, 0)).toBe(now.bytes);
          before = { blocks: now, pieces };
        }
      }),
    );
  });

  it('takes only what changed, and everything if that is much', () => {
    const before = fileOf([0, 1, 2, 3, 4, 5, 6, 7]);
    const pieces: ObjectParts = { objects: [{ object: 'whole', bytes: before.bytes }], ranges: [[0, 0, before.bytes]] };
    expect(patchOf({ blocks: before, pieces }, fileOf([9, 1, 2, 3, 8, 5, 6, 7]))?.changed).toEqual([0, 4]);
    expect(patchOf({ blocks: before, pieces }, fileOf([9, 10, 11, 12, 13, 14, 6, 7]))).toBeUndefined();
  });

  it('makes a file whole again before its pieces become many', () => {
    let size = 0;
    const file = (day: number) => fileOf([day, ...Array.from({ length: 400 }, (_, index) => index)]);
    let before = {
      blocks: file(0),
      pieces: { objects: [{ object: '0', bytes: file(0).bytes }], ranges: [[0, 0, file(0).bytes]] } as ObjectParts,
    };
    for (let day = 1; day < 300; day += 1) {
      const patch = patchOf({ ...before, pieces: before.pieces }, file(day));
      const pieces: ObjectParts =
        patch === undefined
          ? { objects: [{ object: `${day}`, bytes: file(day).bytes }], ranges: [[0, 0, file(day).bytes]] }
          : { objects: [...patch.objects, { object: `${day}`, bytes: patch.bytes }], ranges: patch.ranges };
      size = Math.max(size, pieces.objects.length);
      before = { blocks: file(day), pieces };
    }
    expect(size).toBeLessThanOrEqual(65);
  });
});

describe('blocksOf', () => {
  let folder: string;
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'cdsync-blocks-'));
  });
  afterAll(() => rm(folder, { recursive: true }));

  it('has one hash for the headers and one for each block, the last one short', async () => {
    const path = join(folder, 'a');
    await writeFile(path, Buffer.concat([Buffer.alloc(12_288, 1), Buffer.alloc(blockBytes, 2), Buffer.alloc(100, 3)]));
    const blocks = await blocksOf(path);
    expect(blocks.hashes).toHaveLength(3);
    expect(new Set(blocks.hashes).size).toBe(3);
    expect(blockAt(2, blocks.bytes)).toEqual({ from: 12_288 + blockBytes, bytes: 100 });
  });
});
