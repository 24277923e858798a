import { afterAll, beforeAll, expect, it } from 'vitest';
import { streamOf, Workspace } from '../fixtures/workspace.js';

let space: Workspace;
beforeAll(async () => {
  space = await Workspace.open({ profiles: 10 });
});
afterAll(() => space.close());

const made = { name: 'made', source: 'index_profiles', index: 'made' };
const open = { max_deleted: 'off', max_changed: 'off' };

async function serve(records: readonly string[]): Promise<void> {
  await space.control('profiles', { index: 'made', records });
}

it('-0.0 in lists keeps its sign in small changes, rebuilds and full runs', async () => {
  await space.configure('zeros', [{ ...made, guards: open }]);
  const rows = (n: number) =>
    Array.from(
      { length: 40 },
      (_, id) => `{"id":"p${id}","index_id":"made","attributes":{"v":[-0.0,${id < n ? 2 : 1}.5],"w":{"x":[[-0.0]]}}}`,
    );
  const signs = async () =>
    space.query('zeros', 'select count(*)::int as n from made where signbit(v[1]) and signbit(w.x[1][1])');
  for (const [changed, words] of [
    [0, []],
    [1, []],
    [30, []],
    [30, ['--full']],
  ] as const) {
    await serve(rows(changed));
    streamOf(await space.runWell('zeros', words), 'made');
    expect([changed, words, await signs()]).toEqual([changed, words, [{ n: 40 }]]);
  }
  expect((await space.cdsync(['verify', 'zeros.json'])).code).toBe(0);
});

it('an address has one hash, whatever white space is around it', async () => {
  const column = { hash: true, normalize: 'email', salt: 'a salt that no one guesses' };
  await space.configure('spaces', [{ ...made, guards: open, columns: { email: column } }], {});
  const texts = [
    'ada@example.com',
    '\tAda@example.com',
    'ADA@example.com\r\n',
    '\u00a0ada@example.com\u2003',
    '\ufeffada@example.com\v',
  ];
  await serve(texts.map((email, id) => JSON.stringify({ id: `p${id}`, index_id: 'made', attributes: { email } })));
  await space.runWell('spaces');
  expect(await space.query('spaces', 'select count(distinct email)::int as n from made')).toEqual([{ n: 1 }]);
});
