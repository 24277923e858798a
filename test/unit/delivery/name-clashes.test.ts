import { createHash } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import duckdb from '../../../connectors/duckdb/index.js';
import mysql from '../../../connectors/mysql/index.js';
import postgres from '../../../connectors/postgres/index.js';
import trino from '../../../connectors/trino/index.js';
import { type MapTask, nextMap, type WantedColumn } from '../../../src/delivery/table/column-map.js';
import { assertDistinctNames } from '../../../src/delivery/table/name-clashes.js';
import { TargetNames } from '../../../src/delivery/target-names.js';
import { holdsEverywhere } from '../../../src/sdk/column-type.js';

function wanted(name: string, rest: Partial<WantedColumn> = {}): WantedColumn {
  const plain = { isSafe: true, form: null, rule: '', isDropped: false, isTracked: true, isKey: false };
  return { path: `attributes.${name}`, name, as: name, type: 'VARCHAR', ...plain, ...rest };
}

const id = wanted('id', { path: 'id', isKey: true });
const connectors = { duckdb, mysql, postgres, trino };
type Connector = keyof typeof connectors;
const rulesOf = (connector: Connector) => connectors[connector].capabilities.identifiers ?? {};

function refusal(columns: readonly WantedColumn[], connector: Connector, before?: MapTask['before']) {
  try {
    const check = { stream: 'members', rules: rulesOf(connector), map: before?.map };
    assertDistinctNames([id, ...columns], check);
    return undefined;
  } catch (error) {
    return error as { code: string; message: string };
  }
}

function mapped(columns: readonly WantedColumn[], connector: Connector, before?: MapTask['before']) {
  const recorded = [...(before?.map.values() ?? [])].flatMap(({ target, variant }) => [target, variant]);
  const taken = [...recorded, ...(before?.retired.keys() ?? [])].filter((name) => name !== null);
  const names = new TargetNames(rulesOf(connector), ['_synced_at', ...taken]);
  return nextMap({
    before,
    columns: [id, ...columns],
    types: { holds: holdsEverywhere, widens: () => false },
    onTypeChange: 'variant_column',
    give: (name) => names.give(name),
    claims: () => false,
    stream: 'members',
  });
}

const long = 'n'.repeat(70);

describe('a rename of a destination is refused', () => {
  it.each<[string, Connector, WantedColumn[]]>([
    ['onto a column that follows', 'postgres', [wanted('a', { as: 'b' }), wanted('b')]],
    ['onto a column before it', 'postgres', [wanted('b'), wanted('a', { as: 'b' })]],
    ['onto a column in another case', 'postgres', [wanted('a', { as: 'B' }), wanted('b')]],
    ['onto the name of another rename', 'duckdb', [wanted('a', { as: 'x' }), wanted('b', { as: 'x' })]],
    ['onto another rename in another case', 'postgres', [wanted('a', { as: 'x' }), wanted('b', { as: 'X' })]],
    ['onto a letter that the server folds', 'mysql', [wanted('a', { as: 'café' }), wanted('cafe')]],
    ['onto a letter that the server takes for another', 'mysql', [wanted('a', { as: 'λόγος' }), wanted('λόγοσ')]],
    ['onto the micro sign', 'mysql', [wanted('a', { as: 'µg' }), wanted('μg')]],
    ['onto the dotted capital letter', 'mysql', [wanted('a', { as: 'İd2' }), wanted('id2')]],
    ['onto the cut name of a column', 'postgres', [wanted('a', { as: long }), wanted(new TargetNames().give(long))]],
    ['onto a name that is cut alike', 'postgres', [wanted('a', { as: long }), wanted('b', { as: long })]],
    ['onto the key', 'postgres', [wanted('a', { as: 'id' })]],
    ['onto the run', 'postgres', [wanted('a', { as: '_run_id' })]],
    ['onto the moment', 'duckdb', [wanted('a', { as: '_SYNCED_AT' })]],
    ['onto the mark of deletes', 'mysql', [wanted('a', { as: '_deleted_at' })]],
    ['onto the operation', 'trino', [wanted('a', { as: '_op' })]],
    ['onto the texts of another column', 'postgres', [wanted('a', { as: 'b__text' }), wanted('b')]],
    ['onto the texts of another rename', 'mysql', [wanted('a', { as: 'X__TEXT' }), wanted('b', { as: 'x' })]],
  ])('%s', (_, connector, columns) => {
    const error = refusal(columns, connector);
    expect(error).toMatchObject({ code: 'destination_columns' });
    expect(error?.message).toContain('"members"');
  });

  it('is said to meet a column of the stream, or one that cdsync adds', () => {
    const [own, added] = ['b', '_run_id'].map((as) => refusal([wanted('a', { as }), wanted('b')], 'postgres'));
    expect(own?.message).toContain('column "b" of the same stream is "b" there');
    expect(added?.message).toContain('a column that cdsync adds is "_run_id" there');
  });

  it('not onto a name that only other columns would have: a key has no texts beside it, and files have none', () => {
    const texts = wanted('a', { as: 'key__text' });
    const renamedKey = { ...id, as: 'key' };
    for (const rules of [rulesOf('postgres'), undefined])
      expect(() =>
        assertDistinctNames([renamedKey, texts], { stream: 'members', rules, map: undefined }),
      ).not.toThrow();
    const columns = [id, wanted('a', { as: 'b__text' }), wanted('b')];
    expect(() => assertDistinctNames(columns, { stream: 'members', rules: undefined, map: undefined })).not.toThrow();
  });

  it('onto the name that another column has in the table', () => {
    const taken = mapped([wanted('x__text'), wanted('x', { type: 'BIGINT' })], 'postgres');
    const before = { ...taken, generation: 1, pending: null };
    const later = mapped([wanted('x__text'), wanted('x')], 'postgres', before);
    const variant = later.map.get('attributes.x')?.variant as string;
    expect(variant).toMatch(/^x__text_/);
    const renamed = [wanted('x__text'), wanted('x'), wanted('y', { as: variant })];
    expect(refusal(renamed, 'postgres', { ...later, generation: 2, pending: null })?.code).toBe('destination_columns');
  });
});

describe('a rename of a destination is carried out', () => {
  it.each<[string, WantedColumn[]]>([
    ['onto a column that is dropped', [wanted('a', { as: 'b' }), wanted('b', { isDropped: true })]],
    ['if two columns exchange names', [wanted('a', { as: 'b' }), wanted('b', { as: 'a' })]],
    ['to another case of the same name', [wanted('a', { as: 'A' }), wanted('b')]],
  ])('%s', (_, columns) => {
    const first = mapped([wanted('a'), wanted('b')], 'postgres');
    for (const before of [undefined, { ...first, generation: 1, pending: null }]) {
      expect(refusal(columns, 'postgres', before)).toBeUndefined();
      const { map } = mapped(columns, 'postgres', before);
      for (const { path, as, isDropped } of columns) expect(map.get(path)?.target).toBe(isDropped ? null : as);
    }
  });

  it('and names from the source that only the destination takes for one are no mistake of the rules', () => {
    expect(refusal([wanted('café'), wanted('cafe')], 'mysql')).toBeUndefined();
  });
});

/** The name that a column has alone, and the form that no other may have: made without the product's functions. */
function alone(as: string, connector: Connector): string {
  const most = { duckdb: 1000, mysql: 64, postgres: 63, trino: 63 }[connector];
  const small = connector === 'trino' ? as.toLowerCase() : as;
  const digits = createHash('sha256').update(small).digest('hex').slice(0, 8);
  const name = small.length <= most ? small : `${small.slice(0, most - 9)}_${digits}`;
  return connector === 'mysql' ? name.toLowerCase().replaceAll('é', 'e') : name.toLowerCase();
}

describe('over any rules', () => {
  const name = fc.constantFrom('a', 'b', 'ab', 'A__text', 'b__text', 'e', 'é', '_run_id', '_op', long, `${long}x`, 'x');
  // A stream has no two names that differ only in case, and no name of cdsync.
  const column = fc.record({
    name: fc.constantFrom('a', 'b', 'c', 'e', long),
    as: fc.option(name),
    isDropped: fc.boolean(),
  });
  const columns = fc.uniqueArray(column, { selector: ({ name: own }) => own, maxLength: 5 });

  it('each column has another name, and a renamed one the name of its rule, or nothing is sent', () => {
    const property = fc.property(columns, fc.constantFrom(...(Object.keys(connectors) as Connector[])), (made, to) => {
      const all = made.map(({ name: own, as, isDropped }) => wanted(own, { as: as ?? own, isDropped }));
      const present = all.filter(({ isDropped }) => !isDropped);
      const helpers = ['_op', '_run_id', '_synced_at', '_deleted_at', '_cdsync_load', 'id'];
      const clashes = present.some(({ name: own, as }) => {
        const others = present.filter((other) => other.name !== own).map((other) => other.as);
        const names = [...helpers, ...others, ...others.map((other) => `${other}__text`)];
        return (
          as !== own && names.some((other) => [as, alone(as, to)].some((form) => alone(other, to) === alone(form, to)))
        );
      });
      expect(refusal(all, to)?.code).toBe(clashes ? 'destination_columns' : undefined);
      if (clashes) return;
      const { map } = mapped(all, to);
      const targets = present.map(({ path, as, name: own }) => ({ as, own, target: map.get(path)?.target as string }));
      expect(new Set(targets.map(({ target }) => target.toLowerCase())).size).toBe(targets.length);
      for (const { as, own, target } of targets) if (as !== own) expect(alone(target, to)).toBe(alone(as, to));
    });
    fc.assert(property, { numRuns: 1000 });
  });
});
