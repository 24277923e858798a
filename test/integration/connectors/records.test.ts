import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { RunReport } from '../../../src/core/run-report.js';
import { Workspace } from '../../fixtures/workspace.js';

interface Posted {
  readonly id: string;
  readonly op: string;
  readonly key: string;
  readonly data: Record<string, unknown>;
}

let space: Workspace;
let server: Server;
let posted: Posted[];
/** How many requests are answered before the receiver refuses all. */
let remaining: number;

beforeAll(async () => {
  space = await Workspace.open({ profiles: 400 });
  server = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    remaining -= 1;
    if (remaining < 0) return void response.writeHead(401).end();
    posted.push(...(JSON.parse(Buffer.concat(chunks).toString()) as { records: Posted[] }).records);
    response.writeHead(204).end();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
});
beforeEach(() => {
  [posted, remaining] = [[], Number.POSITIVE_INFINITY];
});
afterAll(async () => {
  server.close();
  await space.close();
});

/** A job whose members go to the receiver. */
async function configure(job: string, rules: Record<string, object> = {}): Promise<void> {
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook`;
  const hook = { name: 'crm', connector: 'http', url, batch: { records: 10 } };
  const members = { name: 'members', source: 'index_profiles', index: 'loyalty_members', columns: rules };
  await space.configure(job, [members], { job: { destinations: [hook], keep: { snapshots: 3 } } });
}

async function cdsync(...words: string[]) {
  const { code, stdout } = await space.cdsync([...words, '--json', '--quiet']);
  const report = JSON.parse(stdout) as RunReport;
  return { code, delivery: report.jobs?.[0]?.destinations[0] };
}

const emails = () => posted.map(({ data }) => data.email).filter((email) => email !== null && email !== undefined);

describe('records that wait', () => {
  it('follow the current rule: a value that it hides is not sent, and a sent record is not sent again', async () => {
    await configure('waiting');
    await cdsync('run', 'waiting.json', '--no-push');
    remaining = 5;
    expect((await cdsync('push', 'waiting.json')).delivery?.status).toBe('failed');
    const sent = new Set(posted.map(({ key }) => key));
    posted.length = 0;
    remaining = Number.POSITIVE_INFINITY;
    await configure('waiting', { email: { hash: true, salt: 'a-salt-of-some-length-for-tests' } });
    const { code, delivery } = await cdsync('run', 'waiting.json');
    expect([code, delivery?.status, delivery?.why]).toEqual([0, 'ok', expect.stringContaining('rules have changed')]);
    expect(emails().filter((email) => String(email).includes('@'))).toEqual([]);
    const again = posted.filter(({ key, op }) => sent.has(key) && op === 'insert');
    expect(again).toEqual([]);
    expect(new Set([...sent, ...posted.map(({ key }) => key)])).toEqual(
      new Set((await space.query('waiting', 'select id from members')).map(({ id }) => String(id))),
    );
  });

  it('have nothing of a person who was erased, and the receiver is notified', async () => {
    await configure('erased');
    await cdsync('run', 'erased.json');
    await space.control('change', { days: 1, updated: 0.2 });
    remaining = 0;
    await cdsync('run', 'erased.json');
    const [row] = await space.query(
      'erased',
      "select id, email from members__changes where _op = 'update' and email is not null limit 1",
    );
    expect((await space.cdsync(['forget', 'erased.json', 'members', String(row?.id), '--yes'])).code).toBe(0);
    remaining = Number.POSITIVE_INFINITY;
    posted.length = 0;
    expect((await cdsync('push', 'erased.json')).delivery?.status).toBe('ok');
    expect(JSON.stringify(posted)).not.toContain(JSON.stringify(row?.email));
    expect(posted.filter(({ key }) => key === row?.id).map(({ op }) => op)).toEqual(['delete']);
    expect((await cdsync('push', 'erased.json')).delivery).toMatchObject({ status: 'ok', action: 'nothing', rows: 0 });
  });

  it('continue where runs were not pushed before a person was erased, and before a rule', async () => {
    await configure('behind');
    await cdsync('run', 'behind.json');
    for (let day = 0; day < 2; day += 1) {
      await space.control('change', { days: 1, updated: 0.1 });
      await cdsync('run', 'behind.json', '--no-push');
    }
    const changed = "select id, email from members__changes where _op = 'update' order by _synced_at limit 1";
    const [row] = await space.query('behind', changed);
    expect((await space.cdsync(['forget', 'behind.json', 'members', String(row?.id), '--yes'])).code).toBe(0);
    expect((await space.cdsync(['verify', 'behind.json'])).code).toBe(0);
    expect((await space.cdsync(['verify', 'behind.json'])).code).toBe(0);
    await configure('behind', { email: { hash: true, salt: 'a-salt-of-some-length-for-tests' } });
    await space.control('change', { days: 1, updated: 0.1 });
    await cdsync('run', 'behind.json', '--no-push');
    const sent = new Set(posted.map(({ key }) => key));
    posted.length = 0;
    expect((await cdsync('push', 'behind.json')).delivery).toMatchObject({ status: 'ok', error: null });
    expect(emails().filter((email) => String(email).includes('@'))).toEqual([]);
    for (const { op, key } of posted) {
      if (op === 'delete') sent.delete(key);
      else sent.add(key);
    }
    const present = await space.query('behind', 'select id from members');
    expect([...sent].sort()).toEqual(present.map(({ id }) => String(id)).sort());
    expect((await space.cdsync(['verify', 'behind.json'])).code).toBe(0);
  });
});
