import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { join, relative } from 'node:path';

/** A word as a person types it into a shell. */
export function shellWord(word: string): string {
  if (/^[\w./:=@%+,-]+$/.test(word)) return word;
  return /["$`\\!]/.test(word) ? `'${word.replaceAll("'", "'\\''")}'` : `"${word}"`;
}

/** A command line of cdsync that can be pasted: begins with `npx` if npm has started this process. Another program of the name is never fetched. */
export function commandText(words: readonly string[], env: NodeJS.ProcessEnv = process.env): string {
  return [...(env.npm_command === undefined ? [] : ['npx', '--no-install']), 'cdsync', ...words.map(shellWord)].join(
    ' ',
  );
}

interface StartOptions {
  readonly env?: NodeJS.ProcessEnv;
  readonly stdout: 'inherit' | 'pipe';
  readonly isConnected?: boolean;
}

/**
 * Starts another cdsync, of the same program as this process.
 * @param isConnected whether it has a channel to this process, and so learns of its end, of whatever kind
 */
export function startCommand(
  words: readonly string[],
  { env = {}, stdout, isConnected = false }: StartOptions,
): ChildProcess {
  const [, program = ''] = process.argv;
  return spawn(process.execPath, [...process.execArgv, program, ...words], {
    stdio: ['ignore', stdout, 'inherit', ...(isConnected ? (['ipc'] as const) : [])],
    env: { ...process.env, ...env },
  });
}

/** Waits for the end of a process. @returns its exit code (1 if a signal ended it), and its output, if that is a pipe */
export async function ended(child: ChildProcess): Promise<{ code: number; stdout: string }> {
  let stdout = '';
  child.stdout?.setEncoding('utf8').on('data', (text: string) => {
    stdout += text;
  });
  const [code] = (await once(child, 'close')) as [number | null];
  return { code: code ?? 1, stdout };
}

/** Codes of errors that may mean that the service does not run. */
const codes = new Set(['unreachable', 'service_unavailable', 'connection_lost', 'timeout']);

/** The file beside the jobs in which the service of a quickstart keeps its state. */
export const stateFileName = 'local-service.json';

/**
 * The command that starts the local service of a quickstart again, with its state and its number of profiles; undefined if the
 * error is another one, or the storage folder has no such service.
 */
export async function stoppedService(storage: string, errorCode = ''): Promise<string | undefined> {
  if (!codes.has(errorCode)) return undefined;
  const path = join(storage, stateFileName);
  const state: unknown = await readFile(path, 'utf8')
    .then(JSON.parse)
    .catch(() => undefined);
  if (typeof state !== 'object' || state === null || !('profiles' in state)) return undefined;
  return commandText(['serve', '--state', relative('.', path), '--profiles', String(state.profiles)]);
}
