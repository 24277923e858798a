import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { readDeliveryState, rememberDelivery, rememberOwed } from '../../../src/delivery/delivery-state.js';
import { erasureDestinations } from '../../../src/engine/admin/erasure-destinations.js';
import { forgetStarted, rememberStarted } from '../../../src/engine/workflow/started-workflows.js';
import { approvedFor, notePending, settlePending } from '../../../src/storage/approvals.js';
import { JobLayout } from '../../../src/storage/layout.js';
import { oweRemoval, removalDone, removalOwedSince } from '../../../src/storage/removal-owed.js';

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'cdsync-unreadable-'));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

async function layoutOf(job: string): Promise<JobLayout> {
  const layout = new JobLayout(folder, job);
  await mkdir(layout.private, { recursive: true });
  return layout;
}

const unreadable = { code: 'state_unreadable', hint: expect.stringContaining('remove') };

it('damaged approvals are an error: taken for none, they would hold approved changes again', async () => {
  const layout = await layoutOf('approvals');
  await notePending(layout, { runId: 'run-1', approved: { list: [] }, following: ['members'] });
  // The approval counts once its run has committed it, also if that is seen by a later process.
  expect(await approvedFor(layout, 'members')).toMatchObject({ follows: false });
  await settlePending(layout, (run, stream) => run === 'run-1' && stream === 'list');
  expect(await approvedFor(layout, 'members')).toMatchObject({ follows: true });
  await notePending(layout, { runId: 'run-2', approved: { list: [] }, following: ['others'] });
  await settlePending(layout, () => false);
  expect(await approvedFor(layout, 'others')).toMatchObject({ follows: false });
  await writeFile(join(layout.private, 'approved.json'), '{"version":1,"streams":[');
  await expect(approvedFor(layout, 'members')).rejects.toMatchObject(unreadable);
  const approval = { runId: 'run-3', approved: { list: [] }, following: ['others'] };
  await expect(notePending(layout, approval)).rejects.toMatchObject(unreadable);
});

it.each(['a text', 'a folder'])('a note that erased values must leave the files counts also as %s', async (what) => {
  const layout = await layoutOf(what.replace(' ', '_'));
  expect(await removalOwedSince(layout)).toBeUndefined();
  if (what === 'a text') await oweRemoval(layout, 0);
  if (what === 'a text') await writeFile(layout.removal, 'damaged');
  else await mkdir(layout.removal);
  expect(await removalOwedSince(layout)).toMatch(/^20\d\d-/);
  await removalDone(layout);
  expect(await removalOwedSince(layout)).toBeUndefined();
});

it('a damaged list of started workflows is an error: taken for an empty one, it would start one a second time', async () => {
  const layout = await layoutOf('workflows');
  const remember = () =>
    rememberStarted({ layout, clock: { now: () => 0 } as never }, 0, { configId: 'c' } as never, { id: 'r' } as never);
  await remember();
  await writeFile(layout.startedWorkflows, '{}');
  await expect(remember()).rejects.toMatchObject(unreadable);
  await forgetStarted(layout);
});

it('a damaged state of deliveries is an error: taken for none, an erasure would pass over a destination that left the configuration', async () => {
  const layout = await layoutOf('deliveries');
  const delivered = { table: null, store_id: 's', sequence: 1, delivered_at: '2026-01-01T00:00:00Z' };
  await rememberDelivery(layout, 'crm', 'members', delivered);
  const receivers = () => erasureDestinations(layout, [], ['members']);
  expect(await receivers()).toMatchObject([{ name: 'crm', stream: 'members', status: 'not_configured' }]);
  await writeFile(join(layout.delivery('crm'), 'state.json'), '{"version":1,"destination":"crm","streams":{}');
  await expect(receivers()).rejects.toMatchObject(unreadable);
  await expect(readDeliveryState(layout, 'crm')).rejects.toMatchObject(unreadable);
  // It would write a whole state without the other streams.
  await expect(rememberOwed(layout, 'crm', 'members')).rejects.toMatchObject(unreadable);
});
