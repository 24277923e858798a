import { createHash, generateKeyPairSync } from 'node:crypto';
import { mkdir, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { SshServer, sshdIsInstalled } from '../../fixtures/sshd.js';
import { ExportStream, failing, insert, update } from '../../unit/delivery/files/export-stream.js';

const file = '{{ stream }}_{{ sequence }}.csv';

describe.skipIf(!sshdIsInstalled())('files for an OpenSSH server', () => {
  let place: ExportStream;
  let server: SshServer;
  const start = async (sftp = '') => {
    server = await SshServer.start(sftp);
    return { url: server.url, private_key: server.key, host_key: server.prints.ed25519, file };
  };
  const inbox = () => readdir(server.inbox);

  beforeEach(async () => {
    place = await ExportStream.open();
    await place.stream.commit([insert('a', 1), insert('b', 2)]);
  });
  afterEach(async () => {
    await place.close();
    await server.close();
  });

  it('has the file whole, with its mode, checksum and mark; a second push sends nothing', async () => {
    const options = {
      ...(await start()),
      checksum: 'sha256',
      done: '{{ file }}.done',
      file: `2026/${file}`,
      file_mode: '0604',
    };
    expect(await place.deliver(options)).toMatchObject({
      status: 'ok',
      files: ['2026/members_1.csv'],
      why: 'nothing was handed over yet',
    });
    const path = join(server.inbox, '2026', 'members_1.csv');
    expect(await readFile(path, 'utf8')).toBe('id,n\na,1\nb,2\n');
    expect((await stat(path)).mode & 0o777).toBe(0o604);
    expect((await readdir(join(server.inbox, '2026'))).sort()).toEqual([
      'members_1.csv',
      'members_1.csv.done',
      'members_1.csv.sha256',
    ]);
    await rm(path);
    expect(await place.deliver(options)).toMatchObject({ status: 'ok', action: 'nothing' });
  });

  it.each([
    ['the list of the day before, under one name', { file: 'list.csv' }, false],
    ['one that was made again after a try', { file }, true],
  ])('replaces a file that is as long, and its checksum: %s', async (_, named, isKilled) => {
    const options = { ...(await start()), checksum: 'sha256', ...named };
    if (isKilled) place.connector = failing('after');
    await place.deliver(options);
    await place.stream.commit([update('a', 3)]);
    place.columns = new Map([['n', { rename: 'm' } as never]]);
    expect((await place.deliver(options)).status).toBe('ok');
    const [name = ''] = await inbox();
    const text = await readFile(join(server.inbox, name), 'utf8');
    expect(text).toBe('id,m\na,3\nb,2\n');
    const sha256 = createHash('sha256').update(text).digest('hex');
    expect(await readFile(join(server.inbox, `${name}.sha256`), 'utf8')).toBe(`${sha256}  ${name}\n`);
  });

  it('connects with the pin of either key, and refuses others before a login', async () => {
    const options = await start();
    expect((await place.deliver({ ...options, host_key: [server.prints.rsa] })).status).toBe('ok');
    const wrong = `SHA256:${'A'.repeat(43)}`;
    const { error } = await place.deliver({ ...options, host_key: wrong }, { full: true });
    expect(error?.code).toBe('destination_tls');
    for (const print of [server.prints.rsa, server.prints.ed25519, wrong]) expect(error?.message).toContain(print);
  });

  it('refuses a wrong key as a login', async () => {
    const options = await start();
    const { privateKey } = generateKeyPairSync('ed25519', {
      privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
      publicKeyEncoding: { type: 'spki', format: 'pem' },
    });
    expect((await place.deliver({ ...options, private_key: privateKey })).error?.code).toBe('destination_login');
    expect((await place.deliver({ ...options, private_key: 'no key' })).error?.code).toBe('destination_login');
  });

  it('never replaces a file of others, and replaces its own', async () => {
    const options = { ...(await start()), file: 'list.csv' };
    await writeFile(join(server.inbox, 'list.csv'), 'of another writer\n');
    expect((await place.deliver(options)).error?.code).toBe('file_exists');
    expect([await inbox(), await readFile(join(server.inbox, 'list.csv'), 'utf8')]).toEqual([
      ['list.csv'],
      'of another writer\n',
    ]);
    await rm(join(server.inbox, 'list.csv'));
    await place.deliver(options);
    await place.stream.commit([insert('c', 3)]);
    expect((await place.deliver(options)).status).toBe('ok');
    expect(await readFile(join(server.inbox, 'list.csv'), 'utf8')).toBe('id,n\na,1\nb,2\nc,3\n');
  });

  it('says `upload: direct` where no rename is allowed, and then works', async () => {
    const options = await start('-P rename,posix-rename');
    const { error, status } = await place.deliver(options);
    expect([status, error?.code, error?.hint]).toEqual([
      'failed',
      'destination_permission',
      expect.stringContaining('upload: direct'),
    ]);
    expect(await inbox()).toEqual([]);
    // No partner can have taken the file.
    expect((await place.deliver(options)).error?.code).toBe('destination_permission');
    expect((await place.deliver({ ...options, upload: 'direct' })).status).toBe('ok');
    expect(await inbox()).toEqual(['members_1.csv']);
  });

  it('fills a drop box that forbids to look, list, remove and rename', async () => {
    const options = {
      ...(await start('-P stat,lstat,fstat,opendir,readdir,remove,rename,posix-rename')),
      upload: 'direct',
    };
    const delivered = await place.deliver(options);
    expect(delivered).toMatchObject({ status: 'ok', action: 'export' });
    expect(delivered.why).toContain('not read back');
    expect(await readFile(join(server.inbox, 'members_1.csv'), 'utf8')).toBe('id,n\na,1\nb,2\n');
    expect((await place.deliver(options)).action).toBe('nothing');
  });

  it('never replaces a file of others in a drop box that forbids to look, at no try', async () => {
    const options = { ...(await start('-P stat,lstat,fstat,opendir,readdir,remove,rename')), upload: 'direct' };
    const path = join(server.inbox, 'members_1.csv');
    await writeFile(path, 'of another writer\n');
    for (let run = 0; run < 3; run += 1) expect((await place.deliver(options)).status).toBe('failed');
    expect(await readFile(path, 'utf8')).toBe('of another writer\n');
    await rm(path);
    expect(await place.deliver(options)).toMatchObject({ status: 'ok', files: ['members_1.csv'] });
  });

  it.each([
    ['to look', 'stat,lstat', true],
    ['to rename over a name', 'posix-rename', true],
    ['to rename over a name, and to remove', 'posix-rename,remove', false],
    ['every rename', 'rename,posix-rename', false],
  ])('replaces its own file, or leaves it whole, if a server forbids %s', async (_, requests, isReplaced) => {
    const options = { ...(await start(`-P ${requests}`)), file: 'list.csv' };
    await place.deliver({ ...options, upload: 'direct' });
    await place.stream.commit([insert('c', 3)]);
    const { status, error } = await place.deliver(options);
    expect([status, error?.code]).toEqual(isReplaced ? ['ok', undefined] : ['failed', 'destination_permission']);
    const left = isReplaced ? 'id,n\na,1\nb,2\nc,3\n' : 'id,n\na,1\nb,2\n';
    expect(await readFile(join(server.inbox, 'list.csv'), 'utf8')).toBe(left);
  });

  it('names the folder that is missing', async () => {
    const options = await start();
    const { error } = await place.deliver({ ...options, url: `${options.url}/none` });
    expect([error?.code, error?.message]).toEqual(['destination_refused', expect.stringContaining('no folder')]);
    await mkdir(join(server.inbox, 'none'));
    expect((await place.deliver({ ...options, url: `${options.url}/none` })).status).toBe('ok');
  });

  it('removes files with a forgotten person', async () => {
    const options = await start();
    await place.deliver(options);
    await place.forget('a');
    expect((await place.deliver(options)).status).toBe('ok');
    expect(await inbox()).toEqual(['members_2.csv']);
    expect(await readFile(join(server.inbox, 'members_2.csv'), 'utf8')).toBe('id,n\nb,2\n');
  });
});
