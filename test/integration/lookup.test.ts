import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { type Profile, RealtimeCaller } from '../conformance/local-service/realtime-caller.js';
import { conversation, hasTerminals } from '../fixtures/conversation.js';
import { type Ended, ended, Workspace } from '../fixtures/workspace.js';

let space: Workspace;
let ann: Profile;
let bob: Profile;
beforeAll(async () => {
  space = await Workspace.open({ profiles: 2000 });
  const caller = new RealtimeCaller(space.service);
  const [first, second] = (await caller.members('seg-gold')) as [string, string];
  [ann, bob] = [await caller.profile(first), await caller.profile(second)];
  await writeFile(join(space.folder, 'odd.yaml'), 'version: 1\n');
});
afterAll(() => space.close());
afterEach(() => space.clearFaults());

const emailOf = ({ links }: Profile) => links.email?.[0] as string;
const where = () => ['--base-url', space.service.url, '--tenant-id', space.service.tenantId];

async function lookup(words: readonly string[], input = ''): Promise<Ended> {
  const child = space.spawn(['lookup', ...words, ...where()], {}, { stdin: 'pipe' });
  child.stdin?.end(input);
  return ended(child);
}

const lines = ({ stdout }: Ended) =>
  stdout
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line));

describe('cdsync lookup', () => {
  it.each(['post', 'get'])('shows the profile that has the keys, by %s', async (method) => {
    const phone = ann.links.phone?.[0];
    const found = await lookup(['col-1', `email=${emailOf(ann)}`, `phone=${phone}`, '--method', method]);
    expect([found.code, found.stderr, lines(found)]).toEqual([0, '', [ann]]);
  });

  it('asks for enriched attributes if asked to', async () => {
    const [plain, enriched] = [
      await lookup(['col-1', `email=${emailOf(ann)}`]),
      await lookup(['col-1', `email=${emailOf(ann)}`, '--enrich']),
    ].map((each) => Object.keys((lines(each)[0] as Profile).attributes));
    expect(enriched).toEqual(expect.arrayContaining([...(plain as string[]), 'churn_risk']));
    expect(plain).not.toContain('churn_risk');
  });

  it('returns lines of keys in their order, with null for keys that no profile has', async () => {
    const input = [
      `email=${emailOf(bob)}`,
      '{"email": "absent@example.com"}',
      '',
      JSON.stringify({ email: emailOf(ann) }),
    ];
    const answered = await lookup(['col-1'], input.join('\n'));
    expect([answered.code, lines(answered)]).toEqual([1, [bob, null, ann]]);
    expect(answered.stderr).toContain(
      'error: 1 of 3 lookups match no profile in collection "col-1" [profile_not_found]',
    );
    expect(answered.stderr).not.toContain('absent@');
    const document = JSON.parse((await lookup(['col-1', '--json'], input.join('\n'))).stdout);
    expect(document).toMatchObject({
      status: 'failed',
      profiles: [bob, null, ann],
      error: { code: 'profile_not_found' },
    });
  });

  it('returns a line before the next one arrives', async () => {
    const child = space.spawn(['lookup', 'col-1', ...where()], {}, { stdin: 'pipe' });
    const end = ended(child);
    child.stdin?.write(`email=${emailOf(ann)}\n`);
    const [response] = (await once(child.stdout as NodeJS.ReadableStream, 'data')) as [Buffer];
    expect(JSON.parse(response.toString())).toEqual(ann);
    child.stdin?.end(`email=${emailOf(bob)}\n`);
    expect(lines(await end)).toEqual([ann, bob]);
  });

  it('reports that no profile has the keys, with exit code 1 and without the keys', async () => {
    const { code, stdout, stderr } = await lookup(['col-1', 'email=absent@example.com']);
    expect([code, stdout]).toEqual([1, '']);
    expect(stderr).toContain('error: no profile has these keys in collection "col-1" [profile_not_found]');
    expect(stderr).not.toContain('absent@');
    const document = JSON.parse((await lookup(['col-1', 'email=absent@example.com', '--json'])).stdout);
    expect(document).toMatchObject({ status: 'failed', profiles: [null], error: { code: 'profile_not_found' } });
  });

  it.each([
    [{ kind: 'missing_permission' }, 4, 'forbidden'],
    [{ kind: 'status', status: 400, message: 'who is eve@example.com?' }, 1, 'bad_request'],
  ])('shows no key if the service refuses: %j', async (fault, exit, error) => {
    await space.control('faults', { ...fault, match: '/lookup/' });
    for (const method of ['post', 'get']) {
      const words = ['col-1', 'email=eve@example.com', '--method', method, '--json', '--verbose'];
      const { code, stdout, stderr } = await lookup(words);
      expect([code, JSON.parse(stdout).error.code]).toEqual([exit, error]);
      expect(stdout + stderr).not.toContain('eve@');
    }
  });

  it.each([
    [[], 'missing argument: COLLECTION'],
    [['odd.yaml'], 'missing argument: COLLECTION'],
    [['email=eve@example.com'], 'missing argument: COLLECTION'],
    [['col-1', 'eve@example.com'], 'the command line: a word is not key=value'],
    [['col-1'], 'there are no keys to look up'],
  ])('refuses %j before it asks', async (words, reason) => {
    const { code, stderr } = await lookup(words);
    expect([code, stderr]).toEqual([2, expect.stringContaining(reason)]);
    expect(stderr).not.toContain('eve@');
  });

  it('takes the service from a configuration', async () => {
    const file = await space.configure('any', [{ name: 'indexes', source: 'indexes' }]);
    const child = space.spawn(['lookup', file, 'col-1', `email=${emailOf(ann)}`], {}, { stdin: 'pipe' });
    child.stdin?.end();
    expect(lines(await ended(child))).toEqual([ann]);
  });
});

describe.runIf(hasTerminals)('cdsync lookup on a terminal', () => {
  it('asks for the keys, and again after a wrong input', async () => {
    const { code, stdout } = await conversation(
      space,
      ['lookup', 'col-1', ...where()],
      [
        ['keys, as key=value: ', 'nonsense\r'],
        ['a word is not key=value', ''],
        ['keys, as key=value: ', `email=${emailOf(ann)}\r`],
      ],
    );
    expect([code, stdout]).toEqual([0, expect.stringContaining(`"profile_id":"${ann.profile_id}"`)]);
  });
});
