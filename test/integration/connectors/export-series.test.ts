import { readdir, readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { DeleteObjectCommand, GetObjectCommand, ListObjectsV2Command } from '@aws-sdk/client-s3';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import exportConnector from '../../../connectors/export/index.js';
import type { FileConnector } from '../../../src/sdk/destination.js';
import type { FilePlace, HandOver } from '../../../src/sdk/file-destination.js';
import { randomFrom } from '../../fault/random.js';
import { Azurite, withoutAzurite } from '../../fixtures/azurite.js';
import { CuttingProxy } from '../../fixtures/cutting-proxy.js';
import { ObjectStore, s3Refusal } from '../../fixtures/object-store.js';
import { seed } from '../../fixtures/seed.js';
import { SshServer, sshdIsInstalled } from '../../fixtures/sshd.js';
import { ExportStream, gone, insert, update } from '../../unit/delivery/files/export-stream.js';
import type { Change } from '../../unit/delivery/published-stream.js';

/** How many series of ten runs there are on each place. */
const count = Number(process.env.CDSYNC_TEST_DELIVERIES ?? 3);
const runs = 10;
const real = exportConnector as unknown as FileConnector;

/** Whole numbers below the argument, determined by the seed. */
function draws(from: number): (below: number) => number {
  const random = randomFrom(from);
  return (below) => Math.floor(random() * below);
}

type Step = 'before' | 'uploaded' | 'noted' | 'after';

/** The connector in a process that ends at a step of its first hand-over. */
function killedAt(step: Step | undefined): FileConnector {
  const isAt = (other: Step) => {
    if (step === other) throw new Error('the process is gone');
  };
  return {
    ...real,
    async open(context) {
      const opened: FilePlace = await real.open(context);
      return {
        async handOver(task: HandOver) {
          isAt('before');
          const uploaded: HandOver['uploaded'] = async (to) => {
            isAt('uploaded');
            await task.uploaded(to);
            isAt('noted');
          };
          const handed = await opened.handOver({ ...task, uploaded });
          isAt('after');
          return handed;
        },
        remove: (name: string) => opened.remove(name),
        close: () => opened.close(),
      };
    },
  };
}

/** A place, as the partner sees it. */
interface Inbox {
  readonly options: Readonly<Record<string, unknown>>;
  files(): Promise<Readonly<Record<string, string>>>;
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

async function series(place: ExportStream, inbox: Inbox, draw: (below: number) => number): Promise<void> {
  const rows = new Map<string, number>();
  /** Each list that a snapshot had, and the people who are forgotten. */
  const lists = new Set<string>();
  const forgotten = new Set<string>();
  /** The files that the partner could have taken, by name: every content in turn, and how much was to be removed before. */
  const seen = new Map<string, { readonly text: string; readonly removals: number }[]>();
  const options = () => ({ ...inbox.options, file: 'list_{{ sequence | pad: 3 }}.csv' });
  let [made, isHidden, rules] = [0, false, 0];
  const hidingRun = draw(2 * runs);

  const look = async () => {
    for (const [name, text] of Object.entries(await inbox.files())) {
      if (name.startsWith('.')) continue;
      const before = seen.get(name) ?? [];
      if (before.at(-1)?.text === text) continue;
      seen.set(name, [...before, { text, removals: forgotten.size + rules }]);
      expect(lists).toContain(text);
      expect(text.startsWith('id,n')).toBe(!isHidden);
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
  const steps: (Step | undefined)[] = ['before', 'uploaded', 'noted', 'after', undefined, undefined];

  for (let run = 0; run < runs; run += 1) {
    const changes = new Map(Array.from({ length: 1 + draw(3) }, change).map((made) => [made.id, made]));
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
      place.connector = killedAt(steps[draw(steps.length)]);
      const delivered = await place.deliver(options());
      expect(delivered.error?.code).not.toBe('file_exists');
      inbox.respond(true);
      await look();
      const names = Object.keys(await inbox.files());
      const name = names[draw(names.length)];
      if (name !== undefined && draw(3) === 0 && !name.startsWith('.')) await inbox.take(name);
    }
    place.clock.jump(86_400_000);
  }

  place.connector = real;
  expect((await place.deliver(options())).status).toBe('ok');
  await look();
  expect((await place.deliver(options())).action).toBe('nothing');
  const left = await inbox.files();
  expect(Object.keys(left).filter((name) => name.startsWith('.'))).toEqual([]);
  for (const text of Object.values(left))
    for (const person of forgotten) expect(text).not.toMatch(new RegExp(`^${person},`, 'm'));
  // Numbers without a gap, each with one content; another one only if something was forgotten or hidden in between.
  const names = [...seen.keys()].sort();
  expect(names).toEqual(names.map((_, at) => `list_${String(at + 1).padStart(3, '0')}.csv`));
  for (const contents of seen.values())
    for (const [at, { removals }] of contents.slice(1).entries())
      expect(removals).toBeGreaterThan(contents[at]?.removals ?? 0);
  expect(seen.get(names.at(-1) ?? '')?.at(-1)?.text).toBe(listOf(rows, isHidden));
}

const azurite = await Azurite.open();

describe('runs with kills, outages, a watcher, erasures and a rule that hides', { timeout: 300_000 }, () => {
  const seeds = Array.from({ length: count }, (_, at) => seed + at);
  let store: ObjectStore;
  beforeAll(async () => {
    store = await ObjectStore.open();
  });
  afterAll(() => Promise.all([store.close(), azurite?.close()]));

  it.each(seeds)('leave each list once under its name in a folder: seed %i', async (from) => {
    const place = await ExportStream.open();
    const inbox: Inbox = {
      options: {},
      files: () => place.files(),
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
        const texts: Record<string, string> = {};
        for (const { Key = '' } of Contents) {
          const { Body } = await client.send(new GetObjectCommand({ Bucket, Key }));
          texts[Key.slice('in/'.length)] = (await Body?.transformToString()) ?? '';
        }
        return texts;
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
      async files() {
        const names = await readdir(server.inbox);
        const texts = names.map(async (name) => [name, await readFile(join(server.inbox, name), 'utf8')] as const);
        return Object.fromEntries(await Promise.all(texts));
      },
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
            async (name) => [name.slice('in/'.length), String(await azurite.bytes(container, name))] as const,
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
