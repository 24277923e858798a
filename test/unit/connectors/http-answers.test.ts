import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { brotliCompressSync, gzipSync } from 'node:zlib';
import { expect, it } from 'vitest';
import { z } from 'zod';
import http from '../../../connectors/http/index.js';
import { type HttpShape, httpOptions, httpRules } from '../../../connectors/http/options.js';
import type { DestinationContext } from '../../../src/sdk/index.js';
import { map } from '../../../src/sdk/option.js';
import { httpDestinations, json, types } from '../../fixtures/http-destinations.js';
import { someRecords } from '../../fixtures/record-driver.js';

const { receiver, base, once } = httpDestinations();
const batch = {};
const [taken, refused] = ['acknowledged', 'refused'];

it('a DELETE sends no body of upserts, so that the key alone of a forgotten person is enough', async () => {
  const options = { body: { points: '{{ points }}' }, required: ['points'], delete: { method: 'delete' } };
  const erased = someRecords(1).map((record) => ({
    ...{ ...record, op: 'delete' as const, isErasure: true },
    json: JSON.stringify({ id: record.key }),
  }));
  expect(types(await once(options, erased))).toEqual(['acknowledged']);
  expect(receiver().received.map(({ method, body }) => [method, body])).toEqual([['DELETE', '']]);
});

it('a delete that finds nothing is done, also if `accepted` of the destination names other statuses', async () => {
  receiver().reset((_, response) => response.writeHead(404).end());
  const gone = someRecords(1).map((record) => ({ ...record, op: 'delete' as const }));
  const accepted = ['2xx'];
  expect(types(await once({ response: { accepted } }, gone))).toEqual([taken]);
  expect(types(await once({ delete: { response: { accepted } } }, gone))).toEqual([refused]);
});

it('results of a 2xx that `success` refuses acknowledge no record that they leave out', async () => {
  const sent: number[] = [];
  receiver().reset(({ body }, response) => {
    const ids = (JSON.parse(body) as { id: string }[]).map(({ id }) => id);
    sent.push(ids.length);
    const index = ids.indexOf('k-1');
    return json(response, 200, index < 0 ? { ok: true } : { ok: false, errors: [{ index }] });
  });
  const response = { success: { path: 'ok', equals: 'true' }, results: { path: 'errors', index: 'index' } };
  expect(types(await once({ batch, response }, someRecords(3)))).toEqual([taken, refused, taken]);
  expect(sent).toEqual([3, 2]);
});

it.each([
  ['a mark of its encoding', () => Buffer.from('\ufeff{"errors":[{"index":1}]}'), ''],
  ['two encodings', () => brotliCompressSync(gzipSync('{"errors":[{"index":1}]}')), 'gzip, br'],
])('a response with %s is read', async (_, body, encoding) => {
  receiver().reset((__, response) =>
    response.writeHead(200, encoding === '' ? {} : { 'content-encoding': encoding }).end(body()),
  );
  const response = { results: { path: 'errors', index: 'index' } };
  expect(types(await once({ batch, response }, someRecords(2)))).toEqual([taken, refused]);
});

it.each([
  ['ratelimit', 'limit=10, remaining=0, reset=7', 7],
  ['ratelimit', '"second";r=5;t=3, "day";r=0;t=60', 60],
  ['retry-after', ['3', '3'], 3],
] as const)('429 with %s: %s asks to wait %d seconds', async (name, value, seconds) => {
  receiver().reset((_, response) => {
    response.setHeader(name, value);
    return response.writeHead(429).end();
  });
  expect(await once({}, someRecords(1))).toMatchObject([{ type: 'again', afterMs: seconds * 1000 }]);
});

it.each([[[]], ['']])('an entry whose errors are %j is not refused', async (errors) => {
  receiver().reset((_, response) => json(response, 200, [{ errors }, { errors: ['bad'] }]));
  const response = { results: { path: '', refused: 'errors' } };
  expect(types(await once({ batch, response }, someRecords(2)))).toEqual([taken, refused]);
});

it('results in the format of cdsync that name a stranger acknowledge nothing', async () => {
  receiver().reset((_, response) => json(response, 200, { results: [{ id: 'another', status: 'refused' }] }));
  expect(types(await once({ body: undefined }, someRecords(2)))).toEqual([refused, refused]);
});

it.each([
  ['error.code', { error: { code: 1017 } }, '1017'],
  ['errors', { errors: ['too old'] }, 'too old'],
])('the reason at %s is read', async (reason, body, words) => {
  receiver().reset((_, response) => json(response, 400, body));
  expect(await once({ response: { reason } }, someRecords(1))).toMatchObject([
    { reason: expect.stringMatching(new RegExp(`: ${words}$`)) },
  ]);
});

it.each([
  ['as JSON', (value: string) => JSON.stringify(value)],
  [
    'as JSON of ASCII alone',
    (value: string) =>
      JSON.stringify(value).replace(/[^ -~]/g, (letter) => `\\u${letter.charCodeAt(0).toString(16).padStart(4, '0')}`),
  ],
  [
    'in HTML',
    (value: string) => value.replace(/["'é]/g, (letter) => `&#${letter.charCodeAt(0)};`).replaceAll('&#34;', '&quot;'),
  ],
])('a value that a reason has %s is hidden', async (_, write) => {
  const name = 'José "Pepe" O\'Brien\\Sánchez';
  receiver().reset((__, response) => json(response, 422, { message: `bad name ${write(name)} given` }));
  const [result] = await once(
    { body: { name: '{{ name }}' } },
    someRecords(1, () => ({ name })),
  );
  const { reason = '' } = result as { reason?: string };
  expect(reason).toContain('bad name');
  expect(reason.replaceAll('[value]', '')).not.toMatch(/Jos|Pepe|Brien|nchez/i);
});

it.each([
  [{ who: { mail: '{{ mail }}' } }, 'who.mail', 'json'],
  [[{ index: {} }, { mail: '{{ mail }}' }], 'mail', 'ndjson'],
])('a member of %j is required by its path', async (body, name, format) => {
  const rows = someRecords(2, (index) => ({ mail: index === 0 ? null : 'x' }));
  expect(types(await once({ body, required: [name], format }, rows))).toEqual([refused, taken]);
});

it('a row without a value for a part of a segment is set aside: users/.json may be the whole list', async () => {
  const rows = someRecords(3, (index) => ({ id: [null, '', 'a'][index] }));
  const url = `${base()}/users/{{ id }}.json`;
  expect(types(await once({ url, method: 'delete', body: 'none' }, rows))).toEqual([refused, refused, taken]);
  expect(receiver().received.map(({ path }) => path)).toEqual(['/users/a.json']);
});

it('headers of one kind of change do not go to another machine without encryption', async () => {
  const url = 'http://10.255.255.1/x';
  await expect(once({ url, delete: { headers: { 'x-key': 'secret' } } }, [])).rejects.toMatchObject({
    code: 'destination_plaintext',
  });
});

it('a check is not passed by the page of a login', async () => {
  receiver().reset((_, response) => response.writeHead(200, { 'content-type': 'text/html' }).end('<html>log in'));
  const folder = await mkdtemp(join(tmpdir(), 'cdsync-http-check-'));
  const options = z.parse(map(httpOptions), { url: `${base()}/x`, test: { url: `${base()}/me` } });
  const context = { options, folder, signal: new AbortController().signal, notice: () => undefined };
  const { lacks } = (await http.check?.(context as unknown as DestinationContext<HttpShape>, [])) ?? {};
  await rm(folder, { recursive: true });
  expect(lacks).toMatchObject([{ message: expect.stringContaining('page for people') }]);
});

it.each([
  [{ headers: { 'Idempotency-Key': 'x' } }, 'would be the same'],
  [{ body: 1, headers: { K: 'x' }, idempotency: { header: 'k' } }, 'would be the same'],
  [{ body: 1, delete: { headers: { Expect: 'x' } } }, 'take it out'],
  [{ body: 1, headers: { 'content-length': '3' } }, 'take it out'],
  [{ body: 1, format: 'ndjson', batch: { body: { all: '{{ records }}' } } }, 'takes no `body`'],
  [{ body: 1, headers: { 'Idempotency-Key': '{{ _id }}' } }, undefined],
  [{ body: 1, batch: { body: { all: '{{ records }}' } } }, undefined],
])('%j when it is read: %s', (written, message) => {
  expect(httpRules.check?.(written)).toEqual(
    message === undefined ? [] : [expect.objectContaining({ message: expect.stringContaining(message) })],
  );
});

it('a response with numbers that JSON lacks is whole', async () => {
  const text = '{"count": -Infinity, "seconds": NaN, "errors": [{"id": "NaN", "why": "\\"NaN\\\\"}]}';
  receiver().reset((_, response) => response.writeHead(200, { 'content-type': 'application/json' }).end(text));
  const [record, other] = someRecords(2);
  const response = { count: 'count', results: { path: 'errors', key: 'id', reason: 'seconds' } };
  const results = await once({ batch: { records: 2 }, response }, [{ ...record, key: 'NaN' }, other] as never);
  expect(types(results)).toEqual(['refused', 'acknowledged']);
});
