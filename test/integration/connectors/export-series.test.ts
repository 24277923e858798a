import { createHash } from 'node:crypto';
import { readdir, readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { DeleteObjectCommand, GetObjectCommand, ListObjectsV2Command } from '@aws-sdk/client-s3';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { BucketStore } from '../../../connectors/export/bucket.js';
import { FolderStore } from '../../../connectors/export/folder.js';
import type { PutTask, Store } from '../../../connectors/export/place.js';
import { SftpStore } from '../../../connectors/export/sftp.js';
import { randomFrom } from '../../fault/random.js';
import { Azurite, withoutAzurite } from '../../fixtures/azurite.js';
import { CuttingProxy } from '../../fixtures/cutting-proxy.js';
import { ObjectStore, s3Refusal } from '../../fixtures/object-store.js';
import { seed } from '../../fixtures/seed.js';
import { SshServer, sshdIsInstalled } from '../../fixtures/sshd.js';
import { ExportStream, gone, insert, update } from '../../unit/delivery/files/export-stream.js';
import type { Change } from '../../unit/delivery/published-stream.js';
import { Readers } from './export-readers.js';

/** How many series of ten runs there are on each place. */
const count = Number(process.env.CDSYNC_TEST_DELIVERIES ?? 3);
const runs = 10;

/** Whole numbers below the argument, determined by the seed. */
function draws(from: number): (below: number) => number {
  const random = randomFrom(from);
  return (below) => Math.floor(random() * below);
}

/** Where the process ends: before or after the nth file of a delivery that it puts somewhere, or between the upload of one and its name. */
type Step = `${'before' | 'after'} ${1 | 2 | 3}` | 'uploaded' | 'noted';
const steps: readonly (Step | undefined)[] = [
  ...(['before 1', 'after 1', 'before 2', 'after 2', 'before 3', 'after 3', 'uploaded', 'noted'] as const),
  ...Array.from({ length: 4 }, () => undefined),
];
let [step, puts]: [Step | undefined, number] = [undefined, 0];

function killAt(...reached: readonly Step[]): void {
  if (reached.includes(step as Step)) throw new Error('the process is gone');
}

for (const { prototype } of [FolderStore, BucketStore, SftpStore] as readonly { prototype: Pick<Store, 'put'> }[]) {
  const { put } = prototype;
  prototype.put = async function (task: PutTask) {
    puts += 1;
    const nth = puts as 1;
    killAt(`before ${nth}`);
    const uploaded: PutTask['uploaded'] = async () => {
      if (nth === 1) killAt('uploaded');
      await task.uploaded();
      if (nth === 1) killAt('noted');
    };
    const result = await put.call(this, { ...task, uploaded });
    killAt(`after ${nth}`);
    return result;
  };
}

/** A place, as the partner sees it. */
interface Inbox {
  readonly options: Readonly<Record<string, unknown>>;
  files(): Promise<Readonly<Record<string, Buffer>>>;
  take(name: string): Promise<void>;
  /** Whether the place responds. */
  respond(does: boolean): void;
}

/** @param isHidden whether a rule drops the column `n` */
const listOf = (rows: ReadonlyMap<string, number>, isHidden: boolean) =>
  `${isHidden ? 'id' : 'id,n'}\n${[...rows]
    .sort(([one], [two]) => (one < two ? -1 : 1))
    .map(([id, n]) => `${id}${isHidden ? '' : `,${n}`}\n`)
    .join('')}`;

const dropped = { drop: true } as never;

/** The files of a folder. */
async function folderFiles(folder: string): Promise<Record<string, Buffer>> {
  const files = (await readdir(folder)).map(async (name) => [name, await readFile(join(folder, name))] as const);
  return Object.fromEntries(await Promise.all(files));
}

const isBeside = (name: string) => name.endsWith('.sha256') || name.endsWith('.done');

/** The rows of a partner who has carried out files of changes, one after the other. */
function carriedOut(texts: readonly string[]): Map<string, string> {
  const rows = new Map<string, string>();
  for (const line of texts.flatMap((text) => text.split('\n').slice(1, -1))) {
    const [op, id = '', n = ''] = line.split(',');
    if (op === 'delete') rows.delete(id);
    else rows.set(id, n);
  }
  return rows;
}

let readers: Readers;

/** Whether the first parts of a file, put together, are a list. */
function isWhole(parts: readonly string[], lists: ReadonlySet<string>): boolean {
  const [header = ''] = (parts[0] ?? '').split(/(?<=\n)/);
  const bodies = parts.map((text) => text.slice(header.length));
  return bodies.some((_, at) => lists.has(header + bodies.slice(0, at + 1).join('')));
}

async function series(place: ExportStream, inbox: Inbox, draw: (below: number) => number): Promise<void> {
  const rows = new Map<string, number>();
  /** Each list that a snapshot had, and the people who are forgotten. */
  const lists = new Set<string>();
  const forgotten = new Set<string>();
  /** The files that the partner could have taken, by name: every content in turn, and how much was to be removed before. */
  const seen = new Map<string, { readonly text: string; readonly sha256: string; readonly removals: number }[]>();
  const [hasBeside, hasChanges] = [draw(3) > 0, draw(3) === 0];
  const making = readers.making(draw);
  const isSplit = !hasChanges && draw(3) === 0;
  const textOf = (bytes: Buffer) => readers.text(bytes, making);
  const options = () => ({
    ...inbox.options,
    ...readers.optionsOf(making),
    ...(isSplit ? { split: { rows: 2 } } : {}),
    file: `list_{{ sequence | pad: 3 }}${isSplit ? '_{{ part }}' : ''}.csv`,
    content: hasChanges ? 'changes' : 'all',
    ...(hasBeside ? { checksum: 'sha256', done: '{{ file }}.done' } : {}),
  });
  let [made, isHidden, rules] = [0, false, 0];
  const hidingRun = draw(2 * runs);

  const lookAtText = (text: string) => {
    expect(text.split('\n', 1)[0]).toBe(`${hasChanges ? '_op,' : ''}id${isHidden ? '' : ',n'}`);
    const body = text.slice(text.indexOf('\n'));
    // Any part of a list has rows that follow each other in it.
    if (isSplit) return expect([...lists].some((list) => list.includes(body))).toBe(true);
    if (!hasChanges) return expect(lists).toContain(text);
    for (const person of forgotten) expect(text).not.toMatch(new RegExp(`^(insert|update),${person}(,|$)`, 'm'));
  };
  const look = async () => {
    const files = await inbox.files();
    for (const [name, bytes] of Object.entries(files)) {
      if (name.startsWith('.') || isBeside(name)) continue;
      const text = await textOf(bytes);
      const before = seen.get(name) ?? [];
      const sha256 = createHash('sha256').update(bytes).digest('hex');
      if (before.at(-1)?.sha256 === sha256) continue;
      seen.set(name, [...before, { text, sha256, removals: forgotten.size + rules }]);
      lookAtText(text);
    }
    for (const [name, bytes] of Object.entries(files)) {
      if (name.startsWith('.') || !isBeside(name)) continue;
      const file = name.replace(/\.\w+$/, '');
      // Neither before its file, nor of another.
      expect([...seen.keys()]).toContain(file);
      if (name.endsWith('.sha256'))
        expect(seen.get(file)?.map(({ sha256 }) => `${sha256}  ${file}\n`)).toContain(String(bytes));
    }
  };
  const change = (): Change => {
    const known = [...rows.keys()];
    const id = known[draw(known.length)];
    const kind = id === undefined ? 0 : draw(4);
    const n = draw(1000);
    if (id === undefined || kind < 2) {
      made += 1;
      rows.set(`m${made}`, n);
      return insert(`m${made}`, n);
    }
    if (kind === 2) {
      rows.set(id, n);
      return update(id, n);
    }
    rows.delete(id);
    return gone(id, 0);
  };
  const deliver = (at: Step | undefined) => {
    [step, puts] = [at, 0];
    return place.deliver(options());
  };

  for (let run = 0; run < runs; run += 1) {
    const before = new Set(rows.keys());
    const changes = new Map(Array.from({ length: 1 + draw(3) }, change).map((made) => [made.id, made]));
    // A run sees only the last of several changes.
    for (const [id, { op }] of changes) if (op !== 'insert' && !before.has(id)) changes.delete(id);
    for (const [id, n] of rows) if (!before.has(id)) changes.set(id, insert(id, n));
    await place.stream.commit([...changes.values()]);
    if (run === hidingRun) {
      [isHidden, rules] = [true, rules + 1];
      place.columns = new Map([['n', dropped]]);
    }
    const note = () => lists.add(listOf(rows, isHidden));
    note();
    const [person] = [...rows.keys()];
    if (person !== undefined && draw(4) === 0) {
      await place.forget(person);
      rows.delete(person);
      forgotten.add(person);
      note();
    }
    for (let tries = 1 + draw(2); tries > 0; tries -= 1) {
      inbox.respond(draw(4) > 0);
      const delivered = await deliver(steps[draw(steps.length)]);
      expect(delivered.error?.code).not.toBe('file_exists');
      inbox.respond(true);
      await look();
      const names = Object.keys(await inbox.files());
      const name = names[draw(names.length)];
      if (name !== undefined && draw(3) === 0 && !name.startsWith('.')) await inbox.take(name);
    }
    place.clock.jump(86_400_000);
  }

  expect((await deliver(undefined)).error).toBeUndefined();
  await look();
  expect((await deliver(undefined)).action).toBe('nothing');
  const left = await inbox.files();
  expect(Object.keys(left).filter((name) => name.startsWith('.'))).toEqual([]);
  for (const [name, bytes] of Object.entries(left))
    for (const person of isBeside(name) ? [] : forgotten)
      expect(await textOf(bytes)).not.toMatch(new RegExp(`^(insert,|update,)?${person}(,|$)`, 'm'));
  // Numbers without a gap, each with one content; another one only if something was forgotten or hidden in between.
  const numberOf = (name: string) => /^list_(\d{3})(?:_(\d+))?\.csv/.exec(name)?.slice(1).map(Number) ?? [];
  const names = [...seen.keys()].sort((one, two) => {
    const [[number = 0, part = 0], [otherNumber = 0, otherPart = 0]] = [numberOf(one), numberOf(two)];
    return number - otherNumber || part - otherPart;
  });
  const numbers = [...new Set(names.map((name) => numberOf(name)[0]))];
  expect(numbers).toEqual(numbers.map((_, at) => at + 1));
  const suffix = `${{ none: '', gzip: '.gz', zip: '.zip' }[making.compress]}${making.isSealed ? '.pgp' : ''}`;
  for (const name of names) expect(name).toMatch(new RegExp(`\\.csv${suffix.replaceAll('.', '\\.')}$`));
  for (const contents of seen.values())
    for (const [at, { removals }] of contents.slice(1).entries())
      expect(removals).toBeGreaterThan(contents[at]?.removals ?? 0);
  const last = names.at(-1) ?? '';
  if (hasBeside && last in left)
    expect(String(left[`${last}.sha256`] ?? '')).toMatch(new RegExp(`^(${seen.get(last)?.at(-1)?.sha256}  .*\n)?$`));
  for (const [name, checksum] of Object.entries(left)) {
    const bytes = left[name.replace(/\.sha256$/, '')];
    if (name.endsWith('.sha256') && bytes !== undefined) await readers.verify(name.slice(0, -7), bytes, checksum);
  }
  const texts = names.flatMap((name) => (seen.get(name) ?? []).map(({ text }) => text));
  if (isSplit)
    for (const number of numbers) {
      const parts = names.filter((name) => numberOf(name)[0] === number);
      const newest = number === numbers.length ? new Set([listOf(rows, isHidden)]) : lists;
      expect(
        isWhole(
          parts.map((name) => seen.get(name)?.at(-1)?.text ?? ''),
          newest,
        ),
      ).toBe(true);
    }
  else if (!hasChanges) expect(texts.at(-1)).toBe(listOf(rows, isHidden));
  else if (isHidden) expect([...carriedOut(texts).keys()].sort()).toEqual([...rows.keys()].sort());
  else expect([...carriedOut(texts)].sort()).toEqual([...rows].map(([id, n]) => [id, String(n)]).sort());
}

const azurite = await Azurite.open();

describe('runs with kills, outages, a watcher, erasures and a rule that hides', { timeout: 300_000 }, () => {
  const seeds = Array.from({ length: count }, (_, at) => seed + at);
  let store: ObjectStore;
  beforeAll(async () => {
    [store, readers] = await Promise.all([ObjectStore.open(), Readers.open()]);
  });
  afterAll(() => Promise.all([store.close(), readers.close(), azurite?.close()]));

  it.each(seeds)('leave each list once under its name in a folder: seed %i', async (from) => {
    const place = await ExportStream.open();
    const inbox: Inbox = {
      options: {},
      files: () => folderFiles(place.place),
      take: (name) => rm(join(place.place, name)),
      respond: () => undefined,
    };
    await series(place, inbox, draws(from)).finally(() => place.close());
  });

  it.each(seeds)('leave each list once under its name in a bucket: seed %i', async (from) => {
    const Bucket = `partner-${from}`;
    await store.createBucket(Bucket);
    const client = store.client();
    const place = await ExportStream.open();
    const login = { access_key_id: 'AKIDEXAMPLE', secret_access_key: 'secret', region: 'us-east-1' };
    const inbox: Inbox = {
      options: { url: `s3://${Bucket}/in`, endpoint: store.url, ...login },
      async files() {
        const { Contents = [] } = await client.send(new ListObjectsV2Command({ Bucket, Prefix: 'in/' }));
        const files: Record<string, Buffer> = {};
        for (const { Key = '' } of Contents) {
          const { Body } = await client.send(new GetObjectCommand({ Bucket, Key }));
          files[Key.slice('in/'.length)] = Buffer.from((await Body?.transformToByteArray()) ?? []);
        }
        return files;
      },
      async take(name) {
        await client.send(new DeleteObjectCommand({ Bucket, Key: `in/${name}` }));
      },
      respond(does) {
        store.meddling = does ? undefined : (_, response) => s3Refusal(response, 403, 'InvalidAccessKeyId');
      },
    };
    await series(place, inbox, draws(from)).finally(async () => {
      store.meddling = undefined;
      client.destroy();
      await place.close();
    });
  });

  it.skipIf(!sshdIsInstalled()).each(seeds)('leave each list once under its name at OpenSSH: seed %i', async (from) => {
    const server = await SshServer.start();
    const proxy = await CuttingProxy.open(`http://127.0.0.1:${server.port}`);
    const place = await ExportStream.open();
    const login = { private_key: server.key, host_key: server.prints.ed25519 };
    const draw = draws(from);
    const inbox: Inbox = {
      options: { url: server.url.replace(`:${server.port}`, `:${new URL(proxy.url).port}`), ...login },
      files: () => folderFiles(server.inbox),
      take: (name) => rm(join(server.inbox, name)),
      respond(does) {
        // In the greeting, in the login, or among the requests for the file.
        const after = [0, 1500, 3500 + draw(1500)][draw(3)] as number;
        proxy.cut = does ? undefined : { request: /^SSH-2/, at: 'midway', after };
      },
    };
    await series(place, inbox, draw).finally(async () => {
      await place.close();
      await proxy.close();
      await server.close();
    });
  });

  if (azurite === undefined) it.skip(`at Azure: ${withoutAzurite}`);
  else
    it.each(seeds)('leave each list once under its name at Azure: seed %i', async (from) => {
      const container = await azurite.container();
      const place = await ExportStream.open();
      const { endpoint, account, account_key } = azurite.login;
      const blobs = azurite.client.getContainerClient(container);
      const inbox = {
        options: { url: `az://${container}/in`, endpoint, account, account_key },
        async files() {
          const names = Object.keys(await azurite.blobs(container));
          const texts = names.map(
            async (name) => [name.slice('in/'.length), Buffer.from(await azurite.bytes(container, name))] as const,
          );
          return Object.fromEntries(await Promise.all(texts));
        },
        async take(name: string) {
          await blobs.deleteBlob(`in/${name}`);
        },
        respond(does: boolean) {
          this.options.account_key = does ? account_key : Buffer.alloc(64, 'k').toString('base64');
        },
      };
      await series(place, inbox, draws(from)).finally(() => place.close());
    });
});
