import { describe, expect, it } from 'vitest';
import { ColumnSet, type StoredColumn } from '../../../src/columns/columns.js';
import { unknownRules } from '../../../src/delivery/check-destination.js';

const columnsOf = (...fields: string[]): StoredColumn[] =>
  new ColumnSet(fields.map((field) => ({ field, type: 'VARCHAR' as const }))).store();

const stream = (columns: StoredColumn[], rows = 1, earlier?: StoredColumn[]) => ({
  columns,
  rows,
  changes: [
    { run_id: 'r', sequence: 1, synced_at: '', rows: 1, files: [], sha256: [], ...(earlier && { columns: earlier }) },
  ],
});

function unknown(streams: Parameters<typeof unknownRules>[0], ...names: string[]) {
  return unknownRules(streams, new Map(names.map((name) => [name, { drop: true }])));
}

const members = stream(columnsOf('id', 'email', 'phone'));

describe('a rule of a destination', () => {
  it('that names a column which no stream has is unknown, with the nearest name', () => {
    expect(unknown([members], 'Email', 'emial', 'x')).toEqual([
      { column: 'Email', nearest: 'email' },
      { column: 'emial', nearest: 'email' },
      { column: 'x', nearest: 'id' },
    ]);
  });

  it('matches the column of any stream of the destination, and `*` matches all', () => {
    const audit = stream(columnsOf('id', 'actor'));
    expect(unknown([members, audit], 'email', 'actor', '*')).toEqual([]);
  });

  it('by the name that a column had before a rule of the stream renamed it is unknown, with the present name', () => {
    const [id, zip] = columnsOf('id', 'zip') as [StoredColumn, StoredColumn];
    const renamed = [id, { ...zip, name: 'postcode' }];
    expect(unknown([stream(renamed)], 'zip')).toEqual([{ column: 'zip', nearest: 'postcode' }]);
    expect(unknown([stream(renamed, 1, [id, zip])], 'zip')).toEqual([{ column: 'zip', nearest: 'postcode' }]);
    expect(unknown([stream(renamed)], 'postcode')).toEqual([]);
  });

  it('for a column that the stream had is known', () => {
    expect(unknown([stream(columnsOf('id'), 1, columnsOf('id', 'email'))], 'email')).toEqual([]);
  });

  it('may name a column that arrives later while a stream has no rows, but not an existing one in another case', () => {
    for (const waiting of [undefined, stream(columnsOf('id'), 0)]) {
      expect(unknown([waiting, members], 'notes')).toEqual([]);
      expect(unknown([waiting, members], 'EMAIL')).toEqual([{ column: 'EMAIL', nearest: 'email' }]);
    }
  });
});
