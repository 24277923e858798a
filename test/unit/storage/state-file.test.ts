import { mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { readStateFile, readStateIfUsable, writeStateFile } from '../../../src/core/durable.js';

const schema = z.object({ version: z.literal(1), name: z.string() });
const file = { schema, hint: 'write it again' };
let folder: string;
let path: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'cdsync-state-'));
  path = join(folder, 'state.json');
});
afterEach(() => rm(folder, { recursive: true }));

describe('a state file', () => {
  it('is read as it was written, and is for no one else', async () => {
    await writeStateFile(path, { version: 1, name: 'first' });
    await writeStateFile(path, { version: 1, name: 'second' });
    expect(await readStateFile(path, file)).toEqual({ version: 1, name: 'second' });
    expect((await stat(path)).mode & 0o777).toBe(0o600);
    expect(await readdir(folder)).toEqual(['state.json']);
  });

  it('that is not there is undefined', async () => {
    expect(await readStateFile(path, file)).toBeUndefined();
    expect(await readStateIfUsable(path, schema)).toBeUndefined();
  });

  it.each(['', '{', '{"version":2,"name":"x"}', '{"version":1}', 'null'])(
    'with the content %j is refused',
    async (text) => {
      await writeFile(path, text);
      await expect(readStateFile(path, file)).rejects.toMatchObject({
        code: 'state_unreadable',
        message: `${path} is not a state file of cdsync`,
        hint: 'write it again',
      });
      await expect(
        readStateFile(path, { ...file, what: 'manifest', code: 'manifest_unreadable' }),
      ).rejects.toMatchObject({
        code: 'manifest_unreadable',
        message: `${path} is not a manifest of cdsync`,
      });
      expect(await readStateIfUsable(path, schema)).toBeUndefined();
    },
  );

  it('that cannot be read does not count as missing', async () => {
    await mkdir(path);
    await expect(readStateFile(path, file)).rejects.toMatchObject({ code: 'EISDIR' });
    expect(await readStateIfUsable(path, schema)).toBeUndefined();
  });
});

it('a state file with a flipped bit is refused, or is as it was written', async () => {
  const content = { version: 1, name: 'x7' } as const;
  await writeStateFile(path, content);
  const whole = await readFile(path);
  for (let bit = 0; bit < 8 * whole.length; bit += 1) {
    const damaged = Buffer.from(whole);
    damaged[bit >> 3] = (damaged[bit >> 3] as number) ^ (1 << (bit & 7));
    await writeFile(path, damaged);
    const read = await readStateFile(path, file).catch(({ code }) => code);
    if (read !== 'state_unreadable') expect([bit, read]).toEqual([bit, content]);
  }
});
