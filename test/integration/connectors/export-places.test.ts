import { execFileSync } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DeleteObjectCommand, GetObjectCommand, PutObjectCommand } from '@aws-sdk/client-s3';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { ObjectStore, s3Refusal } from '../../fixtures/object-store.js';
import { ExportStream, insert, update } from '../../unit/delivery/files/export-stream.js';

const loginAt = (endpoint: string) => ({
  endpoint,
  access_key_id: 'AKIDEXAMPLE',
  secret_access_key: 'secret',
  region: 'us-east-1',
});

let place: ExportStream;
beforeEach(async () => {
  place = await ExportStream.open();
  await place.stream.commit([insert('a', 1), insert('b', 2)]);
});
afterEach(() => place.close());

describe('files for a bucket', () => {
  let store: ObjectStore;
  beforeAll(async () => {
    store = await ObjectStore.open();
  });
  afterEach(() => {
    store.meddling = undefined;
  });
  afterAll(() => store.close());

  it('writes objects once, with no probe, and never over one of others', async () => {
    const login = loginAt(store.url);
    await store.createBucket('partner');
    const options = {
      url: 's3://partner/in',
      ...login,
      file: 'list_{{ sequence }}.csv',
      done: '{{ file }}.done',
      acl: 'bucket-owner-full-control',
    };
    expect(await place.deliver(options)).toMatchObject({ status: 'ok', files: ['list_1.csv'] });
    expect((await place.deliver(options)).action).toBe('nothing');
    const written = store.requests.filter((request) => request.startsWith('PUT') && request.includes('/in/'));
    expect(written.map((request) => request.replace(/\?.*/, ''))).toEqual([
      'PUT /partner/in/list_1.csv',
      'PUT /partner/in/list_1.csv.done',
    ]);
    await place.stream.commit([insert('c', 3)]);
    const other = { ...options, file: 'list_1.csv' };
    expect((await place.deliver(other, {}, { name: 'second' })).error?.code).toBe('file_exists');
  });

  it('replaces an object of the day before that is as long', async () => {
    await store.createBucket('daily');
    const options = { url: 's3://daily/in', ...loginAt(store.url), file: 'list.csv' };
    await place.deliver(options);
    await place.stream.commit([update('a', 3)]);
    expect((await place.deliver(options)).status).toBe('ok');
    const client = store.client();
    const { Body } = await client.send(new GetObjectCommand({ Bucket: 'daily', Key: 'in/list.csv' }));
    expect(await Body?.transformToString()).toBe('id,n\na,3\nb,2\n');
    client.destroy();
  });

  it('never replaces a file of others that it may not look at, at no try', async () => {
    await store.createBucket('blind');
    const client = store.client();
    await client.send(new PutObjectCommand({ Bucket: 'blind', Key: 'in/list_1.csv', Body: 'of a partner' }));
    store.meddling = ({ method }, response) =>
      method === 'HEAD' || method === 'GET' ? s3Refusal(response, 403, 'AccessDenied') : undefined;
    const options = { url: 's3://blind/in', ...loginAt(store.url), file: 'list_{{ sequence }}.csv' };
    for (let run = 0; run < 3; run += 1) expect((await place.deliver(options)).error?.code).toBe('file_exists');
    const { Body } = await client.send(new GetObjectCommand({ Bucket: 'blind', Key: 'in/list_1.csv' }));
    expect(await Body?.transformToString()).toBe('of a partner');
    await client.send(new DeleteObjectCommand({ Bucket: 'blind', Key: 'in/list_1.csv' }));
    client.destroy();
    expect(await place.deliver(options)).toMatchObject({
      files: ['list_1.csv'],
      why: expect.stringContaining('not read back'),
    });
  });
});

describe('files that are encrypted', () => {
  let home: string;
  const gpg = (...args: string[]) =>
    execFileSync('gpg', ['--homedir', home, '--batch', '--quiet', ...args], { stdio: ['ignore', 'pipe', 'ignore'] });
  const key = (name: string, ...kind: string[]) => gpg('--passphrase', '', '--quick-generate-key', name, ...kind);
  const exported = async (...names: string[]) => {
    const path = join(home, `${names.join('-')}.asc`);
    const blocks = names.map((name) => String(gpg('--armor', '--export', name)));
    await writeFile(path, blocks.join('\n'));
    return path;
  };

  beforeAll(async () => {
    home = await mkdtemp(join(tmpdir(), 'cdsync-gpg-'));
    key('partner@example.com', 'future-default', 'default', 'never');
    key('second@example.com', 'default', 'default', 'never');
    key('signer@example.com', 'ed25519', 'sign', 'never');
    key('soon@example.com', 'future-default', 'default', '10d');
    gpg(
      '--passphrase',
      '',
      '--faked-system-time',
      '20200101T000000',
      '--quick-generate-key',
      'old@example.com',
      'future-default',
      'default',
      '30d',
    );
  }, 60_000);
  afterAll(async () => {
    execFileSync('gpgconf', ['--homedir', home, '--kill', 'all']);
    await rm(home, { recursive: true, force: true });
  });

  it('are read by gpg, with every key of a file of two blocks, signed, and have the clear name', async () => {
    const pgp = [await exported('partner@example.com', 'second@example.com')];
    const sign = String(gpg('--armor', '--export-secret-keys', 'signer@example.com'));
    const delivered = await place.deliver({ encrypt: { pgp, sign }, compress: 'gzip' });
    expect(delivered.error?.message).toBeUndefined();
    expect(delivered).toMatchObject({ status: 'ok', files: ['members_0001.csv.gz.pgp'] });
    const path = join(place.place, 'members_0001.csv.gz.pgp');
    const clear = join(home, 'clear.gz');
    gpg('--output', clear, '--decrypt', path);
    expect(String(execFileSync('gunzip', ['-c', clear]))).toBe('id,n\na,1\nb,2\n');
    const packets = String(gpg('--list-packets', path));
    expect(packets).toContain('members_0001.csv');
    expect(packets).toContain('mdc_method: 2');
    expect(packets).not.toContain('aead');
    expect(packets.match(/:pubkey enc packet/g)).toHaveLength(2);
    expect(packets).toContain('signature packet');
  });

  it.each([
    ['old@example.com', 'ended on 2020-01-31'],
    ['signer@example.com', 'no usable sub-key for encryption'],
  ])('are refused for the key of %s before a byte goes out', async (name, problem) => {
    const { error } = await place.deliver({ encrypt: { pgp: [await exported(name)] } });
    expect([error?.code, error?.message]).toEqual(['key_file_invalid', expect.stringContaining(problem)]);
    expect(await place.files()).toEqual({});
  });

  it('are refused for a private key', async () => {
    const path = join(home, 'secret.asc');
    await writeFile(path, gpg('--armor', '--export-secret-keys', 'partner@example.com'));
    const { error } = await place.deliver({ encrypt: { pgp: [path] } });
    expect([error?.code, error?.message]).toEqual(['key_file_invalid', expect.stringContaining('private key')]);
  });
});
