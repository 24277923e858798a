import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { streamOf, Workspace } from '../fixtures/workspace.js';

interface Profile {
  id: string;
  index_id: string;
  attributes: Record<string, unknown>;
}

/** Profiles of the service, and those that its list leaves out, like a list that changes while it is read. */
const present = new Map<string, Profile>();
const unlisted = new Set<string>();
let listings = 0;
let listedLater = false;

let space: Workspace;
let server: Server;
beforeAll(async () => {
  space = await Workspace.open({ profiles: 1 });
  server = createServer((request, response) => {
    const url = new URL(request.url ?? '/', 'http://localhost');
    const [, , , , , id] = url.pathname.split('/');
    const send = (status: number, body: unknown) => {
      response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
    };
    if (url.pathname === '/api/indexes') return send(200, { data: [{ id: 'i', name: 'made' }] });
    if (id !== undefined)
      return present.has(id) ? send(200, present.get(id)) : send(404, { status: 404, message: 'no such entity' });
    listings += 1;
    const hidden = listedLater && listings > 1 ? new Set<string>() : unlisted;
    const tier = url.searchParams.get('filter[tier]');
    const listed = [...present.values()].filter(
      ({ id: each, attributes }) => !hidden.has(each) && (tier === null || attributes.tier === tier),
    );
    return send(200, { data: listed });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
});
afterAll(async () => {
  server.closeAllConnections();
  server.close();
  await space.close();
});
beforeEach(() => {
  present.clear();
  unlisted.clear();
  listedLater = false;
  for (let n = 0; n < 20; n += 1) present.set(`p${n}`, { id: `p${n}`, index_id: 'i', attributes: { n, tier: 'gold' } });
});

async function job(
  name: string,
  stream: Record<string, unknown> = {},
  guards: Record<string, unknown> = {},
): Promise<() => Promise<Record<string, number>>> {
  const { port } = server.address() as AddressInfo;
  const service = { base_url: `http://127.0.0.1:${port}` };
  await space.configure(name, [{ name: 'made', source: 'index_profiles', index: 'made', ...stream }], {
    service,
    job: { guards },
  });
  return async () => {
    listings = 0;
    const { rows, updated, deleted, unchanged, inserted } = streamOf(await space.runWell(name), 'made');
    return { rows, inserted, updated, deleted, unchanged, listings };
  };
}

describe('an absent key', () => {
  it('is a delete only if the service no longer knows it', async () => {
    const run = await job('asked');
    await run();
    unlisted.add('p1').add('p2');
    present.delete('p3');
    present.set('p2', { id: 'p2', index_id: 'i', attributes: { n: 200, tier: 'gold' } });
    expect(await run()).toEqual({ rows: 19, inserted: 0, updated: 1, deleted: 1, unchanged: 18, listings: 1 });
    expect(await space.query('asked', "select n from made where id = 'p2'")).toEqual([{ n: '200' }]);
  });

  it('is a delete of a filtered stream if the record no longer matches, or lost the attribute', async () => {
    const run = await job('filtered', { filter: { tier: 'gold' } });
    await run();
    present.set('p1', { id: 'p1', index_id: 'i', attributes: { n: 1, tier: 'silver' } });
    present.set('p2', { id: 'p2', index_id: 'i', attributes: { n: 2 } });
    unlisted.add('p3');
    expect(await run()).toEqual({ rows: 18, inserted: 0, updated: 0, deleted: 2, unchanged: 18, listings: 1 });
  });

  it('is not a delete if the service returns the record, but it cannot be read', async () => {
    const run = await job('unreadable');
    await run();
    unlisted.add('p4');
    present.set('p4', { id: 'p4', index_id: 'i', attributes: 'none' as never });
    const { code, report } = await space.run('unreadable');
    const [stream] = report.jobs[0]?.streams ?? [];
    expect({ code, status: stream?.status, rejected: stream?.rejected }).toEqual({
      code: 3,
      status: 'held',
      rejected: 1,
    });
    expect(await space.query('unreadable', "select n from made where id = 'p4'")).toEqual([{ n: '4' }]);
  });

  it('is not asked for if the list has its record, which cannot be read', async () => {
    const run = await job('listed', {}, { max_rejected: 5 });
    await run();
    present.set('p4', { id: 'p4', index_id: 'i', attributes: 'none' as never });
    expect(streamOf(await space.runWell('listed'), 'made')).toMatchObject({ rows: 19, rejected: 1, requests: 2 });
  });

  it('makes the run read the list again if there are too many to ask for', async () => {
    const run = await job('again', { confirm_deletes: 2 });
    await run();
    for (const id of ['p1', 'p2', 'p3', 'p4']) unlisted.add(id);
    present.delete('p5');
    listedLater = true;
    expect(await run()).toEqual({ rows: 19, inserted: 0, updated: 0, deleted: 1, unchanged: 19, listings: 2 });
  });
});
