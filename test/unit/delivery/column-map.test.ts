import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type MapTask, type NextMap, nextMap, type WantedColumn } from '../../../src/delivery/table/column-map.js';
import type { TableRecord } from '../../../src/delivery/table/record.js';
import { TargetNames } from '../../../src/delivery/target-names.js';
import {
  type ColumnType,
  holdsEverywhere,
  parseColumnType,
  widensDecimal,
  widensInteger,
} from '../../../src/sdk/column-type.js';

type Before = MapTask['before'];

function wanted(name: string, type: string, rest: Partial<WantedColumn> = {}): WantedColumn {
  const path = `attributes.${name}`;
  const plain = { isSafe: true, form: null, rule: '', isDropped: false, isTracked: true, isKey: false };
  return { path, name, as: name, type, ...plain, ...rest };
}

const id = wanted('id', 'VARCHAR', { path: 'id', isKey: true });

function next(before: Before, columns: readonly WantedColumn[], rest: Partial<MapTask> = {}): NextMap {
  const taken = [
    ...[...(before?.map.values() ?? [])].flatMap(({ target, variant }) =>
      [target, variant].filter((name) => name !== null),
    ),
    ...(before?.retired.keys() ?? []),
  ];
  const names = new TargetNames({}, taken);
  return nextMap({
    before,
    columns: [id, ...columns],
    types: { holds: holdsEverywhere, widens: (from, to) => from.kind === 'int64' && to.kind === 'double' },
    onTypeChange: 'variant_column',
    give: (name) => names.give(name),
    claims: () => false,
    stream: 'members',
    ...rest,
  });
}

function recorded({ map, retired, retiredForms }: NextMap, generation = 1): NonNullable<Before> {
  return { map, retired, retired_forms: retiredForms, generation, pending: null };
}

const target = ({ map }: NextMap, name: string) => map.get(`attributes.${name}`);

describe('the next column map', () => {
  const first = next(undefined, [wanted('score', 'BIGINT')]);

  it('begins with every column under its own name and type', () => {
    expect(first.add).toEqual([
      { name: 'id', kind: 'VARCHAR' },
      { name: 'score', kind: 'BIGINT' },
    ]);
    expect([first.why, first.clear]).toEqual([[], []]);
  });

  it('widens a column, unless the destination has refused that', () => {
    const wider = [wanted('score', 'DOUBLE')];
    expect(next(recorded(first), wider).widen).toEqual([{ name: 'score', kind: 'DOUBLE' }]);
    const fixed = next(recorded(first), wider, { fixed: new Set(['score']) });
    expect([fixed.widen, fixed.add]).toEqual([[], [{ name: 'score__text', kind: 'VARCHAR' }]]);
  });

  it('stays as it was if nothing changes', () => {
    const same = next(recorded(first), [wanted('score', 'BIGINT')]);
    expect([same.add, same.widen, same.clear, same.why]).toEqual([[], [], [], []]);
    expect([...same.map]).toEqual([...first.map]);
  });

  it('needs no reload for a column that the stream did not have', () => {
    const more = next(recorded(first), [wanted('score', 'BIGINT'), wanted('note', 'VARCHAR')]);
    expect([more.add, more.why]).toEqual([[{ name: 'note', kind: 'VARCHAR' }], []]);
  });

  it('widens integers that were never beyond 2^53, and gives others a variant', () => {
    const safe = next(recorded(first), [wanted('score', 'DOUBLE')]);
    expect([safe.widen, target(safe, 'score')?.variant]).toEqual([[{ name: 'score', kind: 'DOUBLE' }], null]);
    const unsafe = next(recorded(next(undefined, [wanted('score', 'BIGINT', { isSafe: false })])), [
      wanted('score', 'DOUBLE'),
    ]);
    expect([unsafe.widen, target(unsafe, 'score')?.variant]).toEqual([[], 'score__text']);
    expect(unsafe.why).toEqual(['type of "score" (BIGINT to DOUBLE)']);
  });

  it('keeps integers in a column of doubles only if doubles hold all of them', () => {
    const doubles = recorded(next(undefined, [wanted('score', 'DOUBLE')]));
    const variants = [true, false].map(
      (isSafe) => target(next(doubles, [wanted('score', 'BIGINT', { isSafe })]), 'score')?.variant,
    );
    expect(variants).toEqual([null, 'score__text']);
  });

  it('keeps a declared type that holds the new one, and never adds a second variant', () => {
    const texts = next(recorded(first), [wanted('score', 'VARCHAR')]);
    expect(texts.add).toEqual([{ name: 'score__text', kind: 'VARCHAR' }]);
    const back = next(recorded(texts, 2), [wanted('score', 'BIGINT')]);
    expect([back.add, target(back, 'score')?.variant]).toEqual([[], 'score__text']);
    expect(back.why).toEqual(['type of "score" (VARCHAR to BIGINT)']);
    const lists = next(recorded(back, 3), [wanted('score', 'BIGINT[]')]);
    expect([lists.add, target(lists, 'score')?.variant]).toEqual([[], 'score__text']);
  });

  it('is JSON of any kind once lists or objects of another type, or texts beside them, are in one JSON column', () => {
    const types = { holds: () => true, widens: () => false };
    const lists = next(undefined, [wanted('tags', 'BIGINT[]')], { types });
    const same = next(recorded(lists), [wanted('tags', 'BIGINT[]')], { types });
    const mixed = next(recorded(same), [wanted('tags', 'JSON')], { types });
    expect([same, mixed].map((each) => target(each, 'tags')?.kind)).toEqual(['BIGINT[]', 'JSON']);
    expect(target(mixed, 'tags')?.variant).toBeNull();
  });

  it('refuses another type if asked to, and another type of the key always', () => {
    const refused = () => next(recorded(first), [wanted('score', 'VARCHAR')], { onTypeChange: 'fail' });
    expect(refused).toThrowError(expect.objectContaining({ code: 'type_changed' }));
    const key = next(undefined, [], { columns: [{ ...id, type: 'BIGINT' }] });
    expect(() => next(recorded(key), [])).toThrowError(expect.objectContaining({ code: 'key_changed' }));
  });

  it('clears a column whose rule changes, and its variant', () => {
    const texts = next(recorded(first), [wanted('score', 'VARCHAR')]);
    const hashed = next(recorded(texts, 2), [wanted('score', 'VARCHAR', { rule: 'hash' })]);
    expect([hashed.clear, target(hashed, 'score')?.since]).toEqual([['score', 'score__text'], 3]);
    expect(hashed.why).toEqual(['rule of "score"']);
  });

  it('retires and clears the columns of a rule that drops or renames, and of one that has gone', () => {
    for (const change of [
      [wanted('score', 'BIGINT', { isDropped: true, rule: 'drop' })],
      [wanted('score', 'BIGINT', { as: 'points' })],
      [],
    ]) {
      const changed = next(recorded(first), change);
      expect([[...changed.retired], changed.clear]).toEqual([[['score', 'BIGINT']], ['score']]);
      expect(changed.why).toHaveLength(1);
      // The retired column serves again.
      const again = next(recorded(changed, 2), [wanted('score', 'BIGINT')]);
      expect([again.add, target(again, 'score')?.target, [...again.retired.keys()].includes('score')]).toEqual([
        [],
        'score',
        false,
      ]);
    }
  });

  it('gives no name that another column has', () => {
    const both = next(undefined, [wanted('amount', 'BIGINT'), wanted('amount__text', 'VARCHAR')]);
    const changed = next(recorded(both), [wanted('amount', 'VARCHAR'), wanted('amount__text', 'VARCHAR')]);
    const variant = target(changed, 'amount')?.variant;
    expect(variant).toMatch(/^amount__text_[0-9a-f]{6}$/);
    expect(target(changed, 'amount__text')?.target).toBe('amount__text');
  });

  it('widens integers and decimals whatever their size, and integers to doubles only if all are safe', () => {
    const types = {
      holds: holdsEverywhere,
      widens: (from: ColumnType, to: ColumnType) => widensInteger(from, to) || widensDecimal(from, to),
    };
    const widened = (from: string, to: string, isSafe: boolean) => {
      const before = recorded(next(undefined, [wanted('n', from, { isSafe })], { types }));
      return next(before, [wanted('n', to, { isSafe })], { types }).widen.map(({ kind }) => kind);
    };
    for (const isSafe of [true, false]) {
      expect(widened('BIGINT', 'HUGEINT', isSafe)).toEqual(['HUGEINT']);
      expect(widened('DECIMAL(18,2)', 'DECIMAL(38,2)', isSafe)).toEqual(['DECIMAL(38,2)']);
      expect(widened('BIGINT', 'DOUBLE', isSafe)).toEqual(isSafe ? ['DOUBLE'] : []);
    }
    const nested = { holds: holdsEverywhere, widens: () => true };
    const lists = recorded(
      next(undefined, [wanted('n', 'STRUCT("a" BIGINT[])', { isSafe: false })], { types: nested }),
    );
    const made = ['STRUCT("a" DOUBLE[])', 'STRUCT("a" HUGEINT[])'].map(
      (type) => next(lists, [wanted('n', type, { isSafe: false })], { types: nested }).widen.length,
    );
    expect(made).toEqual([0, 1]);
  });

  it('keeps the format of the texts that are values of the declared type', () => {
    const day = next(undefined, [wanted('day', 'DATE', { form: 'DATE %d.%m.%Y' })]);
    const odd = next(recorded(day), [wanted('day', 'VARCHAR')]);
    const back = next(recorded(odd, 2), [wanted('day', 'DATE', { form: 'DATE %Y-%m-%d' })]);
    const number = next(recorded(back, 3), [wanted('day', 'BIGINT', { form: 'BIGINT' })]);
    const forms = [day, odd, back, number].map((each) => target(each, 'day')?.form);
    expect(forms).toEqual(['DATE %d.%m.%Y', 'DATE %d.%m.%Y', 'DATE %Y-%m-%d', 'DATE %Y-%m-%d']);
  });

  it('gives a retired column that serves again the format of its texts', () => {
    const form = 'DATE %d.%m.%Y';
    const first = next(undefined, [wanted('born', 'DATE', { form })]);
    const gone = next(recorded(first), []);
    expect([...gone.retiredForms]).toEqual([['born', form]]);
    const back = next(recorded(gone, 2), [wanted('born', 'VARCHAR')]);
    expect(target(back, 'born')).toMatchObject({ target: 'born', kind: 'DATE', variant: 'born__text', form });
    expect([...back.retiredForms]).toEqual([]);
    // As values of the type too; a record of earlier versions knows no format.
    expect(target(next(recorded(gone, 2), [wanted('born', 'DATE')]), 'born')?.form).toBe(form);
    const { retired_forms: _, ...earlier } = recorded(gone, 2);
    expect(target(next(earlier, [wanted('born', 'VARCHAR')]), 'born')?.form).toBe(null);
    // A key gets another column.
    expect(target(next(recorded(gone, 2), [wanted('born', 'VARCHAR', { isKey: true })]), 'born')?.form).toBe(null);
  });

  it('uses a retired column of the wanted name again, whatever its type, and another name for a key', () => {
    const renamed = next(recorded(first), [wanted('score', 'BIGINT', { as: 'points' })]);
    const texts = next(recorded(renamed, 2), [wanted('score', 'VARCHAR', { as: 'points' })]);
    const back = next(recorded(texts, 3), [wanted('score', 'VARCHAR')]);
    expect(target(back, 'score')).toMatchObject({ target: 'score', kind: 'BIGINT', variant: 'score__text' });
    expect([...back.retired.keys()]).toEqual(['points', 'points__text']);
    const wider = next(recorded(renamed, 2), [wanted('score', 'DOUBLE')]);
    expect([wider.widen, target(wider, 'score')?.kind]).toEqual([[{ name: 'score', kind: 'DOUBLE' }], 'DOUBLE']);
    const key = next(recorded(renamed, 2), [
      wanted('k', 'VARCHAR', { as: 'score', isKey: true }),
      wanted('score', 'BIGINT', { as: 'points' }),
    ]);
    expect(target(key, 'k')?.target).toMatch(/^score_[0-9a-f]{6}$/);
  });

  it('takes columns for its own that a delivery added before it was cut short', () => {
    const pending = {
      load: '1:x',
      fresh: false,
      since: '',
      added: [['note', 'VARCHAR']],
      widened: [],
    } as unknown as TableRecord['pending'];
    const more = next({ ...recorded(first), pending }, [wanted('score', 'BIGINT'), wanted('note', 'VARCHAR')]);
    expect([more.add, target(more, 'note')?.target]).toEqual([[], 'note']);
  });
});

describe('an increment is not enough', () => {
  const first = next(undefined, [wanted('score', 'BIGINT'), wanted('none', 'BIGINT', { isDropped: true })]);

  it.each([
    ['a column is one too many', { isDropped: true }, '"score" is one column too many', ['score']],
    ['its tracking changes', { isTracked: false }, '`track` of "score"', []],
    ['its name changes', { as: 'points' }, 'name of "score"', ['score']],
    ['its rule changes', { rule: 'other' }, 'rule of "score"', ['score']],
  ])('if %s', (_, change, why, clear) => {
    const after = next(recorded(first), [
      wanted('score', 'BIGINT', change),
      wanted('none', 'BIGINT', { isDropped: true }),
    ]);
    expect([after.why, after.clear]).toEqual([[why], clear]);
  });

  it('but for a dropped column it is, whether the column leaves the stream or stays', () => {
    for (const columns of [[], [wanted('none', 'VARCHAR', { isDropped: true, isTracked: false })]])
      expect(next(recorded(first), [wanted('score', 'BIGINT'), ...columns]).why).toEqual([]);
  });
});

it('a column that once had integers beyond 2^53 never becomes one of doubles', () => {
  const long = next(undefined, [wanted('n', 'BIGINT', { isSafe: false })]);
  const short = next(recorded(long), [wanted('n', 'BIGINT')]);
  expect(next(recorded(short), [wanted('n', 'DOUBLE')])).toMatchObject({ widen: [], add: [{ name: 'n__text' }] });
});

it('members that become doubles are safe only if no integer was beyond 2^53, whichever member it is', () => {
  const [from, to] = ['STRUCT("a" BIGINT, "b" VARCHAR)', 'STRUCT("a" DOUBLE, "b" VARCHAR)'];
  const types = { holds: (one: ColumnType, other: ColumnType) => one === other, widens: () => true };
  const placed = (isSafe: boolean) =>
    next(recorded(next(undefined, [wanted('o', from, { isSafe })])), [wanted('o', to)], { types }).widen;
  expect([placed(true).length, placed(false).length]).toEqual([1, 0]);
});

it('a delivery that was cut short has widened its columns already', () => {
  const first = recorded(next(undefined, [wanted('n', 'BIGINT')]));
  const pending = { load: '1:cut', fresh: false, added: [], widened: [['n', 'DOUBLE']], since: '' };
  const after = next({ ...first, pending } as unknown as Before, [wanted('n', 'DOUBLE')]);
  expect([after.widen, target(after, 'n')?.kind]).toEqual([[], 'DOUBLE']);
});

it('a table that is taken over gives its columns to those of their name and type, and to a key of any type', () => {
  const asked: unknown[] = [];
  const claims: MapTask['claims'] = (name, { kind }, isKey) =>
    asked.push([name, kind, isKey]) > 0 && name !== 'n__text';
  const taken = next(undefined, [wanted('n', 'BIGINT')], { claims });
  expect([taken.add, asked]).toEqual([
    [],
    [
      ['id', 'text', true],
      ['n', 'int64', false],
    ],
  ]);
  const other = next(recorded(taken), [wanted('n', 'VARCHAR')], {
    claims,
    types: { holds: (one, to) => one === to, widens: () => false },
  });
  expect([other.add, asked.at(-1)]).toEqual([[{ name: 'n__text', kind: 'VARCHAR' }], ['n__text', 'text', false]]);
});

describe('a column whose type changes', () => {
  const names = ['BOOLEAN', 'BIGINT', 'HUGEINT', 'DOUBLE', 'DECIMAL(10,2)', 'DECIMAL(30,0)', 'VARCHAR', 'JSON', 'DATE'];
  const all = [...names, 'TIMESTAMP WITH TIME ZONE', 'BIGINT[]', 'DOUBLE[]', 'STRUCT("a" BIGINT)'];
  /** Of each type, those whose every value it holds; with a star, only integers that doubles hold. */
  const held: Readonly<Record<string, readonly string[]>> = {
    HUGEINT: ['BIGINT'],
    DOUBLE: ['BIGINT*'],
    'DECIMAL(30,0)': ['BIGINT'],
    VARCHAR: [
      'BOOLEAN',
      'BIGINT',
      'HUGEINT',
      'DOUBLE',
      'DECIMAL(10,2)',
      'DECIMAL(30,0)',
      'DATE',
      'TIMESTAMP WITH TIME ZONE',
    ],
    JSON: ['BOOLEAN', 'BIGINT', 'HUGEINT', 'BIGINT[]', 'DOUBLE[]', 'STRUCT("a" BIGINT)'],
  };
  const pairs = all.flatMap((from) => all.flatMap((to) => [true, false].map((isSafe) => [from, to, isSafe] as const)));

  it.each(pairs)('from %s to %s, safe: %s', (from, to, isSafe) => {
    const types = { holds: holdsEverywhere, widens: () => false };
    const before = next(undefined, [wanted('v', from, { isSafe })], { types });
    const made = next(recorded(before), [wanted('v', to, { isSafe })], { types });
    const isHeld = from === to || held[from]?.includes(to) || (isSafe && held[from]?.includes(`${to}*`)) || false;
    expect(target(made, 'v')).toEqual({
      ...{
        target: 'v',
        kind: from,
        as: 'v',
        rule: '',
        since: 1,
        stream_type: to,
        tracked: true,
        safe: isSafe,
        form: null,
      },
      variant: isHeld ? null : 'v__text',
    });
    expect(made.add).toEqual(isHeld ? [] : [{ name: 'v__text', kind: 'VARCHAR' }]);
    expect([made.widen, made.clear, [...made.retired]]).toEqual([[], [], []]);
    expect(made.why).toEqual(from === to ? [] : [`type of "v" (${from} to ${to})`]);
  });
});

describe('over any series of changes', () => {
  const types = ['BIGINT', 'DOUBLE', 'VARCHAR', 'JSON', 'BOOLEAN', 'BIGINT[]', 'DECIMAL(10,2)'];
  const column = fc.record({
    type: fc.constantFrom(...types),
    rule: fc.constantFrom('', 'hash'),
    as: fc.constantFrom('a', 'b', 'c'),
    isDropped: fc.boolean(),
    isSafe: fc.boolean(),
  });
  const day = fc.dictionary(fc.constantFrom('x', 'y', 'z'), column);
  const unique = (columns: readonly WantedColumn[]) => new Set(columns.map(({ as }) => as)).size === columns.length;

  it('no column is in two places, none is forgotten, and whatever unchanged rows lack is a reason to reload', () => {
    fc.assert(
      fc.property(fc.array(day, { minLength: 1, maxLength: 8 }), (days) => {
        let before: Before;
        const ever = new Set<string>();
        for (const [index, columns] of days.entries()) {
          const all = Object.entries(columns).map(([name, rest]) => wanted(name, rest.type, rest));
          if (!unique(all)) continue;
          const made = next(before, all);
          const places = [...made.map.values()].flatMap(({ target: one, variant }) =>
            [one, variant].filter((name) => name !== null),
          );
          expect(new Set(places).size).toBe(places.length);
          for (const name of made.retired.keys()) expect(places).not.toContain(name);
          for (const { name } of made.add) ever.add(name);
          // Every column that was ever added is in use or retired: a value in it is never forgotten.
          expect(new Set([...places, ...made.retired.keys()])).toEqual(ever);
          for (const { path, type, isSafe } of all) {
            const [entry, was] = [made.map.get(path), before?.map.get(path)];
            if (entry?.target == null) continue;
            const holds = holdsEverywhere(parseColumnType(entry.kind), parseColumnType(type));
            const isDouble = entry.kind === 'DOUBLE' && type === 'BIGINT' && isSafe;
            expect(holds || isDouble || entry.variant !== null).toBe(true);
            const differs =
              was !== undefined &&
              (was.target !== entry.target ||
                was.variant !== entry.variant ||
                was.rule !== entry.rule ||
                was.stream_type !== type);
            if (differs) expect(made.why.length).toBeGreaterThan(0);
          }
          before = recorded(made, index + 1);
        }
      }),
    );
  });
});
