import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { connect } from 'node:net';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

const root = join(import.meta.dirname, '..', '..', '..');
const words = ['--import', 'tsx', join(root, 'src', 'cli', 'main.ts'), 'serve'];

function cdsyncServe(...more: string[]): ChildProcess {
  const env = { ...process.env, CDS_CONTROL_TOKEN: '' };
  return spawn(process.execPath, [...words, ...more], { cwd: root, env, stdio: ['ignore', 'pipe', 'pipe'] });
}

async function ended(child: ChildProcess): Promise<{ code: number; stdout: string; stderr: string }> {
  const text = { stdout: '', stderr: '' };
  for (const stream of ['stdout', 'stderr'] as const) {
    child[stream]?.on('data', (chunk) => {
      text[stream] += chunk;
    });
  }
  const [code] = await once(child, 'close');
  return { code, ...text };
}

describe('cdsync serve', () => {
  let child: ChildProcess;
  let listening: Record<'url' | 'tenant_id' | 'token' | 'client_id' | 'client_secret' | 'control_token', string>;
  let port: string;
  beforeAll(async () => {
    child = cdsyncServe('--json', '--port', '0', '--profiles', '1000', '--tenant-header', 'x-tenant');
    const [line] = await once(createInterface(child.stdout as NodeJS.ReadableStream), 'line');
    listening = JSON.parse(line);
    port = new URL(listening.url).port;
  });
  afterAll(() => child.kill('SIGKILL'));

  const status = async (token: string) => {
    const headers = { authorization: `Bearer ${token}`, 'x-tenant': listening.tenant_id, 'api-version': '2025-07-31' };
    return (await fetch(`${listening.url}/api/indexes`, { headers })).status;
  };

  it('explains in one line of JSON how to use it', async () => {
    expect(Object.keys(listening)).toEqual([
      'url',
      'tenant_id',
      'token',
      'client_id',
      'client_secret',
      'control_token',
    ]);
    expect(await status(listening.token)).toBe(200);
  });

  it('keys: issues, rotates and revokes in the running service', async () => {
    const steering = ['--port', port, '--control-token', listening.control_token];
    const issued = await ended(cdsyncServe('keys', 'issue', '--rotate', '--days', '3', '--json', ...steering));
    expect(issued.code).toBe(0);
    const { token } = JSON.parse(issued.stdout);
    const revoked = await ended(cdsyncServe('keys', 'revoke', '--old', ...steering));
    expect(revoked).toMatchObject({ code: 0, stdout: 'key default of acme: tokens are revoked\n' });
    expect([await status(listening.token), await status(token)]).toEqual([401, 200]);
  });

  it('ends with exit code 2 for a port in use and an unknown key, and names them', async () => {
    const [taken, unknown, vague, refused] = await Promise.all(
      [
        ['--port', port],
        ['keys', 'drop', '--key', 'absent', '--port', port, '--control-token', listening.control_token],
        ['keys', 'revoke', '--port', port],
        ['keys', 'revoke', '--all', '--port', port],
      ].map((more) => ended(cdsyncServe(...more))),
    );
    expect(taken).toMatchObject({ code: 2, stderr: expect.stringContaining('[port_in_use]') });
    expect(unknown).toMatchObject({ code: 2, stderr: expect.stringContaining('there is no key absent') });
    expect(refused).toMatchObject({ code: 2, stderr: expect.stringContaining('CDS_CONTROL_TOKEN') });
    expect(vague).toMatchObject({ code: 2, stderr: expect.stringContaining('--old or --all') });
  });

  it('prints its control token on its own line, and warns if it listens beyond this machine', async () => {
    const open = cdsyncServe('--port', '0', '--profiles', '1', '--host', '0.0.0.0', '--control-token', 'given');
    const output = ended(open);
    const lines = createInterface(open.stdout as NodeJS.ReadableStream);
    for await (const line of lines) if (line.startsWith('Stop it')) break;
    open.kill('SIGTERM');
    const { stdout, stderr } = await output;
    expect(stdout).toMatch(/^ {2}export CDS_CONTROL_TOKEN=given$/m);
    expect(stderr).toMatch(/^warning: 0\.0\.0\.0 is open to other machines/m);
  });

  it('stops at once on SIGTERM, even if clients are connected', async () => {
    const open = connect(Number(port), '127.0.0.1').on('error', () => undefined);
    await once(open, 'connect');
    const began = performance.now();
    child.kill('SIGTERM');
    const [code] = await once(child, 'exit');
    expect(code).toBe(0);
    expect(performance.now() - began).toBeLessThan(1500);
    open.destroy();
  });
});
