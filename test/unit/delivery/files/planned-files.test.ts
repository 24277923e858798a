import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import exportConnector from '../../../../connectors/export/index.js';
import { readRejects, rejectsPath } from '../../../../src/delivery/delivery-state.js';
import type { FileConnector } from '../../../../src/sdk/destination.js';
import { ExportStream, failing, gone, insert, update } from './export-stream.js';

let place: ExportStream;
beforeEach(async () => {
  place = await ExportStream.open();
});
afterEach(() => place.close());

const real = exportConnector as unknown as FileConnector;
const unreachable: FileConnector = {
  ...real,
  open: async () => {
    throw new Error('the place is away');
  },
};
const byOp = { content: 'changes', file: '{{ op }}_{{ sequence }}.csv' };
const planned = async (options = {}) => (await place.planned(options)).plan?.files?.map(({ name }) => name);

describe('a dry run', () => {
  it('names files that wait once, and the ones that come after them', async () => {
    await place.stream.commit([insert('a', 1)]);
    place.connector = unreachable;
    expect((await place.deliver()).status).toBe('failed');
    expect(await planned()).toEqual(['members_0001.csv']);
    await place.stream.commit([insert('b', 1)]);
    const names = await planned();
    expect(names).toEqual(['members_0001.csv', 'members_0002.csv']);
    place.connector = real;
    expect((await place.deliver()).files).toEqual(names);
  });

  it('names files once that wait and are made again of the newest rows', async () => {
    await place.stream.commit([insert('a', 1), insert('b', 1)]);
    place.connector = unreachable;
    expect((await place.deliver()).status).toBe('failed');
    await place.stream.commit([insert('c', 1)]);
    await place.forget('a');
    const names = await planned();
    place.connector = real;
    expect((await place.deliver()).files).toEqual(names);
    expect(names).toEqual(['members_0001.csv']);
  });

  it.each([{ content: 'changes', when: 'always', file: '{{ sequence }}.csv' }, byOp])(
    'names the files without rows that a delivery of changes writes: %j',
    async (options) => {
      for (const id of ['a', 'b']) {
        await place.stream.commit([insert(id, 1)]);
        const names = await planned(options);
        expect((await place.deliver(options)).files).toEqual(names);
      }
      const names = await planned(options);
      expect((await place.deliver(options)).files).toEqual(names);
      expect(names).toHaveLength('when' in options ? 1 : 0);
    },
  );
});

describe('a delivery after one that ended in the middle', () => {
  it('hands no file over twice', async () => {
    const options = { file: '{{ sequence }}_{{ part }}.csv', split: { rows: 1 } };
    await place.stream.commit([insert('a', 1), insert('b', 1), insert('c', 1)]);
    place.connector = failing('before', 2);
    expect((await place.deliver(options)).status).toBe('failed');
    expect(Object.keys(await place.files())).toEqual(['1_1.csv']);
    const names: string[] = [];
    place.connector = {
      ...real,
      open: async (context) => {
        const opened = await real.open(context);
        return {
          handOver: (task) => {
            names.push(task.file.name);
            return opened.handOver(task);
          },
          remove: (name) => opened.remove(name),
          close: () => opened.close(),
        };
      },
    };
    expect((await place.deliver(options)).status).toBe('ok');
    expect(names).toEqual(['1_2.csv', '1_3.csv']);
  });

  it('takes no smaller file of others for its own that is torn', async () => {
    const options = { file: 'list_{{ sequence }}.csv' };
    await place.stream.commit([insert('a', 1)]);
    place.connector = failing('before');
    await place.deliver(options);
    await writeFile(join(place.place, 'list_1.csv'), 'x');
    place.connector = real;
    expect((await place.deliver(options)).error?.code).toBe('file_exists');
    expect(await place.files()).toEqual({ 'list_1.csv': 'x' });
  });
});

describe('the names of one delivery', () => {
  it.each([
    { file: '{{ part | at_most: 2 }}_{{ sequence }}.csv', split: { rows: 1 } },
    { ...byOp, file: "{{ op | replace: 'updated', 'inserted' }}_{{ sequence }}.csv" },
    { ...byOp, file: "{% if op == 'deleted' %}gone{% else %}here{% endif %}_{{ sequence }}.csv" },
  ])('are distinct, or nothing is handed over: %j', async (options) => {
    await place.stream.commit([insert('a', 1), insert('b', 1), insert('c', 1)]);
    await place.deliver({ content: 'split' in options ? 'all' : 'changes', file: 'first.csv' });
    await place.stream.commit([update('a', 2), gone('b', 1), insert('d', 1), insert('e', 1)]);
    expect((await place.deliver(options)).error?.code).toBe('template_invalid');
    expect(Object.keys(await place.files())).toEqual(['first.csv']);
  });

  it('may have the operation in a tag', async () => {
    const file = "{% case op %}{% when 'deleted' %}gone{% when 'updated' %}new{% else %}first{% endcase %}.csv";
    await place.stream.commit([insert('a', 1), insert('b', 1)]);
    await place.deliver({ ...byOp, file, empty: 'skip' });
    await place.stream.commit([update('a', 2), gone('b', 1)]);
    await place.deliver({ ...byOp, file, empty: 'skip' });
    expect(Object.keys(await place.files())).toEqual(['first.csv', 'gone.csv', 'new.csv']);
  });

  it.each([byOp, { file: '{{ part }}_{{ sequence }}.csv', split: { rows: 1 } }])(
    'are not given to all rows, if each has a part of them: %j',
    async (options) => {
      await place.stream.commit([insert('a', 1), insert('b', 1)]);
      const { files = [] } = await place.deliver(options);
      const before = await place.files();
      const { error } = await place.deliver(options, { full: true, file: files[1] });
      expect([error?.code, error?.message]).toEqual(['file_unknown', expect.stringContaining('one of several files')]);
      expect(await place.files()).toEqual(before);
    },
  );
});

it('a file that waited longer than `keep` is not removed as soon as it was handed over', async () => {
  await place.stream.commit([insert('a', 1)]);
  place.connector = unreachable;
  await place.deliver({ keep: '30d' });
  place.connector = real;
  await place.clock.sleep(40 * 86_400_000);
  await place.deliver({ keep: '30d' });
  expect(Object.keys(await place.files())).toEqual(['members_0001.csv']);
  await place.clock.sleep(31 * 86_400_000);
  await place.deliver({ keep: '30d' });
  expect(await place.files()).toEqual({});
});

describe('what files of changes cannot hold', () => {
  const options = { content: 'changes', csv: { encoding: 'latin1', quote: 'none' } };
  const listed = async () =>
    (await readRejects(rejectsPath(place.stream.layout, 'partner', 'members'))).map(({ key }) => key);
  beforeEach(async () => {
    await place.stream.commit([insert('Ωa', 1), insert('a,b', 1), insert('c', 1)]);
    expect((await place.deliver(options)).refused).toBe(2);
  });

  it('is no longer listed when the row is gone', async () => {
    await place.stream.commit([gone('Ωa', 1), insert('d', 1)]);
    expect((await place.deliver(options)).refused).toBe(1);
    await place.stream.commit([gone('a,b', 1)]);
    expect(await place.deliver(options)).toMatchObject({ action: 'nothing', refused: 0 });
    expect(await listed()).toEqual([]);
  });

  it('is listed if it is the delete of a row that a file had', async () => {
    const inUtf8 = { ...options, csv: { ...options.csv, encoding: 'utf-8' } };
    await place.stream.commit([insert('Ωb', 1)]);
    expect((await place.deliver(inUtf8)).refused).toBe(2);
    await place.stream.commit([gone('Ωb', 1), gone('c', 1)]);
    expect((await place.deliver(options)).refused).toBe(3);
    expect(await listed()).toEqual(['Ωa', 'a,b', 'Ωb']);
    await place.stream.commit([insert('d', 1)]);
    expect((await place.deliver(options)).refused).toBe(3);
  });

  it('is not listed for the delete of a row that was refused twice', async () => {
    await place.stream.commit([update('Ωa', 2)]);
    expect((await place.deliver(options)).refused).toBe(2);
    await place.stream.commit([gone('Ωa', 2)]);
    expect((await place.deliver(options)).refused).toBe(1);
    expect(await listed()).toEqual(['a,b']);
  });

  it('is listed although no other row has changed', async () => {
    await place.stream.commit([insert('Ωz', 1)]);
    expect(await place.deliver(options)).toMatchObject({ action: 'nothing', refused: 3 });
    expect(await listed()).toContain('Ωz');
  });
});
