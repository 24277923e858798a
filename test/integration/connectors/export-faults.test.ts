import { execFileSync } from 'node:child_process';
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { SftpStore } from '../../../connectors/export/sftp.js';
import { Secret } from '../../../src/core/secret.js';
import { CuttingProxy } from '../../fixtures/cutting-proxy.js';
import { SshServer, sshdIsInstalled } from '../../fixtures/sshd.js';
import { ExportStream, insert } from '../../unit/delivery/files/export-stream.js';

/** Few rows, and many bytes. */
const ids = Array.from({ length: 60 }, (_, at) => `member-${String(at).padStart(20_000, '0')}`);
const bytes = 60 * 20_000;
const text = `id,n\n${ids.map((id, at) => `${id},${at}\n`).join('')}`;

describe.skipIf(!sshdIsInstalled())('files for an OpenSSH server that fails', () => {
  let place: ExportStream;
  let server: SshServer;
  let proxy: CuttingProxy;
  let options: Record<string, unknown>;
  const inbox = () => readdir(server.inbox);

  beforeEach(async () => {
    place = await ExportStream.open();
    await place.stream.commit(
      ids.map((id, at) => insert(id, at)),
      ids.length,
    );
    server = await SshServer.start();
    proxy = await CuttingProxy.open(`http://127.0.0.1:${server.port}`);
    const { port } = new URL(proxy.url);
    options = {
      url: server.url.replace(`:${server.port}`, `:${port}`),
      ...{ private_key: server.key, host_key: server.prints.ed25519, file: 'list_{{ sequence }}.csv' },
    };
  });
  afterEach(async () => {
    await proxy.close();
    await server.close();
    await place.close();
  });

  it.each(
    (['rename', 'direct'] as const).flatMap((upload) =>
      [0, 1500, 60_000, bytes / 2, bytes - 40_000].map((after): [string, number] => [upload, after]),
    ),
  )('are whole, and there once, if the connection is cut: %s, after %i bytes', async (upload, after) => {
    proxy.cut = { request: /^SSH-2/, at: 'midway', after, times: 1 };
    expect(await place.deliver({ ...options, upload })).toMatchObject({ status: 'ok', files: ['list_1.csv'] });
    expect(proxy.cuts).toHaveLength(1);
    expect(await inbox()).toEqual(['list_1.csv']);
    expect(await readFile(join(server.inbox, 'list_1.csv'), 'utf8')).toBe(text);
  });

  it('have no final name while every connection is cut, and the same bytes on the next day', async () => {
    proxy.cut = { request: /^SSH-2/, at: 'midway', after: bytes / 2 };
    const named = { ...options, file: "{{ date | date: '%Y%m%d' }}.csv" };
    const failed = await place.deliver(named);
    expect([failed.status, failed.error?.code]).toEqual(['failed', 'destination_unavailable']);
    expect(await inbox()).toEqual(['.20260101.csv.part']);
    proxy.cut = undefined;
    place.clock.jump(86_400_000);
    expect((await place.deliver(named)).files).toEqual(['20260101.csv']);
    expect(await inbox()).toEqual(['20260101.csv']);
  });

  it('do not wait for ever on a connection that falls silent', async () => {
    proxy.cut = { request: /^SSH-2/, at: 'silence', after: bytes / 2, times: 1 };
    const began = Date.now();
    expect(await place.deliver(options)).toMatchObject({ status: 'ok', files: ['list_1.csv'] });
    expect(Date.now() - began).toBeGreaterThan(20_000);
    expect(await inbox()).toEqual(['list_1.csv']);
    expect(await readFile(join(server.inbox, 'list_1.csv'), 'utf8')).toBe(text);
  }, 120_000);

  it('do not wait for ever on a connection that lives while its SFTP has stopped', async () => {
    const login = { url: server.url, agent: false, hostKey: server.prints.ed25519, answerMs: 1000 };
    const rest = { privateKey: new Secret(server.key), signal: new AbortController().signal };
    const store = await SftpStore.open({ ...login, ...rest }, 0o640);
    server.signal('SIGSTOP');
    try {
      await expect(store.find('list.csv')).rejects.toMatchObject({
        code: 'destination_unavailable',
        message: expect.stringContaining('has answered no request for 1 s'),
      });
    } finally {
      server.signal('SIGCONT');
      store.close();
    }
  });

  it('say that the disk is full, and leave nothing', async ({ skip }) => {
    try {
      execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=512k', 'tmpfs', server.inbox], { stdio: 'ignore' });
    } catch {
      skip('not tried: this user may not mount a small disk');
    }
    try {
      await writeFile(join(server.inbox, 'other.csv'), 'of another writer\n');
      for (const upload of ['rename', 'direct']) {
        const { status, error } = await place.deliver({ ...options, upload });
        expect([status, error?.code, error?.message]).toEqual([
          'failed',
          'destination_refused',
          expect.stringContaining('no space left'),
        ]);
        expect(await inbox()).toEqual(['other.csv']);
      }
      execFileSync('mount', ['-o', 'remount,size=16m', server.inbox]);
      expect((await place.deliver(options)).files).toEqual(['list_1.csv']);
      expect(await readFile(join(server.inbox, 'list_1.csv'), 'utf8')).toBe(text);
    } finally {
      execFileSync('umount', ['-l', server.inbox]);
    }
  });
});
