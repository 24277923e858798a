import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ColumnRules } from '../../../src/columns/column-rules.js';
import { Kind } from '../../../src/columns/column-shape.js';
import { ColumnSet, type StoredColumn } from '../../../src/columns/columns.js';
import { narrows } from '../../../src/columns/widen.js';
import { almostValues } from '../../fixtures/almost-values.js';

const inferring = new ColumnRules(new Map(), undefined, () => true);
const keeping = new ColumnRules(new Map());

function seen(texts: readonly string[]): ColumnSet {
  const set = inferring.begin([], undefined);
  for (const text of texts) {
    const column = set.columnFor('attribute', 'a');
    column.shape.kinds |= Kind.string;
    set.addText(column, text);
    set.reshaped(column);
  }
  return set;
}

function stored(more: Partial<StoredColumn> = {}): StoredColumn {
  return { place: 'attribute', field: 'a', name: 'a', shape: { k: Kind.string }, ...more };
}

const typeOf = (set: ColumnSet) => set.get('attribute', 'a')?.type;

describe('a column whose text format is inferred', () => {
  it('does not depend on the order of texts, on parts, or on a restart', () => {
    fc.assert(
      fc.property(fc.array(almostValues, { minLength: 1 }), fc.array(almostValues, { minLength: 1 }), (one, other) => {
        const whole = seen([...one, ...other]);
        const merged = ColumnSet.restore(seen(other).store());
        merged.merge(ColumnSet.restore(seen(one).store()));
        expect(merged.store()).toEqual(whole.store());
        expect(typeOf(merged)).toBe(typeOf(whole));
        const resumed = inferring.begin([], undefined);
        resumed.merge(inferring.begin([], seen(one).store()));
        const column = resumed.columnFor('attribute', 'a');
        for (const text of other) resumed.addText(column, text);
        expect(resumed.store()).toEqual(whole.store());
      }),
      { numRuns: 500 },
    );
  });

  it('continues with the format of the last snapshot, and never leaves text', () => {
    const known = inferring.begin([], [stored({ text: 'BIGINT' })]);
    expect(typeOf(known)).toBe('BIGINT');
    const plain = inferring.begin([], [stored({ text: 'VARCHAR' })]);
    plain.addText(plain.list[0] as never, '5');
    expect(typeOf(plain)).toBe('VARCHAR');
    // Texts that were never checked.
    expect(typeOf(inferring.begin([], [stored()]))).toBe('VARCHAR');
  });

  it('is text again with strings: keep', () => {
    const kept = keeping.begin([], [stored({ text: 'BIGINT' })]);
    expect([typeOf(kept), kept.store()]).toEqual(['VARCHAR', [stored()]]);
  });

  it('stays text if the last snapshot has hashes or masks of it', () => {
    const before = stored({ rule: { mask: 'last4' } });
    const set = inferring.begin([], [before]);
    const [column] = set.list;
    if (column === undefined) throw new Error('the column is missing');
    column.shape.kinds |= Kind.string;
    set.addText(column, '5');
    set.reshaped(column);
    expect(column.type).toBe('VARCHAR');
  });

  it('narrows if earlier texts may not have its form', () => {
    const to = [stored({ text: 'HUGEINT' })];
    expect(narrows([stored()], to)).toBe(true);
    expect(narrows([stored({ text: 'DATE %Y-%m-%d' })], to)).toBe(true);
    expect(narrows([stored({ text: 'BIGINT' })], to)).toBe(false);
    expect(narrows([stored({ shape: { k: 0 } })], to)).toBe(false);
    expect(narrows([], to)).toBe(false);
    expect(narrows(to, [stored()])).toBe(false);
  });
});
