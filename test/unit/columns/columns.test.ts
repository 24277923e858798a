import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { columnName, reservedColumns } from '../../../src/columns/column-name.js';
import {
  emptyShape,
  fileType,
  Kind,
  mergeShape,
  restoreShape,
  type Shape,
  sqlType,
  storeShape,
} from '../../../src/columns/column-shape.js';
import { ColumnSet } from '../../../src/columns/columns.js';

const shapes: fc.Arbitrary<Shape> = fc.letrec<{ shape: Shape }>((tie) => ({
  shape: fc.oneof(
    { depthSize: 'small' },
    fc.integer({ min: 0, max: 63 }).map((kinds) => ({ kinds })),
    tie('shape').map((element) => ({ kinds: Kind.list, element })),
    fc
      .uniqueArray(fc.tuple(fc.constantFrom('a', 'b', 'A', ''), tie('shape')), { selector: ([name]) => name })
      .map((fields) => ({ kinds: Kind.struct, fields: new Map(fields) })),
  ),
})).shape;

function merged(...all: Shape[]): Shape {
  const result = emptyShape();
  for (const shape of all) mergeShape(result, shape);
  return result;
}

function sorted({ kinds, element, fields }: Shape): unknown {
  const inside = [...(fields ?? [])].sort(([a], [b]) => (a < b ? -1 : 1)).map(([name, shape]) => [name, sorted(shape)]);
  return [kinds, element === undefined ? null : sorted(element), inside];
}

describe('shapes', () => {
  it('merge to the same whatever the order and however often', () => {
    fc.assert(
      fc.property(shapes, shapes, shapes, (a, b, c) => {
        expect(sorted(merged(merged(a, b), c))).toEqual(sorted(merged(c, merged(b, a), a)));
      }),
    );
  });

  it('report whether a merge changed them', () => {
    fc.assert(
      fc.property(shapes, shapes, (a, b) => {
        const both = merged(a, b);
        expect(mergeShape(both, a) || mergeShape(both, b)).toBe(false);
      }),
    );
  });

  it('survive the journal', () => {
    fc.assert(
      fc.property(shapes, (shape) => {
        expect(sorted(restoreShape(JSON.parse(JSON.stringify(storeShape(shape)))))).toEqual(sorted(shape));
      }),
    );
  });

  it.each([
    [0, 'VARCHAR'],
    [Kind.boolean, 'BOOLEAN'],
    [Kind.safeInteger | Kind.longInteger, 'BIGINT'],
    [Kind.safeInteger | Kind.hugeInteger, 'HUGEINT'],
    [Kind.safeInteger | Kind.double, 'DOUBLE'],
    [Kind.longInteger | Kind.double, 'JSON'],
    [Kind.boolean | Kind.safeInteger, 'JSON'],
    [Kind.string | Kind.safeInteger, 'JSON'],
    [Kind.textOnly, 'JSON'],
  ])('kinds %i make the type %s', (kinds, type) => {
    expect(sqlType({ kinds })).toBe(type);
  });

  it('make the whole column JSON where kinds mix inside a list or a struct', () => {
    const mixed = { kinds: Kind.string | Kind.boolean };
    expect(sqlType({ kinds: Kind.list, element: mixed })).toBe('JSON');
    expect(sqlType({ kinds: Kind.struct, fields: new Map([['a', mixed]]) })).toBe('JSON');
  });

  it('give a struct whose names differ only in case as JSON, for DuckDB would merge them', () => {
    const text = { kinds: Kind.string };
    expect(
      sqlType({
        kinds: Kind.struct,
        fields: new Map([
          ['a', text],
          ['A', text],
        ]),
      }),
    ).toBe('JSON');
  });

  it('write HUGEINT as a decimal into files, also inside lists and structs', () => {
    const huge = { kinds: Kind.hugeInteger };
    expect(fileType({ kinds: Kind.struct, fields: new Map([['HUGEINT', { kinds: Kind.list, element: huge }]]) })).toBe(
      'STRUCT("HUGEINT" DECIMAL(38,0)[])',
    );
  });
});

describe('column names', () => {
  it('are unique whatever the case, at most 63 bytes, never reserved, and the same for the same history', () => {
    const names = fc.array(
      fc.oneof(
        fc.string({ unit: 'grapheme', maxLength: 80 }),
        fc.constantFrom('', 'id', 'ID', '_op', 'file_row_number', 'File_Row_Number', 'email', 'Email', 'x'.repeat(200)),
      ),
    );
    fc.assert(
      fc.property(names, (attributes) => {
        const make = () => {
          const set = new ColumnSet([{ field: 'id', type: 'VARCHAR' }]);
          for (const attribute of attributes) set.columnFor('attribute', attribute);
          return set.list.map(({ name }) => name);
        };
        const made = make();
        expect(new Set(made.map((name) => name.toLowerCase())).size).toBe(made.length);
        for (const name of made) {
          expect(Buffer.byteLength(name)).toBeLessThanOrEqual(63);
          expect(reservedColumns).not.toContain(name.toLowerCase());
          expect(name).not.toBe('');
        }
        expect(make()).toEqual(made);
      }),
    );
  });

  it.each([
    ['email', 'email'],
    ['a b', 'a b'],
    ['__proto__', '__proto__'],
    ['ID', expect.stringMatching(/^ID_[0-9a-f]{6}$/)],
    ['', 'unnamed_e3b0c4'],
    ['File_Row_Number', expect.stringMatching(/^File_Row_Number_[0-9a-f]{6}$/)],
  ])('%j becomes %s beside an id', (field, name) => {
    expect(columnName(field, new Set(['id', ...reservedColumns]))).toEqual(name);
  });

  it('differ although an attribute is called as another one would be renamed', () => {
    for (const field of ['Email', '', 'x'.repeat(80)]) {
      const taken = new Set(['email']);
      for (let count = 0; count < 4; count += 1) taken.add(columnName(field, taken).toLowerCase());
      expect([field, taken.size]).toEqual([field, 5]);
    }
    const set = new ColumnSet([]);
    for (const field of ['email', columnName('Email', new Set(['email'])), 'Email']) set.columnFor('attribute', field);
    const restored = ColumnSet.restore(set.store());
    expect(new Set(restored.list.map(({ name }) => name.toLowerCase())).size).toBe(3);
  });

  it('stay the same when another set is merged in', () => {
    const stored = new ColumnSet([]);
    stored.columnFor('attribute', 'Email');
    const other = new ColumnSet([]);
    other.columnFor('attribute', 'email');
    other.columnFor('attribute', 'Email');
    stored.merge(other);
    expect(stored.get('attribute', 'Email')?.name).toBe('Email');
    expect(stored.get('attribute', 'email')?.name).toMatch(/^email_[0-9a-f]{6}$/);
  });
});
