import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
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
