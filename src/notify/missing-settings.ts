import { constants } from 'node:fs';
import { access } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import type { JobConfig } from '../config/config.js';
import { asCdsyncError } from '../core/errors.js';

/** Why the first word of a command cannot be started, if it is a path; the others are looked for when they run. */
async function commandFault(program: string, folder: string): Promise<string | undefined> {
  if (!program.includes('/') || program.includes('{')) return undefined;
  const code = await access(resolve(folder, program), constants.X_OK).catch(
    (error: NodeJS.ErrnoException) => error.code,
  );
  if (code === undefined) return undefined;
  return code === 'EACCES' ? 'may not be executed (chmod +x)' : 'is not there';
}

/** Whether a folder can be written to, or made. */
export async function isWritable(folder: string): Promise<boolean> {
  const code = await access(folder, constants.W_OK | constants.X_OK).catch(
    (error: NodeJS.ErrnoException) => error.code,
  );
  if (code === 'ENOENT' && dirname(folder) !== folder) return isWritable(dirname(folder));
  return code === undefined;
}

/**
 * The requirements that a job lacks to notify of its runs: packages, commands, permissions. Nothing is sent, started or written.
 * @param folder of the configuration
 * @returns one line for each
 */
export async function missingAfterRunSettings(
  { notify, metrics, after }: Pick<JobConfig, 'notify' | 'metrics' | 'after'>,
  folder: string,
): Promise<string[]> {
  const lines: string[] = [];
  if (notify.some(({ email }) => email !== undefined)) {
    const { loadMailer } = await import('./mail.js');
    const error = await loadMailer().then(() => undefined, asCdsyncError);
    if (error !== undefined) lines.push(`notify: no mail can be sent: ${error.message} (${error.hint})`);
  }
  for (const { run } of after) {
    const [program = ''] = run;
    const fault = await commandFault(program, folder);
    if (fault !== undefined) lines.push(`after: ${program} ${fault}`);
  }
  if (metrics.textfile !== undefined && !(await isWritable(dirname(metrics.textfile))))
    lines.push(`metrics: no file can be written in ${dirname(metrics.textfile)}`);
  if (metrics.textfile !== undefined && !metrics.textfile.endsWith('.prom'))
    lines.push(`metrics: node_exporter reads only files whose names end with .prom, and not ${metrics.textfile}`);
  return lines;
}
