import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { gunzipSync } from 'node:zlib';
import { expect, it } from 'vitest';
import { gzips } from '../../../connectors/export/gzip.js';

const piece = 1 << 20;

async function packed(bytes: Buffer, chunkBytes: number): Promise<Buffer> {
  const source = async function* () {
    for (let from = 0; from < bytes.length; from += chunkBytes) yield bytes.subarray(from, from + chunkBytes);
  };
  const found: Buffer[] = [];
  for await (const part of gzips(source(), 2)) found.push(part);
  return Buffer.concat(found);
}

it.each([0, 1, piece - 1, piece, piece + 1, 3 * piece + 7])(
  'packs %i bytes in one member that programs read',
  async (length) => {
    const text = Buffer.alloc(length, '"p-000006bc";"Olivia";"2010-09-08"\r\n');
    randomBytes(16).copy(text, Math.max(0, length - 40_000));
    const file = await packed(text, 1 << 20);
    expect(gunzipSync(file).equals(text)).toBe(true);
    // How the text is cut does not change the bytes.
    expect((await packed(text, 100_003)).equals(file)).toBe(true);
    execFileSync('gzip', ['--test'], { input: file });
    const python =
      'import sys, zlib; z = zlib.decompressobj(31); z.decompress(sys.stdin.buffer.read()); print(z.eof, len(z.unused_data))';
    expect(String(execFileSync('python3', ['-c', python], { input: file }))).toBe('True 0\n');
  },
);

it('gives an error of the source on', async () => {
  const source = async function* () {
    yield Buffer.alloc(piece * 3);
    throw new Error('torn');
  };
  await expect(async () => {
    for await (const _ of gzips(source(), 2));
  }).rejects.toThrow('torn');
});
