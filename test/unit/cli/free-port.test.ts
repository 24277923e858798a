import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { expect, it } from 'vitest';
import { freePort } from '../../../src/cli/quickstart.js';

it('a port is taken while no one else has it', async () => {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  expect(await freePort(port)).toBe(0);
  server.close();
  await once(server, 'close');
  expect(await freePort(port)).toBe(port);
});
