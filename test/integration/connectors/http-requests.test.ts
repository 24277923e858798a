import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from 'vitest';
import http from '../../../connectors/http/index.js';
import { type Driven, deliver, openRecords, someRecords } from '../../fixtures/record-driver.js';
import { Receiver } from '../../fixtures/webhook-server.js';

let receiver: Receiver;
let driven: Driven | undefined;
beforeAll(async () => {
  receiver = await Receiver.open();
});
afterAll(() => receiver.close());
beforeEach(() => receiver.reset());
afterEach(() => driven?.close());

async function open(options: Record<string, unknown>): Promise<Driven> {
  driven = await openRecords(http, { url: `http://127.0.0.1:${receiver.port}/x`, ...options });
  return driven;
}

it.each(['a b', 'a/b', 'a?b#c', 'a%2Fb', 'a+b', 'é', '😀'])('an id %s stays in its segment', async (id) => {
  const url = `http://127.0.0.1:${receiver.port}/contacts/{{ id }}/tags`;
  const { destination } = await open({ url, method: 'put', body: { n: '{{ n }}' } });
  await deliver(destination, [{ ...someRecords(1)[0], json: JSON.stringify({ id, n: 1 }) } as never], 1);
  const { method, path, body } = receiver.received[0] ?? {};
  expect([method, path?.split('/').map(decodeURIComponent), body]).toEqual([
    'PUT',
    ['', 'contacts', id, 'tags'],
    '{"n":1}',
  ]);
});

it.each([null, '', '.', '..'])('a row whose id is %j is set aside, and nothing is sent', async (id) => {
  const url = `http://127.0.0.1:${receiver.port}/idx/{{ id }}`;
  const { destination } = await open({ url, method: 'delete', body: 'none' });
  const [result] = await destination.send(
    [{ ...someRecords(1)[0], json: JSON.stringify({ id }) } as never],
    new AbortController().signal,
  );
  expect(result?.type).toBe('refused');
  expect(receiver.received).toEqual([]);
});

it('items of a 200 are evaluated one by one by their statuses', async () => {
  const statuses = [201, 429, 400, 503];
  receiver.reset((_, response, count) =>
    response.end(
      JSON.stringify({ items: (count === 1 ? statuses : [201, 201]).map((status) => ({ index: { status } })) }),
    ),
  );
  const { destination } = await open({
    ...{ format: 'ndjson', batch: { records: 4 }, body: [{ index: { _id: '{{ id }}' } }, { n: '{{ n }}' }] },
    response: { results: { path: 'items', entry: '*', status: 'status' } },
  });
  const results = [...(await deliver(destination, someRecords(4), 4)).values()].map(({ type }) => type).sort();
  expect(results).toEqual(['acknowledged', 'acknowledged', 'acknowledged', 'refused']);
  expect(receiver.received.map(({ body }) => body.split('\n').length)).toEqual([9, 5]);
});

it('one bad row of a hundred is found in at most 15 requests', async () => {
  const taken: string[] = [];
  receiver.reset(({ body }, response) => {
    const rows = JSON.parse(body) as { id: string }[];
    if (rows.some(({ id }) => id === 'k-36')) return response.writeHead(400).end();
    taken.push(...rows.map(({ id }) => id));
    return response.end();
  });
  const { destination } = await open({ batch: { records: 100 }, body: { id: '{{ id }}' } });
  const results = await deliver(destination, someRecords(100), 100);
  expect([...results.values()].filter(({ type }) => type === 'refused')).toHaveLength(1);
  expect(new Set(taken).size).toBe(99);
  expect(receiver.received.length).toBeLessThanOrEqual(15);
});
