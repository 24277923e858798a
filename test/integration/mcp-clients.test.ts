import { once } from 'node:events';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { setTimeout } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { connectMcp } from '../fixtures/mcp-client.js';
import { ended, Workspace } from '../fixtures/workspace.js';

let space: Workspace;
beforeAll(async () => {
  space = await Workspace.open({ profiles: 10 });
  await space.configure('job', [{ name: 'members', source: 'index_profiles', index: 'loyalty_members' }]);
  await space.runWell('job');
});
afterAll(() => space.close());

it('a message without an end is an error, not a good end', async () => {
  const child = space.spawn(['mcp', 'job.json'], {}, { stdin: 'pipe' });
  child.stdin?.on('error', () => undefined);
  child.stdin?.write('x'.repeat(11_000_000));
  const { code, stderr } = await ended(child);
  expect(code).toBe(2);
  expect(stderr).toContain('a message of the client is larger');
});

describe('a client that goes away in the middle of a query', () => {
  const long = 'select count(*) from range(100000000) a, range(10000) b where hash(a.range * b.range) % 7 = 1';
  const folders = async () => [
    ...(await readdir(join(space.jobFolder('job'), '.cdsync', 'locks'))),
    ...(await readdir(join(space.jobFolder('job'), '.cdsync', 'queries')).catch(() => [])),
    ...(await readdir(space.folder)),
  ];

  it.each(['input', 'output', 'both', 'SIGTERM', 'SIGKILL'] as const)(
    'leaves no process and no file: %s',
    async (what) => {
      const before = await folders();
      const child = space.spawn(['mcp', 'job.json', '--show-values'], { TMPDIR: space.folder }, { stdin: 'pipe' });
      const result = ended(child);
      child.stdin?.on('error', () => undefined);
      const send = (message: object) => child.stdin?.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`);
      const clientInfo = { name: 't', version: '1' };
      send({ id: 1, method: 'initialize', params: { protocolVersion: '2025-06-18', capabilities: {}, clientInfo } });
      send({ method: 'notifications/initialized' });
      await once(child.stdout as Readable, 'data');
      for (const id of [2, 3]) send({ id, method: 'tools/call', params: { name: 'query', arguments: { sql: long } } });
      await setTimeout(500);
      const run = space.run('job', ['--full']);
      if (what === 'input' || what === 'both') child.stdin?.end();
      if (what === 'output' || what === 'both') child.stdout?.destroy();
      if (what.startsWith('SIG')) child.kill(what as NodeJS.Signals);
      // Only the next result shows that no one reads the output.
      if (what === 'output') send({ id: 4, method: 'tools/list' });
      const began = performance.now();
      expect((await result).code).toBe(what === 'SIGKILL' ? null : 0);
      expect(performance.now() - began).toBeLessThan(8_000);
      expect((await run).code).toBe(0);
      expect((await folders()).sort()).toEqual(before.sort());
    },
    60_000,
  );

  it('and closes by the SDK does not disturb a run', async () => {
    const client = await connectMcp(space, ['mcp', 'job.json', '--show-values']);
    const calls = [1, 2, 3].map(() =>
      client.callTool({ name: 'query', arguments: { sql: long } }).catch((error: Error) => error),
    );
    const run = space.run('job', ['--full']);
    await setTimeout(300);
    const began = performance.now();
    await client.close();
    expect(performance.now() - began).toBeLessThan(1_900);
    for (const call of calls) expect(await call).toBeInstanceOf(Error);
    expect((await run).code).toBe(0);
  }, 60_000);
});
