import { expect, it } from 'vitest';
import { indexesPageOperation, profilesPageOperation } from '../../../src/api/profile-api.js';
import { scriptedService, serviceOptions, testClient } from './scripted-service.js';

const list = indexesPageOperation({});

async function errorOf(text: string, type = 'application/json', status = 400) {
  const service = await scriptedService((response) => {
    response.writeHead(status, { 'content-type': type });
    response.end(text);
  });
  return testClient(serviceOptions(service.baseUrl)).failure(list);
}

it.each([
  ['{"status":400,"message":"limit is too large","request_id":"r-1"}', 'limit is too large (request id r-1)'],
  ['{"error":{"code":"bad","message":"limit is too large","request_id":"r-2"}}', 'limit is too large (request id r-2)'],
  ['{"error":{"error":{"message":"limit is too large"}}}', 'limit is too large'],
  ['{"errors":[{"detail":"limit is too large"},{"detail":"x"}]}', 'limit is too large'],
  ['{"errors":["limit is too large"]}', 'limit is too large'],
  ['{"error":"invalid_limit","error_description":"limit is too large"}', 'invalid_limit: limit is too large'],
  ['"limit is too large"', 'limit is too large'],
  ['{"message":{"text":"limit is too large"},"errors":7,"error":[]}', 'limit is too large'],
  ['[{"message":"limit is too large"}]', 'limit is too large'],
  ['{"fault":{"faultstring":"limit is too large"}}', 'limit is too large'],
  ['{"Message":"limit is too large"}', 'limit is too large'],
  ['{"messages":["limit is too large"]}', 'limit is too large'],
  ['{"error":{"description":"limit is too large"}}', 'limit is too large'],
  ['{"message":{},"errors":7,"error":[]}', 'Bad Request'],
  ['{"errors":[[[[{"message":"deep"}]]]]}', 'Bad Request'],
  ['{broken', 'Bad Request'],
])('the words of %s are shown', async (body, words) => {
  expect((await errorOf(body)).message).toBe(`GET /indexes was refused with 400: ${words}`);
});

it.each([
  [
    'application/problem+json',
    '{"type":"about:blank","title":"Bad","detail":"limit is too large"}',
    'limit is too large',
  ],
  ['application/problem+json', '{"title":"Limit is too large"}', 'Limit is too large'],
  ['text/plain', 'limit is too large\n', 'limit is too large'],
  ['text/html', '<h1>400</h1>', 'Bad Request'],
  ['text/plain', '<!doctype html><p>x', 'Bad Request'],
  ['text/plain', 'word '.repeat(200), 'Bad Request'],
])('of a body of type %s: %s', async (type, body, words) => {
  expect((await errorOf(body, type)).message).toBe(`GET /indexes was refused with 400: ${words}`);
});

it('an index that is not generated yet has a hint', async () => {
  const { baseUrl } = await scriptedService({ status: 404, body: { message: 'No build found' } });
  const error = await testClient(serviceOptions(baseUrl)).failure(profilesPageOperation({ indexId: 'i' }));
  expect(error.hint).toContain('not generated yet');
});

it('a 304 is not called a redirect', async () => {
  const error = await errorOf('', 'text/plain', 304);
  expect(error.message).toBe('GET /indexes was answered with Not Modified (304)');
  expect(error.hint).toContain('cache');
});
