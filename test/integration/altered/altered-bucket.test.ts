import { cp, mkdir, readdir, rm, stat, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { GetObjectCommand, ListObjectsV2Command, PutObjectCommand, type S3Client } from '@aws-sdk/client-s3';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { rowsOfFile } from '../../fixtures/duckdb-rows.js';
import { filesHolding } from '../../fixtures/files-holding.js';
import { bucketName, Machines } from '../../fixtures/machines.js';
import { ObjectStore } from '../../fixtures/object-store.js';
import { Workspace } from '../../fixtures/workspace.js';
import type { Trap } from './alterations.js';
import { type BucketAlteration, bucketAlterations, type Objects } from './bucket-alterations.js';

const content = 'the-secret-of-another';
const profiles = 20;
let space: Workspace;
let store: ObjectStore;
let client: S3Client;
let trap: Trap;
let machines: Machines;
let kept: Objects;
let all: readonly BucketAlteration[];
let places = 0;
const prefix = () => `p${places}`;
const warehouse = () => join(space.folder, 'wh.duckdb');

async function contents(at: string): Promise<Objects> {
  const objects: Objects = new Map();
  const { Contents = [] } = await client.send(new ListObjectsV2Command({ Bucket: bucketName, Prefix: `${at}/` }));
  for (const { Key = '' } of Contents) {
    const { Body } = await client.send(new GetObjectCommand({ Bucket: bucketName, Key }));
    objects.set(Key.slice(at.length + 1), Buffer.from((await Body?.transformToByteArray()) ?? []));
  }
  return objects;
}

async function machine(): Promise<void> {
  const streams = [
    { name: 'members', source: 'index_profiles', index: 'loyalty_members' },
    { name: 'vip', source: 'sql', key: ['id'], query: 'select id from members' },
  ];
  const url = `s3://${bucketName}/${prefix()}`;
  machines = new Machines(space, { ...Machines.login(store), url }, { streams, destinations });
  await machines.add('a');
}

const destinations = [{ name: 'wh', connector: 'duckdb', path: './wh.duckdb', streams: ['members'] }];

beforeAll(async () => {
  space = await Workspace.open({ profiles });
  store = await ObjectStore.open();
  await store.createBucket(bucketName);
  client = store.client();
  await machine();
  await machines.runWell('a');
  await space.control('change', { days: 1 });
  await machines.runWell('a');
  kept = await contents(`${prefix()}/nightly`);
  all = bucketAlterations(kept);
  const folder = join(space.folder, 'trap');
  trap = { secret: join(folder, 'secret'), folder };
  await mkdir(folder);
  await writeFile(trap.secret, content, { mode: 0o600 });
  await cp(warehouse(), `${warehouse()}.kept`);
}, 120_000);
afterAll(async () => {
  client.destroy();
  await store.close();
  await space.close();
});

/** A bucket with the objects, and a machine without files. */
async function restore(objects: Objects): Promise<void> {
  places += 1;
  for (const [name, Body] of objects)
    await client.send(new PutObjectCommand({ Bucket: bucketName, Key: `${prefix()}/nightly/${name}`, Body }));
  await machine();
  await cp(`${warehouse()}.kept`, warehouse());
  await utimes(trap.secret, new Date(0), new Date(1000));
}

const commands: readonly (readonly string[])[] = [
  ['query', 'select count(*)::int as n from members', '--format', 'json'],
  ['push', '--full'],
  ['forget', 'absent', '--everywhere', '--dry-run'],
  ['run', '--full'],
  ['verify'],
];

/** Runs each command on a machine that has no files. @returns their faults */
async function faults(): Promise<string[]> {
  const wrong: string[] = [];
  for (const [command = '', ...words] of commands) {
    await rm(join(space.folder, 'caches'), { recursive: true, force: true });
    const { code, stdout, stderr } = await machines.cdsync('a', command, ...words);
    const said = `${stdout}${stderr}`;
    if (said.includes(content)) wrong.push(`${command} shows the secret`);
    if (said.includes('[unexpected]')) wrong.push(`${command}: ${stderr}`);
    if (![0, 1, 3, 5, 75].includes(code ?? -1)) wrong.push(`${command} ends with ${code}: ${stderr}`);
    if ((await stat(trap.secret)).atimeMs !== 0) wrong.push(`${command} reads the secret`);
    if (command === 'query' && code === 0 && JSON.parse(stdout)[0].n !== profiles) wrong.push(`query: ${stdout}`);
    if (code === 0 && (command === 'push' || command === 'run')) {
      const [row] = await rowsOfFile(warehouse(), 'select count(*)::int as n from members');
      if (row?.n !== profiles) wrong.push(`${command}: ${row?.n} rows`);
    }
    for (const file of ['.cdsync', '.cdsync/store.duckdb', '.cdsync/format.json', '.cdsync/feeds/members.json']) {
      const { mode = 0 } = (await stat(join(machines.cache('a'), file)).catch(() => undefined)) ?? {};
      if ((mode & 0o077) !== 0) wrong.push(`${command}: others may use ${file}`);
    }
  }
  if ((await readdir(trap.folder)).length !== 1) wrong.push('something is written outside');
  const holding = (await filesHolding(space.folder, [content])).filter((path) => path !== 'trap/secret');
  if (holding.length > 0) wrong.push(`the secret is in ${holding}`);
  return wrong;
}

const timeout = 3_600_000;

it('a change of another program in a bucket is refused or of no effect, in each command', { timeout }, async () => {
  expect(all.length).toBeGreaterThan(50);
  const wrong: string[] = [];
  for (const { what, make } of all) {
    const objects: Objects = new Map(kept);
    make(objects, trap);
    await restore(objects);
    for (const fault of await faults()) wrong.push(`${what}: ${fault}`);
  }
  expect(wrong).toEqual([]);
});
