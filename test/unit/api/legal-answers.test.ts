import { gzipSync } from 'node:zlib';
import { expect, it } from 'vitest';
import { indexesPageOperation, readIndexes } from '../../../src/api/profile-api.js';
import { sendEventOperation } from '../../../src/api/realtime-api.js';
import { rawService, scriptedService, serviceOptions, testClient } from './scripted-service.js';

const list = indexesPageOperation({});
const page = { data: [{ id: 'i' }], next_token: '' };
const text = JSON.stringify(page);

it.each([
  ['GZIP', gzipSync(text)],
  ['x-gzip', gzipSync(text)],
  ['X-GZip', gzipSync(text)],
  ['Identity', Buffer.from(text)],
  ['identity, gzip', gzipSync(text)],
  ['gzip , GZIP', gzipSync(gzipSync(text))],
  ['', Buffer.from(text)],
])('a response with Content-Encoding "%s" is read', async (coding, body) => {
  const { baseUrl } = await scriptedService((response) => {
    response.writeHead(200, { 'content-type': 'application/json', 'content-encoding': coding });
    response.end(body);
  });
  const { send, meter } = testClient(serviceOptions(baseUrl));
  expect(await send(list)).toEqual(page);
  expect(meter).toMatchObject({ requests: 1, retries: 0, bytes: text.length });
});

it.each([
  ['plain', (body: Buffer) => body],
  ['compressed', (body: Buffer) => gzipSync(body)],
])('a response that begins with a byte order mark is read, %s', async (kind, encode) => {
  const { baseUrl } = await scriptedService((response) => {
    response.writeHead(200, kind === 'plain' ? {} : { 'content-encoding': 'gzip' });
    response.end(encode(Buffer.from(`\ufeff${text}`)));
  });
  expect(await testClient(serviceOptions(baseUrl)).send(list)).toEqual(page);
});

const reply = `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ${text.length}\r\n\r\n${text}`;

it.each([
  ['100 Continue', ['HTTP/1.1 100 Continue\r\n\r\n']],
  ['100 Continue with a header, twice', ['HTTP/1.1 100 Continue\r\nx: y\r\n\r\nHTTP/1.1 100\r\n\r\n']],
  ['100 Continue in pieces', ['HTTP', '/1.1 1', '00 Continue\r\n', '\r', '\nHTTP/1.1']],
  ['103 Early Hints', ['HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n']],
  ['100 and 103', ['HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\n\r\n']],
  ['nothing', []],
])('before a response, %s is no trouble, on a kept connection too', async (_, pieces) => {
  let connections = new Set();
  const { baseUrl } = await rawService((socket) => {
    connections = connections.add(socket);
    socket.setNoDelay(true);
    const rest = pieces.at(-1)?.endsWith('HTTP/1.1') ? reply.slice('HTTP/1.1'.length) : reply;
    const [first, ...others] = [...pieces, rest];
    const write = (piece: string, later: string[]) =>
      socket.write(piece, () => setImmediate(() => later[0] !== undefined && write(later[0], later.slice(1))));
    write(first as string, others);
  });
  const { send, meter } = testClient(serviceOptions(baseUrl, { concurrency: 1 }));
  for (let request = 0; request < 3; request += 1) expect(await send(list)).toEqual(page);
  expect(meter).toMatchObject({ requests: 3, retries: 0 });
  expect(connections.size).toBe(1);
});

it.each([
  [200, 'Accepted'],
  [200, ''],
  [201, '[]'],
  [202, '{"status":"queued"'],
  [202, '"ok"'],
  [203, '<html>'],
  [204, ''],
  [299, 'null'],
])('an event is taken by any success: %i with the body %j', async (status, body) => {
  const { baseUrl } = await scriptedService((response) => {
    response.writeHead(status, { 'content-type': 'text/plain' });
    response.end(body);
  });
  const { client, meter, abort } = testClient(serviceOptions(baseUrl));
  const seen = await client.send(sendEventOperation('s-1', {}), (_, head) => head.status, {
    signal: abort.signal,
    meter,
  });
  expect(seen).toBe(status);
  expect(meter).toMatchObject({ requests: 1, retries: 0 });
});

it.each([201, 202, 203, 204, 206, 299])('a list is read from a 200 only, not from a %i', async (status) => {
  const { baseUrl } = await scriptedService(
    { status, body: status === 204 ? undefined : page },
    { status: 200, body: page },
  );
  const { send, meter } = testClient(serviceOptions(baseUrl));
  expect(await send(list)).toEqual(page);
  expect(meter).toMatchObject({ requests: 2, retries: 1 });
});

it('responses that cannot be used are not reported as no response', async () => {
  const { baseUrl } = await scriptedService({ status: 202, body: page });
  const error = await testClient(serviceOptions(baseUrl)).failure(list);
  expect(error).toMatchObject({ code: 'malformed_response', status: 202 });
  expect(error.message).toMatch(
    /^the Profile API has answered only with errors since .*\(202\).*: its status is not 200$/,
  );
});

it.each([
  [
    'its own charset',
    'iso-8859-1',
    Buffer.from('{"data":[{"id":"J\u00fcrgen"}]}', 'latin1'),
    'it is not UTF-8, but iso-8859-1',
  ],
  ['two bytes a character', 'utf-16', Buffer.from(text, 'utf16le'), 'it is not UTF-8, but has two bytes'],
])('a response in %s is an error', async (_, charset, body, reason) => {
  const { baseUrl } = await scriptedService((response) => {
    response.writeHead(200, { 'content-type': `application/json; charset=${charset}` });
    response.end(body);
  });
  const error = await testClient(serviceOptions(baseUrl)).failure(list);
  expect(error).toMatchObject({ code: 'malformed_response' });
  expect(error.message).toContain(reason);
});

it('a response in UTF-8 is read, whatever charset it states', async () => {
  const { baseUrl } = await scriptedService((response) => {
    response.writeHead(200, { 'content-type': 'application/json;charset=ISO-8859-1' });
    response.end('{"data":[{"id":"J\u00fcrgen"}]}');
  });
  expect(await testClient(serviceOptions(baseUrl)).send(list)).toEqual({ data: [{ id: 'J\u00fcrgen' }] });
});

it.each([
  ['that breaks off', { 'content-encoding': 'gzip' }, gzipSync(text).subarray(0, 20)],
  ['in a compression that was not asked for', { 'content-encoding': 'br' }, Buffer.from(text)],
])('a response %s is not reported as none', async (_, headers, body) => {
  const { baseUrl } = await scriptedService((response) => {
    response.writeHead(200, headers as Record<string, string>);
    response.end(body);
  });
  const error = await testClient(serviceOptions(baseUrl)).failure(list);
  expect(error.message).toContain('the Profile API has given no whole response since');
  expect(`${error.hint}`).not.toContain('?.');
});

it.each(['"7"', '-1', '1.5', '{}', 'true'])('a short list with a total of %s is read', (total) => {
  expect(readIndexes(Buffer.from(`{"data":[{"id":"i"}],"total":${total}}`))).toMatchObject({ total: null });
});

it('a short list that names its next page in another way is not taken for a whole one', () => {
  expect(() => readIndexes(Buffer.from('{"data":[{"id":"i"}],"nextToken":"t"}'))).toThrow('"nextToken" says');
});
