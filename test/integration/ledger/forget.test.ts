import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { rowsOfFile } from '../../fixtures/duckdb-rows.js';
import { filesHolding } from '../../fixtures/files-holding.js';
import { Workspace } from '../../fixtures/workspace.js';

let space: Workspace;
beforeAll(async () => {
  space = await Workspace.open({ profiles: 10 });
});
afterAll(() => space.close());

const guards = { min_rows: 0, max_deleted: 'off', max_changed: 'off' };
const pairs = `select o.id as old_id, n.id as new_id from people__previous o join people n using (email) where n.id <> o.id
  and not exists (select 1 from people__previous b where b.id = n.id and b.email = n.email)`;
const ledgers = [
  { name: 'became', source: 'sql', key: ['old_id', 'new_id'], deletes: 'ignore', query: pairs, guards },
  // The second person of a pair is in no key.
  { name: 'successors', source: 'sql', key: ['old_id'], deletes: 'ignore', query: pairs, guards },
];

const serve = (people: Readonly<Record<string, string>>) =>
  space.control('profiles', {
    index: 'people',
    records: Object.entries(people).map(([id, email]) =>
      JSON.stringify({ id, index_id: 'people', attributes: { email } }),
    ),
  });

/** Three merges: person-1 into person-2, person-3 into person-4, person-5 into person-6. */
async function merged(job: string, rules: object = {}, streams: readonly { name: string }[] = ledgers) {
  const people = { name: 'people', source: 'index_profiles', index: 'people', guards, columns: rules };
  const copy = {
    ...{ name: 'copy', connector: 'duckdb', path: join(space.folder, `${job}.copy.duckdb`) },
    streams: streams.map(({ name }) => name),
  };
  await space.configure(job, [people, ...streams], { job: { destinations: [copy] } });
  const ids = [1, 2, 3, 4, 5, 6].map((n) => [`person-${n}`, `mail-${n}@example.com`]);
  await serve(Object.fromEntries(ids));
  await space.runWell(job);
  await serve({
    'person-2': 'mail-1@example.com',
    'person-4': 'mail-3@example.com',
    'person-6': 'mail-5@example.com',
  });
  await space.runWell(job);
}

const olds = async (job: string, file?: string) => {
  const query = `select 'pair ' || old_id || ' ' || new_id as pair from became union all
    select 'next ' || old_id || ' ' || new_id from successors order by 1`;
  const rows = file === undefined ? await space.query(job, query) : await rowsOfFile(join(space.folder, file), query);
  return rows.map(({ pair }) => pair);
};
const forget = (job: string, words: readonly string[]) => space.cdsync(['forget', `${job}.json`, ...words, '--yes']);

describe('an erasure from a stream that a ledger reads', () => {
  it('erases each pair that names the person, on either side and in any column, at destinations too, and for good', async () => {
    await merged('pairs');
    const all = (...numbers: number[]) =>
      ['next', 'pair'].flatMap((word) => numbers.map((n) => `${word} person-${n} person-${n + 1}`));
    expect(await olds('pairs')).toEqual(all(1, 3, 5));
    // The one who is there, then one who is not since the merge, then one everywhere.
    for (const [words, left] of [
      [['people', 'person-2'], all(3, 5)],
      [['people', 'person-3'], all(5)],
      [['person-6', '--everywhere'], []],
    ] as const) {
      const { code, stdout, stderr } = await forget('pairs', words);
      expect(code, stdout + stderr).toBe(0);
      expect(await olds('pairs')).toEqual(left);
      await space.runWell('pairs');
      expect([await olds('pairs'), await olds('pairs', 'pairs.copy.duckdb')]).toEqual([left, left]);
    }
    const left = await filesHolding(space.jobFolder('pairs'), ['person-2', 'person-3', 'person-6']);
    expect(left).toEqual([]);
  });

  it('takes the id of one person for a pair, if the ledger itself is named', async () => {
    await merged('named');
    expect(await forget('named', ['became', 'person-2'])).toMatchObject({ code: 0 });
    expect(await olds('named')).not.toContain('pair person-1 person-2');
    expect(await space.cdsync(['push', 'named.json'])).toMatchObject({ code: 0 });
    expect(await olds('named', 'named.copy.duckdb')).toEqual(await olds('named'));
    expect(await forget('named', ['became', 'person-9'])).toMatchObject({ code: 1 });
  });

  it('finds people within lists, structs, maps and JSON, but not within longer texts', async () => {
    const values = {
      lists: "['not person-2', o.id, n.id]",
      structs: "{'why': 'not person-2', 'ids': [{'id': o.id}, {'id': n.id}]}",
      maps: "map {'not person-2': 'x', o.id: n.id}",
      docs: "json_object('why', '\"not person-2\"', 'ids', json_array(o.id, n.id))",
    };
    const names = Object.keys(values);
    const nested = Object.entries(values).map(([name, value]) => {
      const query = `select o.email, ${value} as who from people__previous o join people n using (email) where n.id <> o.id`;
      return { name, source: 'sql', key: ['email'], deletes: 'ignore', query, guards };
    });
    await merged('nested', {}, nested);
    const mails = async (file?: string) => {
      const query = names.map((name) => `select '${name} ' || email as mail from ${name}`).join(' union all ');
      const rows = file === undefined ? await space.query('nested', query) : await rowsOfFile(file, query);
      return rows.map(({ mail }) => String(mail)).sort();
    };
    const all = (...numbers: number[]) =>
      names.flatMap((name) => numbers.map((n) => `${name} mail-${n}@example.com`)).sort();
    expect(await mails()).toEqual(all(1, 3, 5));
    // The new id of a pair, then an old one.
    for (const [words, left] of [
      [['people', 'person-2'], all(3, 5)],
      [['person-3', '--everywhere'], all(5)],
    ] as const) {
      const { code, stdout, stderr } = await forget('nested', words);
      expect(code, stdout + stderr).toBe(0);
      expect(await mails()).toEqual(left);
      await space.runWell('nested');
      expect([await mails(), await mails(join(space.folder, 'nested.copy.duckdb'))]).toEqual([left, left]);
    }
  });

  it('finds people whose ids the stream has as hashes', async () => {
    await merged('hashed', { id: { hash: true, salt: 'a salt of 22 letters.' } });
    expect(await olds('hashed')).toHaveLength(6);
    expect((await forget('hashed', ['people', 'person-2'])).code).toBe(0);
    expect(await olds('hashed')).toHaveLength(4);
    expect((await forget('hashed', ['person-3', '--everywhere'])).code).toBe(0);
    expect(await olds('hashed')).toHaveLength(2);
  });

  it('leaves rows that name others, and streams that read something else', async () => {
    await merged('others');
    expect((await forget('others', ['became', '["person-1","person-2"]'])).code).toBe(0);
    expect(await olds('others')).toContain('next person-1 person-2');
    expect((await forget('others', ['people', 'person-7'])).code).not.toBe(0);
    expect(await olds('others')).toHaveLength(5);
  });
});
