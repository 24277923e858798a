import { createHash } from 'node:crypto';
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Workspace } from '../fixtures/workspace.js';

/** Ids of the records that the API was sent. */
const sent: string[] = [];
let isAway = true;
const receiver = createServer((request, response) => {
  sent.push(...(isAway ? [] : [request.url ?? '']));
  request.resume().on('end', () => response.writeHead(isAway ? 401 : 204).end());
});

let space: Workspace;
beforeAll(async () => {
  space = await Workspace.open({ profiles: 10 });
  await new Promise<void>((resolve) => receiver.listen(0, '127.0.0.1', resolve));
});
afterAll(async () => {
  receiver.close();
  await space.close();
});

const stream = { name: 'made', source: 'index_profiles', index: 'made' };

async function serve(records: Record<string, object>): Promise<void> {
  const texts = Object.entries(records).map(([id, attributes]) => JSON.stringify({ id, index_id: 'made', attributes }));
  await space.control('profiles', { index: 'made', records: texts });
}

interface State {
  checksum?: string;
  snapshot: { sha256?: string }[];
  files: (string | { name: string })[];
}

/** Writes a state file as an earlier build would have, which knew nothing of checksums. */
async function asBefore(path: string, change: (state: State) => void): Promise<void> {
  const { crc: _, ...state } = JSON.parse(await readFile(path, 'utf8'));
  change(state);
  await writeFile(path, JSON.stringify(state));
}

describe('a storage folder of an earlier build', () => {
  const warehouse = { name: 'warehouse', connector: 'duckdb', path: './warehouse.duckdb' };
  const api = () => ({
    ...{ name: 'api', connector: 'http', method: 'put', body: { n: '{{ n }}' } },
    url: `http://127.0.0.1:${(receiver.address() as AddressInfo).port}/{{ id }}`,
  });
  const kept = () => join(space.folder, 'data', 'nightly', '.cdsync');

  beforeAll(async () => {
    await serve({ a: { n: 1 }, b: { n: 2 } });
    const job = { destinations: [warehouse, api()] } as never;
    await space.configure('nightly', [stream] as never, { job });
    await space.cdsync(['run', 'nightly.json']);
    await serve({ a: { n: 1 }, b: { n: 3 }, c: { n: 4 } });
    expect((await space.cdsync(['run', 'nightly.json', '--no-push'])).code).toBe(0);
    await asBefore(join(kept(), 'feeds', 'made.json'), (feed) => {
      for (const file of feed.snapshot) delete file.sha256;
      // Feeds had a checksum of their own.
      delete feed.checksum;
      feed.checksum = createHash('sha256').update(JSON.stringify(feed)).digest('hex');
    });
  });

  it('is read by status, and its changes are delivered as changes', async () => {
    const status = await space.cdsync(['status', 'nightly.json', '--json']);
    expect(status.stderr).toBe('');
    expect([status.code, JSON.parse(status.stdout).destinations[0]]).toMatchObject([
      0,
      { name: 'warehouse', behind: 1 },
    ]);
    const { stdout } = await space.cdsync(['push', 'nightly.json', '--destination', 'warehouse', '--json']);
    expect(JSON.parse(stdout).jobs[0].destinations[0]).toMatchObject({ status: 'ok', action: 'increment', rows: 2 });
  });

  it('has records that were not sent, and they are sent once', async () => {
    const places = await readdir(kept(), { recursive: true });
    const marks = places.filter((path) => path.endsWith('outbox.json'));
    expect(marks).toHaveLength(1);
    await asBefore(join(kept(), marks[0] as string), (mark) => {
      mark.files = mark.files.map((file) => (typeof file === 'string' ? file : file.name));
    });
    isAway = false;
    const pushed = await space.cdsync(['push', 'nightly.json', '--destination', 'api']);
    expect(pushed).toMatchObject({ code: 0, stderr: '' });
    expect(sent.sort()).toEqual(['/a', '/b', '/b', '/c']);
  });
});
