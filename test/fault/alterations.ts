import { chmod, cp, readFile, rm, truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect } from 'vitest';
import { seed } from '../fixtures/seed.js';
import { randomFrom } from './random.js';
import { listed } from './residue.js';

/** Places of each file that are altered: one that the seed chooses, or as many as the variable says (40 in the whole suite). */
export const places = Number(process.env.CDSYNC_TEST_PLACES ?? (process.env.CDSYNC_TEST_FAULTS === undefined ? 1 : 40));
const random = randomFrom(seed);

/** A command that reads the files of a pattern; its output is the truth if they are as they were. */
export interface Reading {
  readonly file: RegExp;
  readonly read: () => Promise<{ code: number | null; stdout: string }>;
}

export async function copyFolder(from: string, to: string): Promise<void> {
  await rm(to, { recursive: true, force: true });
  await cp(from, to, { recursive: true, verbatimSymlinks: true, preserveTimestamps: true });
}

/** The outputs of readings of whole files. */
export async function truthsOf(
  readings: Readonly<Record<string, Reading>>,
  restore: () => Promise<void>,
): Promise<Readonly<Record<string, string>>> {
  const truths: Record<string, string> = {};
  for (const [name, { read }] of Object.entries(readings)) {
    await restore();
    const { code, stdout } = await read();
    expect([name, code]).toEqual([name, 0]);
    truths[name] = stdout;
  }
  return truths;
}

/** Flips a bit and cuts, in turn, at all places: each is reported, or the output is the truth. */
export async function expectNoticed(
  { file, read }: Reading,
  { folder, restore, truth }: { folder: string; restore: () => Promise<void>; truth: string | undefined },
): Promise<void> {
  let noticed = 0;
  for (let place = 0; place < 2 * places; place += 1) {
    await restore();
    const names = (await listed(folder)).filter((path) => file.test(path));
    expect(names, `files like ${file}`).not.toEqual([]);
    const path = join(folder, names[(place >> 1) % names.length] as string);
    await chmod(path, 0o600);
    const bytes = await readFile(path);
    const at = Math.floor((bytes.length * ((place >> 1) + random())) / places);
    if (place % 2 === 0) {
      bytes[at] = (bytes[at] as number) ^ (1 << Math.floor(random() * 7));
      await writeFile(path, bytes);
    } else await truncate(path, at);
    const { code, stdout } = await read();
    if (code === 0) expect(stdout, `${path} at ${at}, place ${place}`).toBe(truth);
    else noticed += 1;
  }
  console.info(`${file.source}: ${noticed} of ${2 * places} noticed`);
}
