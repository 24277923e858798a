import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { DeleteObjectCommand, GetObjectCommand, ListObjectsV2Command } from '@aws-sdk/client-s3';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import exportConnector from '../../../connectors/export/index.js';
import type { FileConnector } from '../../../src/sdk/destination.js';
import type { FilePlace, HandOver } from '../../../src/sdk/file-destination.js';
import { randomFrom } from '../../fault/random.js';
import { ObjectStore, s3Refusal } from '../../fixtures/object-store.js';
import { seed } from '../../fixtures/seed.js';
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
          const uploaded = async () => {
            isAt('uploaded');
            await task.uploaded();
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

const listOf = (rows: ReadonlyMap<string, number>) =>
  `id,n\n${[...rows]
    .sort(([one], [two]) => (one < two ? -1 : 1))
    .map(([id, n]) => `${id},${n}\n`)
    .join('')}`;

async function series(place: ExportStream, inbox: Inbox, draw: (below: number) => number): Promise<void> {
  const rows = new Map<string, number>();
  /** Each list that a snapshot had, and the people who are forgotten. */
  const lists = new Set<string>();
  const forgotten = new Set<string>();
  /** The files that the partner could have taken, by name: every content in turn, and how many people were forgotten before. */
  const seen = new Map<string, { readonly text: string; readonly erased: number }[]>();
  const options = { ...inbox.options, file: 'list_{{ sequence | pad: 3 }}.csv' };
  let made = 0;

  const look = async () => {
    for (const [name, text] of Object.entries(await inbox.files())) {
      if (name.startsWith('.')) continue;
      const before = seen.get(name) ?? [];
      if (before.at(-1)?.text === text) continue;
      seen.set(name, [...before, { text, erased: forgotten.size }]);
      expect(lists).toContain(text);
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
    lists.add(listOf(rows));
    const [person] = [...rows.keys()];
    if (person !== undefined && draw(4) === 0) {
      await place.forget(person);
      rows.delete(person);
      forgotten.add(person);
      lists.add(listOf(rows));
    }
    for (let tries = 1 + draw(2); tries > 0; tries -= 1) {
      inbox.respond(draw(4) > 0);
      place.connector = killedAt(steps[draw(steps.length)]);
      const delivered = await place.deliver(options);
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
  expect((await place.deliver(options)).status).toBe('ok');
  await look();
  expect((await place.deliver(options)).action).toBe('nothing');
  const left = await inbox.files();
  expect(Object.keys(left).filter((name) => name.startsWith('.'))).toEqual([]);
  for (const text of Object.values(left))
    for (const person of forgotten) expect(text).not.toMatch(new RegExp(`^${person},`, 'm'));
  // Numbers without a gap, each with one content; another one only if a person was forgotten in between.
  const names = [...seen.keys()].sort();
  expect(names).toEqual(names.map((_, at) => `list_${String(at + 1).padStart(3, '0')}.csv`));
  for (const contents of seen.values())
    for (const [at, { erased }] of contents.slice(1).entries())
      expect(erased).toBeGreaterThan(contents[at]?.erased ?? 0);
  expect(seen.get(names.at(-1) ?? '')?.at(-1)?.text).toBe(listOf(rows));
}

describe('runs with kills, outages, a watcher and erasures', () => {
  const seeds = Array.from({ length: count }, (_, at) => seed + at);
  let store: ObjectStore;
  beforeAll(async () => {
    store = await ObjectStore.open();
  });
  afterAll(() => store.close());

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
});
