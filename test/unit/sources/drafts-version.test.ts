import { expect, it } from 'vitest';
import { draftsVersion } from '../../../src/sources/campaigns.js';
import { emptyPage, type Reply, scriptedService, serviceOptions, testClient } from '../api/scripted-service.js';

const other = 'unstable';

async function ask(...replies: Reply[]) {
  const service = await scriptedService(...replies);
  const options = serviceOptions(service.baseUrl);
  const { client, abort, meter } = testClient(options);
  const notices: string[] = [];
  const notice = (line: string) => notices.push(line);
  const found = draftsVersion({ client, signal: abort.signal, meter, notice, service: options });
  return { found, notices, service };
}

// The response of the dated version is not published, and the 401 may say no more than that of a bad token.
it.each([
  [400, 'Bad Request'],
  [401, 'Authentication Required'],
  [404, 'Not Found'],
  [405, 'Method Not Allowed'],
])('drafts behind a %i of general words are found under the other version', async (status, message) => {
  const { found, notices, service } = await ask({ status, body: { status, message } }, emptyPage);
  await expect(found).resolves.toBe(other);
  expect(service.received.map(({ headers }) => headers['api-version'])).toEqual(['2024-04-01', other]);
  expect(notices).toHaveLength(1);
});

it('if both versions are refused, the error has the response under each', async () => {
  const refusal = (status: number, message: string): Reply => ({ status, body: { status, message } });
  const { found } = await ask(refusal(401, 'Authentication Required'), refusal(404, 'no such path'));
  await expect(found).rejects.toMatchObject({
    code: 'not_found',
    kind: 'fatal',
    message: expect.stringMatching(
      /2024-04-01: .*401: Authentication Required; under version unstable: .*404: no such path/,
    ),
    hint: expect.stringContaining('`api_versions.campaign_drafts`'),
  });
});

it('a token that is refused under both versions is refused', async () => {
  const { found } = await ask({ status: 401, body: { status: 401, message: 'Authentication Required' } });
  await expect(found).rejects.toMatchObject({
    code: 'unauthorized',
    kind: 'auth',
    hint: expect.stringMatching(/`api_versions\.campaign_drafts`.*the token is not valid/),
  });
});

it('no other version is tried if a permission is missing', async () => {
  const { found, service } = await ask({ status: 403 });
  await expect(found).rejects.toMatchObject({ code: 'forbidden' });
  expect(service.received).toHaveLength(1);
});
