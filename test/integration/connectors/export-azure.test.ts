import { randomBytes } from 'node:crypto';
import { rm, writeFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { AzureStore } from '../../../src/sdk/azure/azure-store.js';
import { Secret } from '../../../src/sdk/index.js';
import { Azurite, withoutAzurite } from '../../fixtures/azurite.js';
import { ExportStream, insert } from '../../unit/delivery/files/export-stream.js';

const azurite = await Azurite.open();

if (azurite === undefined) it.skip(`files for Azure: ${withoutAzurite}`);
else
  describe('files for Azure', () => {
    let place: ExportStream;
    let container: string;
    let options: Record<string, unknown>;
    const { endpoint, account, account_key } = azurite.login;
    const at = () => ({ url: `az://${container}/in`, file: 'list_{{ sequence }}.csv', endpoint, account });
    const text = async (name: string) => String(await azurite.bytes(container, `in/${name}`));
    const names = async () => Object.keys(await azurite.blobs(container));
    const second = { name: 'second' };

    beforeEach(async () => {
      container = await azurite.container();
      place = await ExportStream.open();
      await place.stream.commit([insert('a', 1), insert('b', 2)]);
      options = { ...at(), account_key };
    });
    afterEach(() => place.close());
    afterAll(() => azurite.close());

    it('writes blobs once, and never over one of others', async () => {
      const marked = { ...options, checksum: 'md5', done: '{{ file }}.done' };
      expect(await place.deliver(marked)).toMatchObject({
        status: 'ok',
        files: ['list_1.csv'],
        why: 'nothing was handed over yet',
      });
      expect((await place.deliver(marked)).action).toBe('nothing');
      expect(await names()).toEqual(['in/list_1.csv', 'in/list_1.csv.done', 'in/list_1.csv.md5']);
      expect(await text('list_1.csv')).toBe('id,n\na,1\nb,2\n');
      await azurite.write(container, 'in/other_1.csv', 'of a partner');
      const other = { ...options, file: 'other_1.csv' };
      for (let run = 0; run < 2; run += 1)
        expect((await place.deliver(other, {}, second)).error?.code).toBe('file_exists');
      expect(await text('other_1.csv')).toBe('of a partner');
      const over = await place.deliver({ ...other, overwrite: true }, {}, second);
      expect([over.status, await text('other_1.csv')]).toEqual(['ok', 'id,n\na,1\nb,2\n']);
    });

    it('asks for nothing but the right to create, and says that it did not look', async () => {
      const sas = azurite.sas(container, 'c');
      const delivered = await place.deliver({ ...at(), sas });
      expect(delivered).toMatchObject({ status: 'ok', why: expect.stringContaining('not read back') });
      expect(await text('list_1.csv')).toBe('id,n\na,1\nb,2\n');
      await azurite.write(container, 'in/list_2.csv', 'of a partner');
      await place.stream.commit([insert('c', 3)]);
      for (let run = 0; run < 2; run += 1)
        expect((await place.deliver({ ...at(), sas })).error?.code).toBe('file_exists');
      expect(await text('list_2.csv')).toBe('of a partner');
    });

    it('never replaces a file of others that it may not look at, at no try', async () => {
      const sas = azurite.sas(container, 'cw');
      await azurite.write(container, 'in/list_1.csv', 'of a partner');
      for (let run = 0; run < 3; run += 1)
        expect((await place.deliver({ ...at(), sas })).error?.code).toBe('file_exists');
      expect(await text('list_1.csv')).toBe('of a partner');
      // The partner has taken it: the same file goes out.
      await azurite.client.getContainerClient(container).deleteBlob('in/list_1.csv');
      expect((await place.deliver({ ...at(), sas })).files).toEqual(['list_1.csv']);
    });

    it('removes files that are older than `keep`, and files that have a forgotten person', async () => {
      await place.deliver(options);
      await place.forget('a');
      expect(await place.deliver(options)).toMatchObject({ files: ['list_2.csv'] });
      expect(await names()).toEqual(['in/list_2.csv']);
      expect(await text('list_2.csv')).toBe('id,n\nb,2\n');
      place.clock.jump(3 * 86_400_000);
      await place.stream.commit([insert('c', 3)]);
      await place.deliver({ ...options, keep: '1d' });
      expect(await names()).toEqual(['in/list_3.csv']);
    });

    it.each([
      ['no such container', { url: 'az://nowhere/in' }, 'destination_refused', 'there is no container "nowhere"'],
      // Azure itself says AuthenticationFailed: see the unit test.
      ['a wrong key', { account_key: 'a'.repeat(86) }, 'destination_permission', 'AuthorizationFailure'],
      ['a SAS for reading', { account_key: undefined, sas: 'rl' }, 'destination_permission', 'refuses access'],
      ['a SAS that has ended', { account_key: undefined, sas: 'old' }, 'destination_login', 'ended on'],
    ])('names the mistake: %s', async (_, own: Record<string, unknown>, code, message) => {
      const sas =
        own.sas && azurite.sas(container, own.sas === 'old' ? 'c' : 'rl', own.sas === 'old' ? -60_000 : 60_000);
      const { error } = await place.deliver({ ...options, ...own, ...(sas ? { sas } : {}) });
      expect([error?.code, error?.message]).toEqual([code, expect.stringContaining(message)]);
      expect(JSON.stringify([error?.message, error?.hint])).not.toMatch(/sig=|Eby8|aaaa/);
      expect(await azurite.client.getContainerClient('nowhere').exists()).toBe(false);
    });

    describe('large files', () => {
      let store: AzureStore;
      let local: string;
      const bytes = 20 * 1024 * 1024 + 1;
      const signal = new AbortController().signal;
      beforeEach(async () => {
        local = join(place.place, 'large');
        await writeFile(local, randomBytes(bytes));
        const key = new Secret(account_key);
        store = await AzureStore.open({ url: `az://${container}/in`, endpoint, account, accountKey: key, signal });
      });
      afterEach(async () => {
        store.close();
        await rm(local);
      });

      it('are staged in blocks, and there whole or not at all', async () => {
        await expect(store.putFile(local, 'large', { md5: '0'.repeat(32), isNew: true })).rejects.toMatchObject({
          code: 'file_changed',
        });
        expect(await names()).toEqual([]);
        expect(await store.putFile(local, 'large', { isNew: true })).toBe(true);
        expect(await store.head('large')).toMatchObject({ bytes });
        expect(await store.putFile(local, 'large', { isNew: true })).toBe(false);
      });

      it('go in one request with a login that may only create', async () => {
        const sas = new Secret(azurite.sas(container, 'c'));
        const creating = await AzureStore.open({ url: `az://${container}/in`, endpoint, account, sas, signal });
        expect(await creating.putFile(local, 'large', { isNew: true })).toBe(true);
        expect(await store.head('large')).toMatchObject({ bytes });
        creating.close();
      });
    });

    describe('when the response to a write is lost', () => {
      let front: Server;
      let lost = 0;
      beforeAll(async () => {
        front = createServer(async (request, response) => {
          const chunks: Buffer[] = [];
          for await (const chunk of request) chunks.push(chunk as Buffer);
          const headers = new Headers(request.headers as Record<string, string>);
          for (const name of ['connection', 'content-length', 'transfer-encoding']) headers.delete(name);
          // The signature is of the account and the path, not of the host.
          const body = request.method === 'PUT' ? Buffer.concat(chunks) : undefined;
          const forwarded = await fetch(`${azurite.url}${request.url}`, {
            method: request.method ?? 'GET',
            headers,
            ...(body ? { body } : {}),
          });
          if (request.method === 'PUT' && lost === 0) {
            lost += 1;
            return void response.destroy();
          }
          response.writeHead(forwarded.status, Object.fromEntries(forwarded.headers));
          response.end(Buffer.from(await forwarded.arrayBuffer()));
        });
        await new Promise<void>((resolve) => front.listen(0, '127.0.0.1', resolve));
      });
      afterAll(() => front.close());

      it('the file counts as handed over, and is no file of others', async () => {
        const through = `http://127.0.0.1:${(front.address() as AddressInfo).port}`;
        const sas = azurite.sas(container, 'rcw');
        const delivered = await place.deliver({ ...at(), sas, endpoint: through });
        expect([delivered.status, lost]).toEqual(['ok', 1]);
        expect(await text('list_1.csv')).toBe('id,n\na,1\nb,2\n');
      });
    });
  });
