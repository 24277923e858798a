import { mkdtemp, rename, rm, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { UnsecuredJWT } from 'jose';
import { describe, expect, it, onTestFinished } from 'vitest';
import { indexesPageOperation } from '../../../src/api/profile-api.js';
import { tokenExpiry, tokenLifetimeMs } from '../../../src/api/token-source.js';
import { Secret } from '../../../src/core/secret.js';
import {
  emptyPage,
  type Received,
  type ScriptedService,
  scriptedService,
  serviceOptions,
  testClient,
} from './scripted-service.js';

const list = indexesPageOperation({});
const bearer = ({ headers }: Received) => headers.authorization?.replace('Bearer ', '');
const bearers = ({ received }: ScriptedService) => received.map(bearer);

describe('A token that was given', () => {
  it('is trimmed, and may have been copied with its scheme', async () => {
    const service = await scriptedService(emptyPage);
    const auth = { type: 'token', token: new Secret('  Bearer abc.def\n') } as const;
    await testClient(serviceOptions(service.baseUrl, { auth })).send(list);
    expect(bearers(service)).toEqual(['abc.def']);
  });

  it.each(['', ' ', 'two words', 'line\nbreak', 'größe'])('is refused before anything is sent: %j', async (text) => {
    const service = await scriptedService(emptyPage);
    const auth = { type: 'token', token: new Secret(text) } as const;
    const error = await testClient(serviceOptions(service.baseUrl, { auth })).failure(list);
    expect(error).toMatchObject({ code: 'token_unusable', kind: 'auth' });
    if (text.trim() !== '') expect(error.message).not.toContain(text);
    expect(service.received).toEqual([]);
  });

  it('is not sent again after a 401', async () => {
    const service = await scriptedService({ status: 401 });
    expect(await testClient(serviceOptions(service.baseUrl)).failure(list)).toMatchObject({ code: 'unauthorized' });
    expect(service.received).toHaveLength(1);
  });

  it('has an expiry and a lifetime by its claims', () => {
    const token = new UnsecuredJWT({}).setIssuedAt(1_700_000_000).setExpirationTime(1_800_000_000).encode();
    expect(tokenExpiry(token)).toEqual(new Date(1_800_000_000_000));
    expect(tokenLifetimeMs(token)).toBe(100_000_000_000);
    for (const other of ['', 'opaque', 'a.b.c', new UnsecuredJWT({}).encode()]) {
      expect(tokenExpiry(other)).toBeUndefined();
      expect(tokenLifetimeMs(other)).toBeUndefined();
    }
  });
});

describe('A token in a file', () => {
  async function tokenFile(text: string) {
    const folder = await mkdtemp(join(tmpdir(), 'cdsync-token-'));
    onTestFinished(() => rm(folder, { recursive: true, force: true }));
    const path = join(folder, 'token');
    await writeFile(path, text);
    const replace = async (next: string) => {
      await writeFile(`${path}.new`, next);
      await rename(`${path}.new`, path);
    };
    return { path, replace, auth: { type: 'token_file', path } as const };
  }

  it('is read again when it has changed, and looked at no more than once a second', async () => {
    const service = await scriptedService(emptyPage);
    const { auth, replace } = await tokenFile('first\n');
    const { send, clock } = testClient(serviceOptions(service.baseUrl, { auth }));
    await send(list);
    await replace('second\n');
    clock.jump(999);
    await send(list);
    clock.jump(1);
    await send(list);
    expect(bearers(service)).toEqual(['first', 'first', 'second']);
  });

  it('is read once after a 401, even if it looks unchanged and several requests were refused', async () => {
    const { auth, path } = await tokenFile('token-a');
    await utimes(path, 1_000, 1_000);
    // Rotated in place while the first requests are under way; its size and time stay the same.
    let rotated: Promise<void> | undefined;
    const rotate = () => writeFile(path, 'token-b').then(() => utimes(path, 1_000, 1_000));
    const service = await scriptedService((response, request) => {
      rotated ??= rotate();
      rotated.then(() => {
        response.statusCode = bearer(request) === 'token-b' ? 200 : 401;
        response.end('{"data":[]}');
      });
    });
    const { send, meter } = testClient(serviceOptions(service.baseUrl, { auth, concurrency: 50 }));
    await Promise.all(Array.from({ length: 50 }, () => send(list)));
    expect(meter).toMatchObject({ requests: 58, retries: 8 });
  });

  it('that still holds the refused token is no reason to ask again', async () => {
    const service = await scriptedService({ status: 401 });
    const { auth } = await tokenFile('only');
    const error = await testClient(serviceOptions(service.baseUrl, { auth })).failure(list);
    expect(error).toMatchObject({ code: 'unauthorized', kind: 'auth' });
    expect(error.hint).toContain('file');
    expect(service.received).toHaveLength(1);
  });

  it('may be missing or empty for a while once it has been read', async () => {
    const service = await scriptedService(emptyPage);
    const { auth, path, replace } = await tokenFile('first');
    const { send, clock } = testClient(serviceOptions(service.baseUrl, { auth }));
    await send(list);
    for (const spoil of [() => rm(path), () => writeFile(path, '')]) {
      await spoil();
      clock.jump(2_000);
      await send(list);
    }
    await replace('second');
    clock.jump(2_000);
    await send(list);
    expect(bearers(service)).toEqual(['first', 'first', 'first', 'second']);
  });

  it('must be readable and hold a token at first', async () => {
    const service = await scriptedService(emptyPage);
    const { path } = await tokenFile(' \n');
    for (const [file, says] of [
      [path, 'is empty'],
      [`${path}.missing`, 'ENOENT'],
    ] as const) {
      const auth = { type: 'token_file', path: file } as const;
      const error = await testClient(serviceOptions(service.baseUrl, { auth })).failure(list);
      expect(error).toMatchObject({ code: 'token_unusable', kind: 'auth' });
      expect(error.message).toContain(file);
      expect(error.message).toContain(says);
    }
    expect(service.received).toEqual([]);
  });
});
