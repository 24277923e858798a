import { mkdir, rm, writeFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { readDeliveryState, rejectsPath } from '../../../../src/delivery/delivery-state.js';
import { resetDelivery } from '../../../../src/delivery/destination-status.js';
import { allowKeys, dropCarriedOut, erasureLog } from '../../../../src/delivery/erasure-log.js';
import { recordDecisions } from '../../../../src/storage/decisions.js';
import { readErasures } from '../../../../src/storage/erasures.js';
import type { PublishedStream } from '../published-stream.js';
import { Delivering, gone, insert, update } from './delivering.js';
import type { Receiver } from './receiver.js';

let delivering: Delivering;
let stream: PublishedStream;
let receiver: Receiver;
beforeEach(async () => {
  delivering = await Delivering.open();
  ({ stream, receiver } = delivering);
  await mkdir(dirname(stream.layout.decisionsLock), { recursive: true });
  await stream.commit(['a', 'b', 'c', 'd'].map((id) => insert(id, 1)));
});
afterEach(() => delivering.close());

const deliver: Delivering['deliver'] = (...asked) => delivering.deliver(...asked);
const said = () => receiver.got.splice(0).map(({ op, key, data }) => `${op} ${key} ${data.n ?? '-'}`);
const reset = () => resetDelivery(stream.layout, 'crm', ['members']);

/** Erases a person, and notes it in the log as `forget` does. */
async function forget(id: string): Promise<void> {
  await delivering.forget(id);
  const erasure = (await readErasures(stream.layout, 'members')).at(-1)?.number ?? 0;
  const places = [{ destination: 'crm', stream: 'members', configured: true }];
  await recordDecisions(stream.layout, Date.now(), (hash) => [
    { action: 'forget', erasure, keys: [[hash(id)]], streams: [{ name: 'members' }], places },
    { action: 'erased', erasure, run_id: 'run', streams: [{ name: 'members', rows: 1, history: 0 }] },
  ]);
}

/** Whether the log says that the receiver has carried out every erasure. */
async function isProven(): Promise<boolean> {
  await dropCarriedOut(stream.layout, Date.now(), [{ name: 'crm', streams: ['members'] }]);
  return (await erasureLog(stream.layout)).status === 'ok';
}

it('an erasure that was cut short before its commit is said to be done nowhere', async () => {
  await deliver();
  await delivering.forget('a');
  const erasure = (await readErasures(stream.layout, 'members')).at(-1)?.number ?? 0;
  const places = [{ destination: 'crm', stream: 'members', configured: true }];
  await recordDecisions(stream.layout, Date.now(), (hash) => [
    { action: 'forget', erasure, keys: [[hash('a')]], streams: [{ name: 'members' }], places },
  ]);
  await deliver();
  expect(await isProven()).toBe(false);
  expect((await erasureLog(stream.layout)).erasures).toMatchObject([{ destinations: [{ done_at: null }] }]);
});

describe('the delete of an erased person arrives before the log says so', () => {
  it.each<[string, () => Promise<unknown>]>([
    ['the state was reset while the erasure waited', () => forget('a').then(reset)],
    ['the state was reset before the person was erased', () => reset().then(() => forget('a'))],
    ['the state was reset twice', () => reset().then(() => forget('a').then(reset))],
    [
      'the folder of the position was removed by hand',
      () => forget('a').then(() => rm(stream.layout.deliveredStream('crm', 'members'), { recursive: true })),
    ],
  ])('if %s', async (_, change) => {
    await deliver();
    await change();
    expect(await isProven()).toBe(false);
    said();
    expect(await deliver()).toMatchObject({ status: 'ok' });
    expect(said().sort()).toEqual(['delete a -', 'insert b 1', 'insert c 1', 'insert d 1']);
    expect([...receiver.rows.keys()].sort()).toEqual(['b', 'c', 'd']);
    expect(await isProven()).toBe(true);
    expect([(await deliver()).action, said()]).toEqual(['nothing', []]);
  });

  it.each([{ full: true }, { adopt: true }])(
    'if a first delivery was cut short, and the next one is %j',
    async (asked) => {
      receiver.takes = 2;
      expect((await deliver()).status).toBe('failed');
      await forget('a');
      receiver.takes = Number.POSITIVE_INFINITY;
      expect((await deliver(asked)).status).toBe('ok');
      expect(receiver.rows.has('a')).toBe(false);
      expect(await isProven()).toBe(true);
    },
  );

  it('if a first delivery was cut short, and its state reset', async () => {
    receiver.takes = 2;
    await deliver();
    await forget('a');
    await reset();
    receiver.takes = Number.POSITIVE_INFINITY;
    await deliver();
    expect([...receiver.rows.keys()].sort()).toEqual(['b', 'c', 'd']);
  });

  it.each<[string, () => unknown]>([
    [
      'the changes no longer lead here',
      () => Object.defineProperty(stream, 'feed', { value: { ...stream.feed, complete_since: stream.feed.sequence } }),
    ],
    ['the changes lead here', () => undefined],
    ['the position was lost', () => rm(stream.layout.deliveredStream('crm', 'members'), { recursive: true })],
  ])('if the present state is adopted, and %s', async (_, change) => {
    await deliver();
    await forget('a');
    await stream.commit([update('b', 2)]);
    await stream.commit([update('c', 2)]);
    await change();
    said();
    expect((await deliver({ adopt: true })).status).toBe('ok');
    expect(said()).toContain('delete a -');
    expect(await isProven()).toBe(true);
  });

  it.each(['adopt', 'full', 'reset', 'damaged and full'])('if the receiver refused it, and then: %s', async (then) => {
    await deliver();
    await forget('a');
    receiver.refused = new Set(['a']);
    expect((await deliver()).refused).toBe(1);
    expect(await isProven()).toBe(false);
    receiver.refused = new Set();
    if (then === 'reset') await reset();
    if (then.startsWith('damaged')) await writeFile(rejectsPath(stream.layout, 'crm', 'members'), '{"half');
    await deliver({ adopt: then === 'adopt', full: then.endsWith('full') });
    expect(receiver.rows.has('a')).toBe(false);
    expect(await isProven()).toBe(true);
  });
});

it('a delete that the receiver refuses is owed in each delivery until it is taken', async () => {
  await deliver();
  await forget('a');
  receiver.refused = new Set(['a']);
  const message = 'the receiver refuses 1 record of stream "members"';
  expect(await deliver()).toMatchObject({ status: 'partial', error: { code: 'values_refused', message } });
  for (let time = 0; time < 2; time += 1)
    expect(await deliver()).toMatchObject({ status: 'partial', refused: 1, error: { code: 'removal_owed' } });
  receiver.refused = new Set();
  expect(await deliver()).toMatchObject({ status: 'ok', refused: 0 });
  expect(await isProven()).toBe(true);
});

it('a receiver that never got a row gets no delete of a person who was erased before', async () => {
  await forget('a');
  expect((await deliver()).status).toBe('ok');
  expect(said()).toEqual(['insert b 1', 'insert c 1', 'insert d 1']);
  expect(await isProven()).toBe(true);
  await forget('b');
  await reset();
  await allowKeys(stream.layout, Date.now(), { keys: ['b'] });
  await stream.commit([insert('b', 2), gone('c', 1)]);
  await deliver();
  expect(receiver.rows.get('b')).toMatchObject({ n: 2 });
  const { streams } = await readDeliveryState(stream.layout, 'crm');
  expect(streams.members?.begins).toBeUndefined();
});
