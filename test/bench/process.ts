import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { open, readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { requestControl } from '../fixtures/control.js';

/** The time and memory that a finished program used, with all processes that it started. */
export interface Usage {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
  readonly wallSeconds: number;
  readonly cpuSeconds: number;
  readonly peakMb: number;
}

/** How to start a program. */
export interface Start {
  readonly env?: Record<string, string>;
  /** A file that takes the standard output; `stdout` of the usage stays empty. */
  readonly output?: string;
  /** Called 20 times a second with the program's processes, its first process first. */
  readonly onSample?: ((pids: readonly number[]) => void) | undefined;
}

/** Runs the words as a program, then reports its exit code and, in the format of POSIX `times`, the CPU time of it and its children. */
const shell = '"$@" 3>&-; code=$?; times >&3; exit $code';

/** CPU seconds of the shell's children, from the second line of `times`: `0m1.230000s 0m0.040000s`. */
function cpuOfChildren(times: string): number {
  const line = times.trim().split('\n')[1] ?? '';
  const parts = [...line.matchAll(/(\d+)m([\d.]+)s/g)];
  if (parts.length !== 2) throw new Error(`the shell reported no CPU time: ${times}`);
  return parts.reduce((sum, [, minutes, seconds]) => sum + Number(minutes) * 60 + Number(seconds), 0);
}

async function childrenOf(pid: number): Promise<number[]> {
  const threads = await readdir(`/proc/${pid}/task`).catch(() => [] as string[]);
  const lists = await Promise.all(
    threads.map((thread) => readFile(`/proc/${pid}/task/${thread}/children`, 'utf8').catch(() => '')),
  );
  const children = lists.flatMap((list) => list.split(' ').filter(Boolean).map(Number));
  return [...children, ...(await Promise.all(children.map(childrenOf))).flat()];
}

async function memoryOf(pid: number): Promise<{ now: number; peak: number }> {
  // A process that has just ended has no status.
  const status = await readFile(`/proc/${pid}/status`, 'utf8').catch(() => '');
  const mb = (name: string) => Number(new RegExp(`${name}:\\s+(\\d+) kB`).exec(status)?.[1] ?? 0) / 1024;
  return { now: mb('VmRSS'), peak: mb('VmHWM') };
}

/**
 * Runs a program to its end. CPU time is exact and counts every process that the program waited for. Memory is the peak of
 * one process, or the largest sum over all of them, looked at 20 times a second.
 */
export async function measure(command: string, words: readonly string[], start: Start = {}): Promise<Usage> {
  const began = performance.now();
  const output = start.output === undefined ? undefined : await open(start.output, 'w');
  const child = spawn('/bin/sh', ['-c', shell, 'sh', command, ...words], {
    env: { ...process.env, ...start.env },
    stdio: ['ignore', output?.fd ?? 'pipe', 'pipe', 'pipe'],
  });
  let peakMb = 0;
  let looking = false;
  const timer = setInterval(async () => {
    if (looking) return;
    looking = true;
    const pids = await childrenOf(child.pid as number);
    const memory = await Promise.all(pids.map(memoryOf));
    const sum = memory.reduce((total, { now }) => total + now, 0);
    peakMb = Math.max(peakMb, sum, ...memory.map(({ peak }) => peak));
    if (pids.length > 0) start.onSample?.(pids);
    looking = false;
  }, 50);
  const read = (place: number) => text((child.stdio[place] as Readable | null) ?? Readable.from([]));
  const ended = once(child, 'exit') as Promise<[number | null]>;
  const [stdout = '', stderr = '', times = ''] = await Promise.all([read(1), read(2), read(3)]);
  const [code] = await ended;
  clearInterval(timer);
  await output?.close();
  const wallSeconds = (performance.now() - began) / 1000;
  return { code, stdout, stderr, wallSeconds, cpuSeconds: cpuOfChildren(times), peakMb };
}

/** The same for a Node program that ends within a second. It reports its CPU time and memory itself. */
export async function measureShort(
  words: readonly string[],
  env: Record<string, string> = {},
): Promise<Omit<Usage, 'wallSeconds'>> {
  const child = spawn(process.execPath, ['--require', join(import.meta.dirname, 'usage.cjs'), ...words], {
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'pipe', 'pipe'],
  });
  const [stdout, stderr, usage] = await Promise.all([1, 2, 3].map((place) => text(child.stdio[place] as Readable)));
  const { userCPUTime, systemCPUTime, maxRSS } = JSON.parse(usage || '{}') as NodeJS.ResourceUsage;
  if (child.exitCode === null) await once(child, 'exit');
  return {
    code: child.exitCode,
    stdout: stdout ?? '',
    stderr: stderr ?? '',
    cpuSeconds: (userCPUTime + systemCPUTime) / 1e6,
    peakMb: maxRSS / 1024,
  };
}

/** The local service in a separate process. */
export interface ServedService {
  readonly url: string;
  readonly tenant: string;
  /** A token that outlasts every measurement. */
  readonly token: string;
  /** Variables for a configuration that uses it. */
  readonly env: Record<string, string>;
  control(path: string, body?: unknown): Promise<Record<string, unknown>>;
  stop(): Promise<void>;
}

export async function serve(cdsync: string, words: readonly string[]): Promise<ServedService> {
  const child = spawn(process.execPath, [cdsync, 'serve', '--json', '--port', '0', ...words], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const exit = once(child, 'exit');
  const [line] = (await Promise.race([
    once(createInterface(child.stdout), 'line'),
    exit.then(() => Promise.reject(new Error('the local service did not start'))),
  ])) as [string];
  const { url, tenant_id, token, client_id, client_secret, control_token } = JSON.parse(line) as Record<string, string>;
  return {
    url: url as string,
    tenant: tenant_id as string,
    token: token as string,
    env: {
      CDS_BASE_URL: url as string,
      CDS_TENANT_ID: tenant_id as string,
      CDS_CLIENT_ID: client_id as string,
      CDS_CLIENT_SECRET: client_secret as string,
    },
    control: async (path, body) => {
      const init = body === undefined ? {} : { method: 'POST', body: JSON.stringify(body) };
      const service = { url: url as string, controlToken: control_token as string };
      const response = await requestControl(service, path, init);
      return response.headers.get('content-type')?.includes('json')
        ? ((await response.json()) as Record<string, unknown>)
        : {};
    },
    stop: async () => {
      child.kill('SIGTERM');
      await exit;
    },
  };
}
