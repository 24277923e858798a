import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { JobReport } from '../../src/core/run-report.js';
import { streamOf, Workspace } from '../fixtures/workspace.js';

/** Ids that the index lists. */
let listed: string[] = [];
/** Requests for single profiles. */
let asked: string[] = [];
/** Whether the list has a second page, and whether that can be had. */
let secondPage: 'none' | 'fails' | 'works' = 'none';
const hasCollection = true;
let statsStatus = 200;
let space: Workspace;
let server: Server;
beforeAll(async () => {
  space = await Workspace.open({ profiles: 1 });
  server = createServer((request, response) => {
    const { pathname } = new URL(request.url ?? '/', 'http://localhost');
    const send = (status: number, body: unknown) =>
      response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
    const id = decodeURIComponent(pathname.split('/')[5] ?? '');
    const profile = { id, index_id: 'i', attributes: { n: id, email: `${id}@example.com` } };
    if (pathname === '/api/indexes') return send(200, { data: [{ id: 'i', name: 'made' }] });
    if (pathname === '/api/indexes/i/profiles' && (request.url ?? '').includes('next_token='))
      return send(secondPage === 'fails' ? 500 : 200, { data: [] });
    if (pathname === '/api/indexes/i/profiles')
      return send(200, {
        ...(secondPage === 'none' ? {} : { next_token: 'second' }),
        data: listed.map((each) => ({ ...profile, id: each, attributes: { n: each, email: `${each}@example.com` } })),
      });
    if (pathname.startsWith('/api/indexes/i/profiles/')) {
      asked.push(id);
      return listed.includes(id) ? send(200, profile) : send(404, { status: 404, message: 'no such profile' });
    }
    if (pathname.endsWith('/stats')) return send(statsStatus, hasCollection ? { total_profiles: 1 } : {});
    return send(404, { status: 404, message: 'nothing here' });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
});
afterAll(async () => {
  server.closeAllConnections();
  server.close();
  await space.close();
});

async function configure(name: string, streams: Record<string, unknown>[], job: Record<string, unknown> = {}) {
  const { port } = server.address() as AddressInfo;
  await space.configure(name, streams, { service: { base_url: `http://127.0.0.1:${port}` }, job });
}

const people = (more: Record<string, unknown> = {}) => [
  { name: 'made', source: 'index_profiles', index: 'made', ...more },
];

describe('ids that no URL can carry', () => {
  it('in a list of ids are rejects, and the others are read', async () => {
    listed = ['a', 'b'];
    const streams = [{ name: 'some', source: 'profiles', index: 'made', ids: ['a', '.', '..', 'b'] }];
    await configure('listed', streams, { guards: { max_rejected: 2 } });
    expect(streamOf(await space.runWell('listed'), 'some')).toMatchObject({ rows: 2, rejected: 2, missing: 0 });
    expect(await space.query('listed', 'select key, reason from cdsync.rejects order by 1')).toEqual([
      { key: '.', reason: 'id_not_in_url' },
      { key: '..', reason: 'id_not_in_url' },
    ]);
  });

  it.each([{}, { columns: { email: { hash: true, salt: 'salt-of-the-test' } } }])(
    'are not deleted, as no one can ask for them, and counted (%j)',
    async (more) => {
      const name = 'columns' in more ? 'hashed' : 'absent';
      listed = ['a', 'b', 'c', '.', '..'];
      asked = [];
      await configure(name, people(more));
      await space.runWell(name);
      const rows = () =>
        space.query(name, "select * exclude (_run_id, _synced_at) from made where id like '.%' order by id");
      const before = await rows();
      listed = ['a', 'b', '.'];
      const after = streamOf(await space.runWell(name), 'made');
      expect(after).toMatchObject({ rows: 4, deleted: 1, unchanged: 4 });
      expect(after.warnings).toMatchObject([{ code: 'delete_unconfirmed', message: expect.stringContaining('1 row') }]);
      expect(asked).toEqual(['c']);
      expect(await rows()).toEqual(before);
      // The next run meets the same, and its own files are whole.
      expect(streamOf(await space.runWell(name), 'made')).toMatchObject({ rows: 4, deleted: 0, unchanged: 4 });
      expect((await space.cdsync(['verify', `${name}.json`])).code).toBe(0);
    },
  );
});

describe('a collection that does not exist', () => {
  const stream = { name: 'some', source: 'realtime_profiles', collection: 'col-x', ids: ['a', 'b'] };
  const streams = [stream, { ...stream, name: 'memberships', source: 'profile_segments' }];

  it.each([404, 403])('is no empty stream, and `check` says so (its statistics: %i)', async (status) => {
    statsStatus = status;
    await configure('unknown', streams);
    const { code, report } = await space.run('unknown');
    const errors = report.jobs[0]?.streams.map(({ error }) => error?.code);
    expect([code, errors]).toEqual([1, ['collection_unknown', 'collection_unknown']]);
    const check = await space.cdsync(['check', 'unknown.json', '--json']);
    expect([check.code, JSON.parse(check.stdout).streams[0].error.code]).toEqual([1, 'collection_unknown']);
  });

  it('is distinguished from one that has none of the profiles', async () => {
    statsStatus = 200;
    await configure('empty', streams);
    expect(streamOf(await space.runWell('empty'), 'some')).toMatchObject({ rows: 0, missing: 2 });
  });
});

it('a filter that the service ignores, on an attribute that no record has, fails the stream', async () => {
  listed = ['a', 'b', 'c'];
  await configure('ignored', people({ filter: { tier: 'gold' } }));
  const { code, report } = await space.run('ignored');
  const { status, rows, error } = streamOf(report.jobs[0] as JobReport, 'made');
  expect([code, status, rows, error?.code]).toEqual([1, 'failed', 0, 'filter_ignored']);
  expect(error?.message).toContain('"tier"');
});

it('the same is found by a run that resumes the reading of another one', async () => {
  listed = ['a', 'b', 'c'];
  secondPage = 'fails';
  const { port } = server.address() as AddressInfo;
  const service = { base_url: `http://127.0.0.1:${port}`, retry: { patience: '1s', max_delay_ms: 100 } };
  await space.configure('again', people({ filter: { tier: 'gold' }, columns: { email: { drop: true } } }), { service });
  const codes: unknown[] = [];
  for (const page of ['fails', 'works'] as const) {
    secondPage = page;
    const { code, report } = await space.run('again');
    codes.push([code, report.jobs[0]?.resumed, streamOf(report.jobs[0] as JobReport, 'made').error?.code]);
  }
  expect(codes).toEqual([
    [1, false, 'service_unavailable'],
    [1, true, 'filter_ignored'],
  ]);
  // A column that a rule leaves out is none that no record has.
  await space.configure('dropped', people({ filter: { n: 'a' }, columns: { n: { drop: true } } }), { service });
  listed = ['a'];
  secondPage = 'fails';
  await space.run('dropped');
  secondPage = 'works';
  expect(streamOf(await space.runWell('dropped'), 'made')).toMatchObject({ rows: 1 });
});
