import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { GetObjectCommand, ListObjectsV2Command } from '@aws-sdk/client-s3';
import { afterAll, beforeAll, describe } from 'vitest';
import files from '../../../connectors/files/index.js';
import { folderOf } from '../../../connectors/files/manifest.js';
import { comparedRows } from '../../../src/conformance/compare.js';
import { type TablePlace, tableConformance } from '../../../src/conformance/index.js';
import { ObjectStore, readerKeyId } from '../../fixtures/object-store.js';
import { setQuery } from '../../fixtures/set-reader.js';

describe('in an S3 store, as JSON lines', () => {
  const server = { host: '127.0.0.1', port: 0 };
  let store: ObjectStore;
  let buckets = 0;
  beforeAll(async () => {
    store = await ObjectStore.open();
    server.port = Number(new URL(store.url).port);
  });
  afterAll(() => store.close());

  async function bucketPlace(): Promise<TablePlace> {
    buckets += 1;
    const [client, Bucket] = [store.client(), `bucket-${buckets}`];
    await store.createBucket(Bucket);
    const folder = await mkdtemp(join(tmpdir(), 'cdsync-files-'));
    const fetch = async (key: string) => {
      const { Body } = await client.send(new GetObjectCommand({ Bucket, Key: `exports/${key}` }));
      const local = join(folder, key);
      await mkdir(dirname(local), { recursive: true });
      await writeFile(local, (await Body?.transformToByteArray()) ?? '');
      return local;
    };
    const login = { access_key_id: 'AKIDEXAMPLE', secret_access_key: 'a-secret-of-the-test' };
    const options = { url: `s3://${Bucket}/exports`, endpoint: store.url, ...login, format: 'jsonl', memory_mb: 256 };
    return {
      options,
      rows: async (table) => comparedRows(await setQuery((name) => fetch(`${folderOf(table)}/${name}`))),
      through: (port) => ({ endpoint: `http://127.0.0.1:${port}` }),
      withoutPermission: async () => ({ ...options, access_key_id: readerKeyId }),
      contents: async () => {
        const { Contents = [] } = await client.send(new ListObjectsV2Command({ Bucket }));
        return Contents.map(({ Key, ETag, LastModified }) => [Key, ETag, LastModified?.toISOString()].join(' '));
      },
      close: async () => {
        client.destroy();
        await rm(folder, { recursive: true, force: true });
      },
    };
  }

  tableConformance({ connector: files, server, place: bucketPlace });
});
