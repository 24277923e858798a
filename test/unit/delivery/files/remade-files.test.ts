import { rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { CdsyncError } from '../../../../src/core/errors.js';
import type { FilePlace } from '../../../../src/sdk/file-destination.js';
import { ExportStream, failing, gone, insert, update } from './export-stream.js';

let place: ExportStream;
beforeEach(async () => {
  place = await ExportStream.open();
});
afterEach(() => place.close());

describe('planned files that are made again, after the process was killed when the place had them', () => {
  it('leave no file with a forgotten person, if the list is empty then', async () => {
    const options = { file: 'list_{{ sequence }}.csv', empty: 'skip' };
    await place.stream.commit([insert('anna', 1)]);
    place.connector = failing('after');
    await place.deliver(options);
    expect(await place.files()).toEqual({ 'list_1.csv': 'id,n\nanna,1\n' });
    await place.forget('anna');
    expect(await place.deliver(options)).toMatchObject({ status: 'ok', action: 'nothing' });
    expect(await place.files()).toEqual({});
    await place.stream.commit([insert('bert', 2)]);
    expect(await place.deliver(options)).toMatchObject({ status: 'ok', files: ['list_1.csv'] });
    expect(await place.files()).toEqual({ 'list_1.csv': 'id,n\nbert,2\n' });
  });

  it('leave no checksum and no mark of a file that they no longer have, but those of others', async () => {
    const options = { file: 'list_{{ sequence }}.csv', empty: 'skip', checksum: 'sha256', done: '{{ file }}.done' };
    await writeFile(join(place.place, 'list_0.csv.done'), '');
    await place.stream.commit([insert('anna', 1)]);
    place.connector = failing('after');
    await place.deliver(options);
    const all = ['list_0.csv.done', 'list_1.csv', 'list_1.csv.done', 'list_1.csv.sha256'];
    expect(Object.keys(await place.files())).toEqual(all);
    await place.forget('anna');
    expect((await place.deliver(options)).status).toBe('ok');
    expect(Object.keys(await place.files())).toEqual(['list_0.csv.done']);
  });

  it('keep a checksum of that name which others have written', async () => {
    const options = { file: 'list_{{ sequence }}.csv', empty: 'skip', checksum: 'sha256' };
    await writeFile(join(place.place, 'list_1.csv.sha256'), 'theirs');
    await place.stream.commit([insert('anna', 1)]);
    expect((await place.deliver(options)).error?.code).toBe('file_exists');
    await place.forget('anna');
    expect((await place.deliver(options)).status).toBe('ok');
    expect(await place.files()).toEqual({ 'list_1.csv.sha256': 'theirs' });
  });

  it('leave no file of an operation that has only a forgotten person', async () => {
    const options = { file: '{{ op }}_{{ sequence }}.csv', content: 'changes', empty: 'skip' };
    await place.stream.commit([insert('bert', 1)]);
    await place.deliver(options);
    await place.stream.commit([insert('anna', 1), update('bert', 2)]);
    place.connector = failing('after', 1);
    await place.deliver(options);
    expect(Object.keys(await place.files())).toEqual(['inserted_1.csv', 'inserted_2.csv']);
    await place.forget('anna');
    expect((await place.deliver(options)).status).toBe('ok');
    expect(JSON.stringify(await place.files())).not.toContain('anna,1');
  });

  it('have the deletes of rows that the receiver may have taken', async () => {
    const options = { file: 'list_{{ sequence }}.csv', content: 'changes' };
    await place.stream.commit([insert('a', 1), insert('b', 1), insert('c', 1)]);
    place.connector = failing('after');
    await place.deliver(options);
    await rm(join(place.place, 'list_1.csv'));
    await place.stream.commit([gone('b', 1)]);
    await place.forget('a');
    expect((await place.deliver(options)).status).toBe('ok');
    const [header, ...lines] = ((await place.files())['list_1.csv'] ?? '').trim().split('\n');
    expect([header, ...lines.sort()]).toEqual(['_op,id,n', 'delete,a,', 'delete,b,1', 'insert,c,1']);
  });

  it('leave no part of the list before', async () => {
    const options = { file: 'list_{{ sequence }}_{{ part }}.csv', split: { rows: 1 } };
    await place.stream.commit([insert('a', 1), insert('b', 1), insert('c', 1)]);
    place.connector = failing('after', 3);
    await place.deliver(options);
    expect(Object.keys(await place.files())).toEqual(['list_1_1.csv', 'list_1_2.csv', 'list_1_3.csv']);
    await place.stream.commit([gone('b', 1), gone('c', 1)]);
    place.columns = new Map([['n', { drop: true } as never]]);
    expect(await place.deliver(options)).toMatchObject({ status: 'ok', files: ['list_1_1.csv'] });
    expect(await place.files()).toEqual({ 'list_1_1.csv': 'id\na\n' });
  });
});

it('asks once in a delivery to remove a file that the place keeps, whether owed or too old', async () => {
  await place.stream.commit([insert('anna', 1), insert('bert', 2)]);
  await place.deliver();
  await place.forget('anna');
  await place.clock.sleep(2 * 86_400_000);
  const real = place.connector;
  const asked: string[] = [];
  place.connector = {
    ...real,
    open: async (context) => {
      const opened: FilePlace = await real.open(context);
      return {
        handOver: (task) => opened.handOver(task),
        remove: async (name) => {
          asked.push(name);
          throw new CdsyncError('the place keeps it', { code: 'destination_permission' });
        },
        close: () => opened.close(),
      };
    },
  };
  expect((await place.deliver({ keep: '1d' })).error?.code).toBe('removal_owed');
  expect(asked).toEqual(['members_0001.csv']);
});
