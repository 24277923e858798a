import { mkdtemp, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { readIdentityKeys, readIds } from '../../../src/sources/key-list.js';
import { Database, type Session } from '../../../src/storage/duckdb.js';

let folder: string;
let database: Database;
let session: Session;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'cdsync-keys-'));
  database = await Database.open({ memoryMb: 256, threads: 1 });
  session = await database.connect();
});
afterAll(async () => {
  session.close();
  database.close();
  await rm(folder, { recursive: true });
});

const context = (mayBeEmpty = false) => ({ session, mayBeEmpty });

async function file(name: string, content: string | Buffer): Promise<{ file: string }> {
  const path = join(folder, name);
  await writeFile(path, content);
  return { file: path };
}

describe('ids', () => {
  it('come in order, each once, from a list, a file or a query', async () => {
    const wanted = ['02134', 'b', 'ä "x"'];
    await session.run(`COPY (SELECT unnest(['02134', 'b', 'ä "x"', 'b']) AS profile_id) TO '${folder}/ids.parquet'`);
    expect(await readIds(context(), ['02134', 'b', 'ä "x"', 'b'])).toEqual(wanted);
    expect(await readIds(context(), await file('ids.txt', '\uFEFF02134\r\nb\n\n  ä "x"\nb'))).toEqual(wanted);
    expect(await readIds(context(), await file('ids.csv', 'name,id\nx,02134\ny,b\nz,"ä ""x"""\n'))).toEqual(wanted);
    expect(await readIds(context(), await file('one.csv', 'profile_id\n02134\nb\n"ä ""x"""\n'))).toEqual(wanted);
    expect(
      await readIds(context(), await file('ids.jsonl', '{"id":"02134"}\n{"id":"b"}\n\n{"id":"ä \\"x\\""}')),
    ).toEqual(wanted);
    expect(await readIds(context(), { file: join(folder, 'ids.parquet') })).toEqual(wanted);
    expect(await readIds(context(), { sql: `SELECT unnest(['02134', 'b', 'ä "x"']) AS id` })).toEqual(wanted);
  });

  it.each([
    ['bad.txt', Buffer.from([0x61, 0x0a, 0xff, 0x0a]), /bad\.txt:2: this line is not UTF-8/],
    ['late.txt', Buffer.concat([Buffer.from('\ufffd\n'), Buffer.from([0xff])]), /late\.txt:2: this line is not UTF-8/],
    ['two.csv', 'a,b\n1,2\n', /two\.csv:1: the first line names no column id or profile_id/],
    ['headless.csv', 'abc\ndef\n', /headless\.csv:1: the first line names no column id or profile_id/],
    ['numbers.csv', '1001\n1002\n', /numbers\.csv:1: this is no header/],
    ['mails.csv', 'secret@example.com,1\n', /mails\.csv:1: this is no header/],
    ['german.csv', 'id;name\n1;x\n', /german\.csv:1: columns are separated by commas/],
    ['tabs.csv', 'id\tname\n1\tx\n', /tabs\.csv:1: columns are separated by commas/],
    ['only-header.csv', 'abc\n', /only-header\.csv:1: the first line names no column id/],
    ['gap.csv', 'id,x\nA,1\n,2\n', /gap\.csv: row 2 has no id/],
    ['torn.csv', 'id,x\nA,1\nsecret@example.com,1,2,3\n', /torn\.csv:3: the file cannot be read as a table/],
    ['twice.csv', 'id,id\n1,2\n', /twice\.csv:1: two columns have one name/],
    ['nameless.csv', 'id,\n1,2\n', /nameless\.csv:1: a column has no name/],
    ['torn.jsonl', '{"id":"a"}\n{"id":"secret@exam', /torn\.jsonl:2: this line is no JSON/],
    ['list.jsonl', '["secret@example.com"]', /list\.jsonl:1: this line is no JSON object/],
  ])('of %s are refused with file and line, and without a value', async (name, content, message) => {
    const refused = await readIds(context(), await file(name, content)).catch((error: Error) => error.message);
    expect(refused).toMatch(message);
    expect(refused).not.toContain('secret');
  });

  it('may have U+FFFD in them', async () => {
    expect(await readIds(context(), await file('sign.txt', 'a\ufffd\nb\n'))).toEqual(['a\ufffd', 'b']);
  });

  it('are those of the named file, whatever its name matches as a pattern', async () => {
    await file('ids1.csv', 'id\nanother\n');
    expect(await readIds(context(), await file('ids[1].csv', 'id\na\n'))).toEqual(['a']);
    await session.run(`COPY (SELECT 'x' AS id) TO '${folder}/other.parquet'`);
    await rename(join(folder, 'other.parquet'), join(folder, 'a*.parquet'));
    await session.run(`COPY (SELECT 'y' AS id) TO '${folder}/ab.parquet'`);
    expect(await readIds(context(), { file: join(folder, 'a*.parquet') })).toEqual(['x']);
  });

  it.each([
    ['large.jsonl', '{"id":"a"}\n{"id":9007199254740993}', /large\.jsonl: row 2 has an inexact number as a key/],
    ['object.jsonl', '{"id":{"is":"secret"}}', /object\.jsonl: row 1 has a list or an object as a key/],
  ])('of %s are refused, because other ids would be asked for', async (name, content, message) => {
    await expect(readIds(context(), await file(name, content))).rejects.toThrow(message);
    const keys = readIdentityKeys(context(), await file(name, content));
    await expect(keys).rejects.toMatchObject({ code: 'key_file_invalid' });
    expect(await readIds(context(), await file('small.jsonl', '{"id":42,"x":[1]}'))).toEqual(['42']);
  });

  it('are refused if their file does not exist', async () => {
    await expect(readIds(context(), { file: join(folder, 'none.csv') })).rejects.toMatchObject({
      code: 'key_file_unreadable',
    });
  });
});

describe('identity keys', () => {
  it('are the cells of a row that are not empty, by their columns', async () => {
    const wanted = [{ email: 'a@x', loyalty_id: '007' }, { loyalty_id: '8' }];
    expect(
      await readIdentityKeys(context(), await file('keys.csv', 'email,loyalty_id\na@x,007\n,8\na@x,007\n')),
    ).toEqual(wanted);
    expect(await readIdentityKeys(context(), [...wanted, { loyalty_id: '8' }])).toEqual(wanted);
  });

  it('need one key in each row', async () => {
    await expect(readIdentityKeys(context(), await file('empty.csv', 'email,x\n,\n'))).rejects.toMatchObject({
      code: 'key_missing',
    });
  });
});

it.each([
  ['ids.txt', '\n \n'],
  ['ids.csv', 'id\n'],
  ['ids.jsonl', ''],
])('an empty file %s is an error, unless the stream may be empty', async (name, content) => {
  const list = await file(name, content);
  const error = { code: 'key_file_invalid', message: expect.stringContaining(`${name} has no ids`) };
  await expect(readIds(context(), list)).rejects.toMatchObject(error);
  expect(await readIds(context(true), list)).toEqual([]);
  if (name !== 'ids.txt') await expect(readIdentityKeys(context(), list)).rejects.toMatchObject({ code: error.code });
});
