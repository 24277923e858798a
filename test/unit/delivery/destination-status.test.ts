import { mkdir, stat, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import {
  readRejects,
  rejectsPath,
  rememberDelivery,
  rememberOwed,
  workFolder,
  writeRejects,
} from '../../../src/delivery/delivery-state.js';
import {
  destinationStatuses,
  eraseFromDestination,
  forgetDestination,
} from '../../../src/delivery/destination-status.js';
import { DeliveryInput } from '../../../src/delivery/input.js';
import { type DestinationStatus, lagWords } from '../../../src/delivery/lag-words.js';
import { Outbox } from '../../../src/delivery/records/outbox.js';
import { movePosition, readPosition } from '../../../src/delivery/records/position.js';
import { writeFeed } from '../../../src/snapshot/feed.js';
import { PublishedStream } from './published-stream.js';

let published: PublishedStream;
beforeEach(async () => {
  published = await PublishedStream.open();
});
afterEach(() => published.close());

/** A run that reads three rows. */
async function run(): Promise<void> {
  await published.commit(['a', 'b', 'c'].map((id) => ({ op: 'insert', id, n: 1 })));
  await writeFeed(published.layout, published.feed);
}

function deliver(sequence: number, more: { store_id?: string } = {}): Promise<void> {
  return rememberDelivery(published.layout, 'crm', 'members', {
    table: 'people',
    store_id: 'store',
    sequence,
    delivered_at: '2026-01-05T00:00:00.000Z',
    ...more,
  });
}

async function status(): Promise<DestinationStatus> {
  const [found] = await destinationStatuses(published.layout, [{ name: 'crm', streams: ['members'] }]);
  return found as DestinationStatus;
}

it('names in one sentence, on every output, the rows that are sent and the ones that are missing', async () => {
  await run();
  await deliver(0);
  const found = {
    ...(await status()),
    outbox: { records: 3, acknowledged: 1 },
    behind: 1,
    behind_since: null,
    pending: 1,
  };
  expect(lagWords(found, 0)).toBe('1 of 3 records sent; 1 commit behind, lacks 1 change');
});

const rejects = () => rejectsPath(published.layout, 'crm', 'members');
const reject = { key: 'b', column: null, reason: 'unknown', run_id: 'run-1' };

async function fillOutbox(): Promise<Outbox> {
  const { layout, session, feed, folder } = published;
  const task = { layout, feed, session, folder: join(folder, 'input') };
  const queries = (await (await DeliveryInput.open(task)).changes(0, 'append')).map(({ query }) => query);
  const members = [{ value: '"id"', name: 'id', type: { kind: 'text' } as const }];
  const target = join(layout.deliveredStream('crm', 'members'), 'outbox');
  const { store_id, sequence, run_id, key } = feed;
  const content = { store_id, sequence, run_id, key, columns: [], erased: 0, base: null, is_whole: false };
  return Outbox.fill(session, target, { feed, queries, members, content });
}

describe('a destination', () => {
  it('remembers every stream of several that end at the same time', async () => {
    const streams = ['a', 'b', 'c', 'd'];
    const state = { table: null, store_id: 'store', sequence: 1, delivered_at: '2026-01-01T00:00:00.000Z' };
    await Promise.all(streams.map((stream) => rememberDelivery(published.layout, 'crm', stream, state)));
    await Promise.all(streams.map((stream) => rememberOwed(published.layout, 'crm', stream)));
    const found = await destinationStatuses(published.layout, [{ name: 'crm', streams }]);
    expect(found.map(({ sequence, erasures_pending }) => [sequence, erasures_pending])).toEqual(
      streams.map(() => [1, 1]),
    );
  });

  it('lacks nothing before the first run', async () => {
    expect(await status()).toEqual({
      name: 'crm',
      stream: 'members',
      table: null,
      sequence: null,
      delivered_at: null,
      behind: 0,
      behind_since: null,
      pending: 0,
      last_action: null,
      last_why: null,
      refused: 0,
      waiting: 0,
      erasures_pending: 0,
      erasures_since: null,
      outbox: null,
    });
  });

  it('without a delivery needs the whole snapshot', async () => {
    await run();
    expect(await status()).toMatchObject({ sequence: null, behind: 1, pending: null });
  });

  it('with the published snapshot lacks nothing', async () => {
    await run();
    await deliver(1);
    expect(await status()).toMatchObject({
      table: 'people',
      sequence: 1,
      delivered_at: '2026-01-05T00:00:00.000Z',
      behind: 0,
      pending: 0,
    });
  });

  it('lacks the changes of each run since', async () => {
    await published.commit([
      { op: 'insert', id: 'a', n: 1 },
      { op: 'insert', id: 'b', n: 1 },
    ]);
    await published.commit([{ op: 'delete', id: 'b', n: 1 }]);
    await published.commit([
      { op: 'update', id: 'a', n: 3 },
      { op: 'insert', id: 'd', n: 3 },
    ]);
    await writeFeed(published.layout, published.feed);
    await deliver(1);
    expect(await status()).toMatchObject({ sequence: 1, behind: 2, pending: 3 });
    await deliver(2);
    expect(await status()).toMatchObject({ sequence: 2, behind: 1, pending: 2 });
  });

  it('further behind than the kept changes, or of another storage folder, needs the whole snapshot', async () => {
    await run();
    await deliver(1);
    await published.commit([{ op: 'update', id: 'a', n: 2 }]);
    await published.commit([{ op: 'update', id: 'a', n: 3 }]);
    await writeFeed(published.layout, { ...published.feed, complete_since: 2 });
    expect(await status()).toMatchObject({ sequence: 1, behind: 2, pending: null });
    await deliver(3, { store_id: 'another' });
    expect(await status()).toMatchObject({ sequence: 3, behind: 3, pending: null });
  });

  it('that was never loaded lacks the first load too, which is among no changes', async () => {
    await run();
    const first = { complete_since: 1, complete_since_run: '20260104T030405Z-00abcd' };
    await writeFeed(published.layout, { ...published.feed, ...first, changes: [] });
    expect(await status()).toMatchObject({ behind: 1, behind_since: '2026-01-04T03:04:05.000Z', pending: null });
    await published.commit([{ op: 'insert', id: 'd', n: 1 }]);
    await writeFeed(published.layout, { ...published.feed, ...first, changes: published.feed.changes.slice(1) });
    expect(await status()).toMatchObject({ behind: 2, behind_since: '2026-01-04T03:04:05.000Z', pending: null });
  });

  it('is shown with its refused rows and the progress of its outbox', async () => {
    await run();
    await deliver(1);
    await writeRejects(rejects(), [reject, { ...reject, key: 'c' }, { ...reject, key: 'd', is_waiting: true }]);
    const outbox = await fillOutbox();
    outbox.acknowledged.note([0, 1], []);
    await outbox.close();
    const found = await status();
    expect(found).toMatchObject({ refused: 2, waiting: 1, outbox: { records: 3, acknowledged: 2 } });
    expect(lagWords(found as DestinationStatus, 0)).toMatch(/; 2 rejects \(cdsync rejects\); 1 record waits/);
  });

  it('is shown as new if its remembered state cannot be read', async () => {
    await run();
    const path = join(published.layout.delivery('crm'), 'state.json');
    await mkdir(dirname(path), { recursive: true });
    await writeFile(path, '{');
    expect(await status()).toMatchObject({ sequence: null, behind: 1 });
  });

  it('is not shown if the feed cannot be read', async () => {
    await run();
    await writeFile(published.layout.feed('members'), '{');
    await expect(status()).rejects.toMatchObject({
      code: 'state_unreadable',
      hint: expect.stringContaining('the next run writes it again'),
    });
  });
});

it('a forgotten destination has nothing, and others stay as they are', async () => {
  const { layout } = published;
  await run();
  await deliver(1);
  await writeRejects(rejects(), [reject]);
  await (await fillOutbox()).close();
  const kept = layout.deliveredStream('crm', 'members');
  const made = { key: ['id'], columns: [], erased: 0 };
  await movePosition(kept, { version: 1, store_id: 's', sequence: 1, run_id: 'run-1', ...made });
  await rememberDelivery(layout, 'crm', 'others', {
    table: null,
    store_id: 'store',
    sequence: 7,
    delivered_at: '2026-01-05T00:00:00.000Z',
  });
  await forgetDestination(layout, 'crm', ['members']);
  expect(await status()).toMatchObject({ sequence: null, table: null, refused: 0, outbox: null, pending: null });
  expect([await readPosition(kept), await readRejects(rejects())]).toEqual([undefined, []]);
  const [others] = await destinationStatuses(layout, [{ name: 'crm', streams: ['others'] }]);
  expect(others?.sequence).toBe(7);
});

it('an erasure removes files of a delivery that was killed', async () => {
  const { layout, session } = published;
  const left = join(workFolder(layout, 'crm'), 'members', 'files', '1.csv');
  await mkdir(dirname(left), { recursive: true });
  await writeFile(left, 'b,1');
  await eraseFromDestination(session, layout, { destination: 'crm', stream: 'members', keys: ['b'] });
  await expect(stat(left)).rejects.toMatchObject({ code: 'ENOENT' });
});

it('a list of refused values that is damaged counts as lost', async () => {
  await writeRejects(rejects(), [reject]);
  await writeFile(rejects(), '{');
  expect((await status()).refused).toBe(0);
});
