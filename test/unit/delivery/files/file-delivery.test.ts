import { createHash } from 'node:crypto';
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { z } from 'zod';
import exportConnector from '../../../../connectors/export/index.js';
import { resetDelivery } from '../../../../src/delivery/destination-status.js';
import { readExportState } from '../../../../src/delivery/files/file-state.js';
import type { FileConnector } from '../../../../src/sdk/destination.js';
import { map } from '../../../../src/sdk/option.js';
import { ExportStream, failing, gone, insert, update } from './export-stream.js';

let place: ExportStream;
beforeEach(async () => {
  place = await ExportStream.open();
});
afterEach(() => place.close());

describe('files that a partner takes', () => {
  it('writes the whole list, then nothing, then the next list under the next number', async () => {
    await place.stream.commit([insert('b', 2), insert('a', 1)]);
    const first = await place.deliver();
    expect(first).toMatchObject({ status: 'ok', action: 'export', rows: 2, files: ['members_0001.csv'] });
    expect(await place.files()).toEqual({ 'members_0001.csv': 'id,n\na,1\nb,2\n' });
    expect(await place.deliver()).toMatchObject({ status: 'ok', action: 'nothing', rows: 0, files: [] });
    await place.stream.commit([gone('a', 1)]);
    await place.deliver();
    expect(await place.files()).toMatchObject({ 'members_0002.csv': 'id,n\nb,2\n' });
  });

  it('notes a try before it begins: the process may end in it', async () => {
    await place.stream.commit([insert('a', 1)]);
    const real = exportConnector as unknown as FileConnector;
    let planned: unknown;
    const handOver = async () => {
      planned = await readExportState(place.stream.layout.deliveredStream('partner', 'members'));
      throw new Error('the process is gone');
    };
    place.connector = { ...real, open: async (context) => Object.assign(await real.open(context), { handOver }) };
    await place.deliver();
    expect(planned).toMatchObject({ plan: { files: [{ is_tried: true, is_sent: false }] } });
  });

  it('does not write again a file that the partner has taken away', async () => {
    await place.stream.commit([insert('a', 1)]);
    await place.deliver();
    await rm(join(place.place, 'members_0001.csv'));
    expect(await place.deliver()).toMatchObject({ status: 'ok', action: 'nothing' });
    expect(await place.files()).toEqual({});
  });

  it('writes columns in the order of select, under their new names, and may leave out the key', async () => {
    await place.stream.commit([insert('a', 1)]);
    place.columns = new Map([['n', { drop: false, rename: 'Anzahl; heute' }]]);
    await place.deliver({ select: ['n'], csv: { delimiter: ';' } });
    expect(await place.files()).toEqual({ 'members_0001.csv': '"Anzahl; heute"\n1\n' });
  });

  it('refuses a column that the stream does not have, and says the nearest', async () => {
    await place.stream.commit([insert('a', 1)]);
    const { error } = await place.deliver({ select: ['ids'] });
    expect([error?.code, error?.hint]).toEqual(['column_unknown', 'did you mean "id"? Nothing was written']);
  });

  it('writes changes with their operation; the first time everything', async () => {
    const options = { content: 'changes' };
    await place.stream.commit([insert('a', 1), insert('b', 1)]);
    await place.deliver(options);
    await place.stream.commit([update('a', 2), gone('b', 1), insert('c', 3)]);
    await place.deliver(options);
    expect(await place.files()).toEqual({
      'members_0001.csv': '_op,id,n\ninsert,a,1\ninsert,b,1\n',
      'members_0002.csv': '_op,id,n\nupdate,a,2\ndelete,b,1\ninsert,c,3\n',
    });
  });

  it('writes a file for each operation', async () => {
    const options = { content: 'changes', file: '{{ op }}_{{ sequence }}.csv', empty: 'skip' };
    await place.stream.commit([insert('a', 1), insert('b', 1)]);
    await place.deliver(options);
    await place.stream.commit([update('a', 2), gone('b', 1)]);
    await place.deliver(options);
    expect(Object.keys(await place.files())).toEqual(['deleted_2.csv', 'inserted_1.csv', 'updated_2.csv']);
  });

  it.each(['before', 'after'] as const)(
    'sends the same bytes under the same name, if the first try ended %s',
    async (when) => {
      const options = {
        file: "{{ date | date: '%Y%m%d' }}_{{ sequence }}.csv",
        csv: { last_line: '{{ date }};{{ rows }}' },
      };
      await place.stream.commit([insert('a', 1)]);
      place.connector = failing(when);
      expect((await place.deliver(options)).status).toBe('failed');
      const day = new Date(place.clock.now()).toISOString().slice(0, 10);
      await place.clock.sleep(3 * 86_400_000);
      await place.stream.commit([insert('b', 2)]);
      const second = await place.deliver(options);
      expect(second).toMatchObject({ status: 'ok', rows: 3 });
      const later = new Date(place.clock.now()).toISOString().slice(0, 10);
      expect(later).not.toBe(day);
      expect(await place.files()).toEqual({
        [`${day.replaceAll('-', '')}_1.csv`]: `id,n\na,1\n${day};1\n`,
        [`${later.replaceAll('-', '')}_2.csv`]: `id,n\na,1\nb,2\n${later};2\n`,
      });
    },
  );

  it('never replaces a file that it did not write, and replaces its own', async () => {
    await place.stream.commit([insert('a', 1)]);
    await mkdir(place.place, { recursive: true });
    await writeFile(join(place.place, 'list.csv'), 'of another writer\n');
    const { error, status } = await place.deliver({ file: 'list.csv' });
    expect([status, error?.code]).toEqual(['failed', 'file_exists']);
    expect(await place.files()).toEqual({ 'list.csv': 'of another writer\n' });
    expect((await place.deliver({ file: 'list.csv', overwrite: true })).status).toBe('ok');
    await place.stream.commit([insert('b', 1)]);
    expect((await place.deliver({ file: 'list.csv' })).status).toBe('ok');
    expect(await place.files()).toEqual({ 'list.csv': 'id,n\na,1\nb,1\n' });
    await writeFile(join(place.place, 'list.csv'), 'of another writer\n');
    await place.stream.commit([insert('c', 1)]);
    expect((await place.deliver({ file: 'list.csv' })).error?.code).toBe('file_exists');
  });

  it.each([
    ['another name that the configuration gives it since', { file: 'other.csv' }],
    ['its own name, once that is free', { file: 'list.csv' }],
  ])('hands over a file whose name others had under %s', async (_, options) => {
    await place.stream.commit([insert('a', 1)]);
    const other = join(place.place, 'list.csv');
    await writeFile(other, 'of another writer');
    expect((await place.deliver({ file: 'list.csv' })).error?.code).toBe('file_exists');
    if (options.file === 'list.csv') await rm(other);
    await place.stream.commit([insert('b', 1)]);
    expect(await place.deliver(options)).toMatchObject({ status: 'ok', files: [options.file] });
    expect((await place.files())[options.file]).toBe('id,n\na,1\nb,1\n');
  });

  it('does not keep later files back for an old name that others have now', async () => {
    await place.stream.commit([insert('a', 1)]);
    await place.deliver();
    await writeFile(join(place.place, 'members_0001.csv'), 'of another writer');
    const again = { full: true, file: 'members_0001.csv' };
    expect((await place.deliver({}, again)).error?.code).toBe('file_exists');
    await place.stream.commit([insert('b', 1)]);
    expect(await place.deliver()).toMatchObject({ status: 'ok', files: ['members_0002.csv'] });
    expect(await place.files()).toEqual({
      'members_0001.csv': 'of another writer',
      'members_0002.csv': 'id,n\na,1\nb,1\n',
    });
  });

  it('keeps the name of a part, if an earlier part is there already, and says so', async () => {
    const options = { file: '{{ sequence }}_{{ part }}.csv', split: { rows: 1 } };
    await place.stream.commit([insert('a', 1), insert('b', 1)]);
    await writeFile(join(place.place, '1_2.csv'), 'of another writer');
    const { error } = await place.deliver(options);
    expect([error?.code, error?.hint]).toEqual(['file_exists', expect.stringContaining('it keeps its name')]);
    await rm(join(place.place, '1_2.csv'));
    expect((await place.deliver({ ...options, file: 'x{{ part }}.csv' })).status).toBe('ok');
    expect(Object.keys(await place.files())).toEqual(['1_1.csv', '1_2.csv']);
  });

  it('removes files with a forgotten person, writes the list without it, and forgets its key in changes', async () => {
    await place.stream.commit([insert('anna', 1), insert('bert', 2)]);
    await place.deliver();
    await place.forget('anna');
    expect((await place.deliver()).status).toBe('ok');
    expect(await place.files()).toEqual({ 'members_0002.csv': 'id,n\nbert,2\n' });
  });

  it('writes one delete for a forgotten person into the next file of changes', async () => {
    const options = { content: 'changes' };
    await place.stream.commit([insert('anna', 1), insert('bert', 2)]);
    await place.deliver(options);
    await place.forget('anna');
    await place.deliver(options);
    expect(await place.files()).toEqual({ 'members_0002.csv': '_op,id,n\ndelete,anna,\n' });
    expect(await place.deliver(options)).toMatchObject({ action: 'nothing' });
  });

  it.each(['reset', 'forget', 'both', 'adopt', 'cut'])('still has the delete, and removes files: %s', async (when) => {
    const options = { content: 'changes' };
    const reset = () => resetDelivery(place.stream.layout, 'partner', ['members']);
    await place.stream.commit([insert('anna', 1), insert('bert', 2)]);
    if (when === 'cut') place.connector = failing('after');
    await place.deliver(options);
    if (when === 'forget') await reset();
    await place.forget('anna');
    if (when === 'reset' || when === 'both') await reset();
    if (when === 'both') await reset();
    expect((await place.deliver(options, { adopt: when === 'adopt' })).status).toBe('ok');
    const all = Object.values(await place.files()).join('');
    expect(all).toContain('delete,anna,');
    expect(all).not.toContain('insert,anna,1');
    expect(await place.deliver(options)).toMatchObject({ action: 'nothing' });
  });

  it('removes files of before a reset with a person who is forgotten later', async () => {
    await place.stream.commit([insert('anna', 1), insert('bert', 2)]);
    await place.deliver();
    await resetDelivery(place.stream.layout, 'partner', ['members']);
    await place.deliver();
    expect(Object.keys(await place.files())).toEqual(['members_0001.csv', 'members_0002.csv']);
    await place.forget('anna');
    await place.deliver();
    expect(await place.files()).toEqual({ 'members_0003.csv': 'id,n\nbert,2\n' });
  });

  it('reports the files that had been taken away', async () => {
    await place.stream.commit([insert('anna', 1), insert('bert', 2)]);
    await place.deliver();
    await rm(join(place.place, 'members_0001.csv'));
    await place.forget('anna');
    expect((await place.deliver()).why).toContain('1 file with forgotten people had been taken away');
  });

  it('makes planned bytes again without a person who was forgotten since', async () => {
    await place.stream.commit([insert('anna', 1), insert('bert', 2)]);
    place.connector = failing('before');
    await place.deliver();
    await place.forget('anna');
    expect((await place.deliver()).status).toBe('ok');
    expect(await place.files()).toEqual({ 'members_0001.csv': 'id,n\nbert,2\n' });
  });

  it('writes a readable file without rows, none, or fails', async () => {
    await place.stream.commit([]);
    expect((await place.deliver({ empty: 'fail' })).error?.code).toBe('no_rows');
    expect((await place.deliver({ empty: 'skip' })).action).toBe('nothing');
    await place.stream.commit([insert('a', 1)]);
    await place.deliver();
    await place.stream.commit([]);
    expect((await place.deliver()).action).toBe('nothing');
    await place.stream.commit([gone('a', 1)]);
    await place.deliver({ done: '{{ file }}.done', checksum: 'sha256' });
    const digest = createHash('sha256').update('id,n\n').digest('hex');
    expect(await place.files()).toEqual({
      'members_0001.csv': 'id,n\na,1\n',
      'members_0002.csv': 'id,n\n',
      'members_0002.csv.sha256': `${digest}  members_0002.csv\n`,
      'members_0002.csv.done': '',
    });
  });

  it.each([
    [{}, 'none', 'id,n\n'],
    [{}, 'gzip', 'id,n\n'],
    [{ format: 'tsv' }, 'gzip', 'id\tn\n'],
    [{ format: 'json' }, 'gzip', '[\n]\n'],
    [{ format: 'jsonl' }, 'gzip', ''],
  ])('empties a list with a readable file in that run alone: %j, %s', async (options, compress, text) => {
    const named = { ...options, compress, file: '{{ sequence }}', done: '{{ file }}.done' };
    await place.stream.commit([insert('a', 1)]);
    await place.deliver(named);
    await place.stream.commit([]);
    expect((await place.deliver(named)).action).toBe('nothing');
    await place.stream.commit([gone('a', 1)]);
    const { files = [] } = await place.deliver(named);
    expect((await place.deliver(named)).action).toBe('nothing');
    const bytes = await readFile(join(place.place, files[0] ?? ''));
    expect(String(compress === 'gzip' ? gunzipSync(bytes) : bytes)).toBe(text);
    const suffix = compress === 'gzip' ? '.gz' : '';
    const names = [1, 2].flatMap((number) => [`${number}${suffix}`, `${number}${suffix}.done`]);
    expect(Object.keys(await place.files()).sort()).toEqual(names.sort());
  });

  it('writes a file with each delivery, if always', async () => {
    await place.stream.commit([insert('a', 1)]);
    await place.deliver({ when: 'always' });
    await place.deliver({ when: 'always' });
    expect(Object.keys(await place.files())).toEqual(['members_0001.csv', 'members_0002.csv']);
  });

  it('writes the newest list again under a new number, or under an old name', async () => {
    await place.stream.commit([insert('a', 1)]);
    await place.deliver();
    await place.deliver({}, { full: true });
    await place.stream.commit([insert('b', 1)]);
    expect((await place.deliver({}, { full: true, file: 'members_0001.csv' })).files).toEqual(['members_0001.csv']);
    expect(await place.files()).toEqual({ 'members_0001.csv': 'id,n\na,1\nb,1\n', 'members_0002.csv': 'id,n\na,1\n' });
    expect((await place.deliver({}, { full: true, file: 'members_1.csv' })).error?.code).toBe('file_unknown');
    await place.stream.commit([insert('c', 1)]);
    expect((await place.deliver()).files).toEqual(['members_0003.csv']);
  });

  it('names the files that it would write', async () => {
    await place.stream.commit([insert('a', 1), insert('b', 2)]);
    const { plan } = await place.planned();
    expect(plan?.files).toEqual([{ name: 'members_0001.csv', rows: 2, bytes: 8 }]);
    expect(await place.files()).toEqual({});
  });

  it('splits by rows and by bytes, a file at least one row', async () => {
    const rows = Array.from({ length: 25 }, (_, at) => insert(`m${String(at).padStart(2, '0')}`, at));
    await place.stream.commit(rows);
    await place.deliver({ file: 'p{{ part }}.csv', split: { rows: 10 }, csv: { first_line: 'H{{ rows }}' } });
    const texts = Object.values(await place.files());
    expect(texts.map((text) => text.split('\n').slice(0, 2))).toEqual([
      ['H10', 'id,n'],
      ['H10', 'id,n'],
      ['H5', 'id,n'],
    ]);
    const ids = texts.flatMap((text) => text.split('\n').slice(2, -1)).map((line) => line.split(',')[0]);
    expect(ids).toEqual(rows.map(({ id }) => id));
  });

  it('removes its own files that are older than keep', async () => {
    await place.stream.commit([insert('a', 1)]);
    await place.deliver({ keep: '1d' });
    await writeFile(join(place.place, 'other.csv'), '');
    await place.clock.sleep(2 * 86_400_000);
    await place.stream.commit([insert('b', 1)]);
    await place.deliver({ keep: '1d' });
    expect(Object.keys(await place.files())).toEqual(['members_0002.csv', 'other.csv']);
  });

  it('writes a mark of one name beside each file, and keeps it while a file needs it', async () => {
    const options = { done: { file: 'READY', body: '{{ sequence }}' }, keep: '1d' };
    for (const [index, id] of ['a', 'b'].entries()) {
      await place.stream.commit([insert(id, 1)]);
      expect((await place.deliver(options)).error).toBeUndefined();
      expect((await place.files()).READY).toBe(String(index + 1));
      await place.clock.sleep(2 * 86_400_000);
    }
    expect(Object.keys(await place.files())).toEqual(['READY', 'members_0002.csv']);
  });

  it.each([
    [{ done: '{{ file }}' }, '`done` makes the name "members.csv", which `file` makes too'],
    [{ done: '{{ file }}.sha256', checksum: 'sha256' }, 'which `checksum` makes too'],
    [{ temporary: '{{ name }}' }, 'which `file` makes too'],
    [{ file: '{{ part | slice: 0 }}.csv', split: { rows: 1 } }, 'which `file` makes too'],
    [{ file: "{{ op | replace: 'updated', 'inserted' }}", content: 'changes' }, 'which `file` makes too'],
    [{ file: 'e\u0301.csv', done: '\u00e9.CSV' }, 'which `file` makes too'],
    [{ file: '{{ date | plus: 1 }}' }, 'cannot be filled in: the filter "plus" takes numbers only'],
    [{ temporary: '../{{ name }}' }, 'has a part that is empty, . or ..'],
    [{ file: '{{ part }}.csv', split: { rows: 1 }, done: 'READY' }, 'which `done` makes too'],
    [{ file: `${'x'.repeat(245)}.csv`, checksum: 'sha256' }, '`checksum` makes the name'],
  ])('has names that are distinct and that a place takes, or the configuration is refused: %j', (options, problem) => {
    const written = z.parse(map(exportConnector.options), { path: './out', file: '{{ stream }}.csv', ...options });
    expect(() => exportConnector.sampleNames(written, { job: 'nightly', stream: 'members' })).toThrow(problem);
  });

  it.each([
    ['../up.csv', 'has a part that is empty, . or ..'],
    ['/etc/up.csv', 'is an absolute path'],
    [`${'x'.repeat(300)}.csv`, 'has a part longer than 255 bytes'],
    ['a\u0007b.csv', 'has a control character'],
    ['a\u0085b.csv', 'has a control character'],
  ])('refuses the name %s before a byte is written', async (file, problem) => {
    await place.stream.commit([insert('a', 1)]);
    const { error } = await place.deliver({ file });
    expect([error?.code, error?.message]).toEqual(['template_invalid', expect.stringContaining(problem)]);
    expect(await place.files()).toEqual({});
  });
});
