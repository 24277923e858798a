import { existsSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { parseConfig } from '../../config/parse.js';
import type { Variables } from '../../config/variables.js';
import { CdsyncError } from '../../core/errors.js';
import { usageError } from '../output.js';

/** Readable for all: the file has no secrets, and a team may share it. */
const mode = 0o644;

function exists(file: string): CdsyncError {
  return usageError(`${file} exists already`, 'name another file, or write over it: --force');
}

/** @throws {CdsyncError} `usage` if the file exists */
export function refuseExisting(file: string): void {
  if (existsSync(file)) throw exists(file);
}

function unwritable(cause: NodeJS.ErrnoException, file: string): CdsyncError {
  if (cause.code === 'EEXIST') return exists(file);
  const hint = cause.code === 'ENOENT' ? 'make its folder first' : 'check that this user may write there';
  return new CdsyncError(`${file} cannot be written: ${cause.code ?? 'unknown error'}`, {
    code: 'config_unwritable',
    hint,
    cause,
  });
}

/** Writes a configuration, unless it cannot be read back. @throws {CdsyncError} `config_unwritable`; `usage` if it exists */
export async function writeConfig(
  file: string,
  text: string,
  { env, force }: { env: Variables; force: boolean },
): Promise<void> {
  parseConfig(text, file, { env });
  await writeFile(file, text, { flag: force ? 'w' : 'wx', mode }).catch((error: NodeJS.ErrnoException) => {
    throw unwritable(error, file);
  });
}
