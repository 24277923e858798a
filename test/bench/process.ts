import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { requestControl } from '../fixtures/control.js';

/** The time and memory that a finished process used. */
export interface Usage {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
  readonly wallSeconds: number;
  readonly cpuSeconds: number;
  readonly peakMb: number;
}

const ticksPerSecond = 100;

async function sample(pid: number): Promise<{ cpu: number; peakMb: number } | undefined> {
  try {
    const [stat, status] = await Promise.all([
      readFile(`/proc/${pid}/stat`, 'utf8'),
      readFile(`/proc/${pid}/status`, 'utf8'),
    ]);
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    const cpu = (Number(fields[11]) + Number(fields[12])) / ticksPerSecond;
    const peakMb = Number(/VmHWM:\s+(\d+) kB/.exec(status)?.[1] ?? 0) / 1024;
    return { cpu, peakMb };
  } catch {
    return undefined;
  }
}

/** Runs a program to its end. Reads its CPU time and memory from /proc 20 times a second. */
export async function measure(
  command: string,
  words: readonly string[],
  env: Record<string, string> = {},
  onSample?: (child: ChildProcess) => void,
): Promise<Usage> {
  const began = performance.now();
  const child = spawn(command, words, { env: { ...process.env, ...env }, stdio: ['ignore', 'pipe', 'pipe'] });
  let [stdout, stderr] = ['', ''];
  child.stdout.on('data', (chunk) => {
    stdout += chunk;
  });
  child.stderr.on('data', (chunk) => {
    stderr += chunk;
  });
  let last = { cpu: 0, peakMb: 0 };
  const timer = setInterval(async () => {
    const now = await sample(child.pid as number);
    // A process that is about to end has already released its memory.
    if (now !== undefined) last = { cpu: now.cpu, peakMb: Math.max(last.peakMb, now.peakMb) };
    onSample?.(child);
  }, 50);
  const [code] = (await once(child, 'close')) as [number | null];
  clearInterval(timer);
  return {
    code,
    stdout,
    stderr,
    wallSeconds: (performance.now() - began) / 1000,
    cpuSeconds: last.cpu,
    peakMb: last.peakMb,
  };
}

/** The same for a Node program that ends within a second. It tells its CPU time and memory itself. */
export async function measureShort(
  words: readonly string[],
  env: Record<string, string> = {},
): Promise<Omit<Usage, 'wallSeconds'>> {
  const child = spawn(process.execPath, ['--require', join(import.meta.dirname, 'usage.cjs'), ...words], {
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'pipe', 'pipe'],
  });
  const [stdout, stderr, told] = await Promise.all([1, 2, 3].map((place) => text(child.stdio[place] as Readable)));
  const { userCPUTime, systemCPUTime, maxRSS } = JSON.parse(told || '{}') as NodeJS.ResourceUsage;
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
  const { url, tenant_id, client_id, client_secret, control_token } = JSON.parse(line) as Record<string, string>;
  return {
    url: url as string,
    env: {
      CDS_BASE_URL: url as string,
      CDS_TENANT_ID: tenant_id as string,
      CDS_CLIENT_ID: client_id as string,
      CDS_CLIENT_SECRET: client_secret as string,
    },
    control: async (path, body) => {
      const init = body === undefined ? {} : { method: 'POST', body: JSON.stringify(body) };
      const service = { url: url as string, controlToken: control_token as string };
      const answer = await requestControl(service, path, init);
      return answer.headers.get('content-type')?.includes('json')
        ? ((await answer.json()) as Record<string, unknown>)
        : {};
    },
    stop: async () => {
      child.kill('SIGTERM');
      await exit;
    },
  };
}
