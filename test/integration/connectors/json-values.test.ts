import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { Receiver } from '../../fixtures/webhook-server.js';
import { Workspace } from '../../fixtures/workspace.js';

let space: Workspace;
let receiver: Receiver;
beforeAll(async () => {
  [space, receiver] = await Promise.all([Workspace.open({ profiles: 20 }), Receiver.open()]);
});
afterAll(() => Promise.all([space.close(), receiver.close()]));

const query = `select 'a' as id, [0.5::decimal(18,18), null, -0.25] as shares, {x: 0.5::decimal(20,20)} as part,
  ['nan'::double, 2] as odd, 'inf'::double as far from members limit 1`;
const wanted = { shares: [0.5, null, -0.25], part: { x: 0.5 }, odd: [null, 2], far: null };

it('decimals without a digit before the point and values beyond JSON are JSON in files and in webhooks, also in lists', async () => {
  await space.configure(
    'values',
    [
      { name: 'members', source: 'index_profiles', index: 'loyalty_members' },
      { name: 'made', source: 'sql', key: ['id'], query },
    ],
    {
      job: {
        destinations: [
          { name: 'lines', connector: 'files', path: './lines', format: 'jsonl', streams: ['made'] },
          { name: 'hook', connector: 'http', url: `http://127.0.0.1:${receiver.port}/hook`, streams: ['made'] },
        ],
      },
    },
  );
  const { code, stderr } = await space.cdsync(['run', 'values.json']);
  expect([code, stderr]).toEqual([0, expect.any(String)]);
  const folder = join(space.folder, 'lines');
  const files = (await readdir(folder, { recursive: true })).filter(
    (name) => name.includes('data') && name.endsWith('.jsonl'),
  );
  expect(files).toHaveLength(1);
  const [line = ''] = (await readFile(join(folder, files[0] as string), 'utf8')).split('\n');
  expect(JSON.parse(line)).toMatchObject(wanted);
  const sent = receiver.received.flatMap(({ body }) => JSON.parse(body).records);
  expect(sent).toEqual([expect.objectContaining({ data: expect.objectContaining(wanted) })]);
});
