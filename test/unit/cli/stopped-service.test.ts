import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { stoppedService } from '../../../src/cli/own-command.js';

it('names the whole command that starts the service of a quickstart again, and only then', async () => {
  const storage = await mkdtemp(join(tmpdir(), 'cdsync-stopped-'));
  onTestFinished(() => rm(storage, { recursive: true }));
  expect(await stoppedService(storage, 'unreachable')).toBeUndefined();
  const path = join(storage, 'local-service.json');
  await writeFile(path, JSON.stringify({ version: 1, profiles: 300 }));
  const command = `cdsync serve --state ${relative('.', path)} --profiles 300`;
  for (const code of ['unreachable', 'service_unavailable', 'connection_lost', 'timeout']) {
    expect(await stoppedService(storage, code)).toMatch(new RegExp(`${command}$`));
  }
  expect(await stoppedService(storage, 'index_not_found')).toBeUndefined();
  expect(await stoppedService(storage)).toBeUndefined();
  await writeFile(path, '{"version": 1');
  expect(await stoppedService(storage, 'unreachable')).toBeUndefined();
});
