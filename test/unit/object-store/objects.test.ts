import { createHash } from 'node:crypto';
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { deflateSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { ObjectStore, withRetry } from '../../../src/object-store/objects.js';
import { unavailable } from '../../../src/sdk/errors.js';
import type { S3Store } from '../../../src/sdk/index.js';

/** A clock that waits move on, and work of that many milliseconds that always fails. */
function failing(ms: number) {
  let [now, attempts] = [0, 0];
  const time = {
    now: () => now,
    wait: async (pause: number) => {
      now += pause;
    },
  };
  const work = async () => {
    attempts += 1;
    now += ms;
    throw unavailable('s3://b is unavailable (503)');
  };
  return { time, work, seen: () => ({ attempts, seconds: Math.round(now / 1000) }) };
}

describe('a bucket that cannot be reached', () => {
  it('is tried again for a minute, with growing pauses', async () => {
    const { time, work, seen } = failing(100);
    await expect(withRetry(work, undefined, time)).rejects.toMatchObject({ code: 'bucket_unavailable' });
    expect(seen()).toEqual({ attempts: 7, seconds: 61 });
  });

  it('and that takes minutes to fail is not tried seven times', async () => {
    const { time, work, seen } = failing(240_000);
    await expect(withRetry(work, undefined, time)).rejects.toMatchObject({ code: 'bucket_unavailable' });
    expect(seen()).toEqual({ attempts: 2, seconds: 481 });
  });

  it('is not tried again after a refusal', async () => {
    let attempts = 0;
    const work = async () => {
      attempts += 1;
      throw Object.assign(new Error('no'), { code: 'x' });
    };
    await expect(withRetry(work)).rejects.toThrow('no');
    expect(attempts).toBe(1);
  });
});

describe('an object that is longer than the state says', () => {
  const sha256 = (bytes: Buffer) => createHash('sha256').update(bytes).digest('hex');
  const other = /^bucket_object_changed: .* has other content/;
  const file = { path: '.cdsync/store.duckdb', changed_ms: 0, mode: 0o600 };
  /** Downloads a file of 1,000 bytes. @returns how it ended, and the files that are left */
  async function ended(content: () => Iterable<Buffer>, piece: { object: string; bytes: number } | undefined) {
    const folder = await mkdtemp(join(tmpdir(), 'cdsync-objects-'));
    const store = {
      place: 's3://b',
      stream: async () => Readable.from(content()),
      streamError: (error: unknown) => error,
    } as unknown as S3Store;
    const pieces = piece && { objects: [piece], ranges: [[0, 0, 1000]] as [number, number, number][] };
    const objects = new ObjectStore(store, 'nightly');
    const entry = { ...file, bytes: 1000, sha256: '0'.repeat(64), ...(pieces && { pieces }) };
    try {
      const said = await objects.download(entry, join(folder, 'x')).catch(({ code, message }) => `${code}: ${message}`);
      return [said, await readdir(folder)];
    } finally {
      await rm(folder, { recursive: true });
    }
  }

  it('is not read to its end, which may never come', async () => {
    let chunks = 0;
    function* long() {
      for (; chunks < 3000; chunks += 1) yield Buffer.alloc(65_536);
    }
    expect(await ended(long, undefined)).toEqual([expect.stringMatching(other), []]);
    expect(chunks).toBeLessThan(100);
  });

  it('is not inflated to its end', async () => {
    const bomb = Buffer.alloc(8_000_000);
    const piece = { object: `objects/${sha256(bomb)}.z`, bytes: 1000 };
    const packed = [deflateSync(bomb)];
    expect(await ended(() => packed, piece)).toEqual([expect.stringMatching(other), []]);
  });
});
