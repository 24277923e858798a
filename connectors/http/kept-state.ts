import { mkdir } from 'node:fs/promises';
import { dirname } from 'node:path';
import { writeStateFile } from '../../src/sdk/index.js';

/** Writes a file that is kept over runs. Its folder is made only now: a plan and a check leave nothing. */
export async function writeKept(path: string, content: Readonly<Record<string, unknown>>): Promise<void> {
  await mkdir(dirname(path), { recursive: true, mode: 0o700 });
  await writeStateFile(path, content);
}
