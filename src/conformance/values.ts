import { describe, expect, it } from 'vitest';
import { quoteIdentifier } from '../core/sql.js';
import type { DestinationContext, TableConnector, TableTypes } from '../sdk/destination.js';
import { differences } from './compare.js';
import { column, delivered, ownless, undelivered } from './rows.js';
import type { Workbench } from './suite.js';

const oddNames = [
  'with space',
  `quote " and ' both`,
  'select',
  'Order',
  'user',
  '__proto__',
  'constructor',
  '😀 smile',
  'ÄÖÜ',
  'semi;colon',
  'comma,and\ttab',
  'back\\slash',
  '100%',
  'a.b.c',
  'x'.repeat(200),
  '-- comment',
  '日本語の列',
  'ctid',
  '$1',
  '{brace}',
];

const emptyList = '[]::BIGINT[]';
const longNumber = "'12345678901234567890123'";

/** Values as SQL, by the type of their column. */
const oddValues: Record<string, readonly string[]> = {
  BIGINT: ['0', '-1', '9007199254740993', '-9007199254740993', '9223372036854775807', '-9223372036854775808'],
  'DECIMAL(38,0)': [
    '99999999999999999999999999999999999999',
    '-99999999999999999999999999999999999999',
    '18446744073709551616',
  ],
  DOUBLE: ['0.0', '-0.0', '1e300', '-1e300', '5e-324', '1.7976931348623157e308', '0.1', '123456789.123456789'],
  BOOLEAN: ['true', 'false'],
  VARCHAR: [
    "''",
    "' '",
    "'NULL'",
    "'null'",
    "'\\N'",
    "'\\\\.'",
    "'\\.'",
    "'\"'",
    '\'""\'',
    "'a,b;c|d'",
    "'line' || chr(10) || 'feed'",
    "'carriage' || chr(13) || chr(10) || 'return'",
    "'tab' || chr(9)",
    "'emoji 😀 👩‍👩‍👧'",
    "'02134'",
    "'2024-02-30'",
    '\'{"not": "json"\'',
    "repeat('é', 600000)",
    "'trailing space '",
    'chr(1) || chr(127)',
  ],
  DATE: ["'1970-01-01'", "'2024-02-29'", "'1900-01-01'"],
  TIMESTAMPTZ: ["'1970-01-01 00:00:00+00'", "'2026-12-31 23:59:59.999999+00'", "'1900-01-01 00:00:00+00'"],
  'BIGINT[]': [emptyList, '[1, NULL, 3]', '[9223372036854775807]'],
  'STRUCT(a BIGINT, b VARCHAR[])': [
    "{'a': 1, 'b': []}",
    "{'a': NULL, 'b': ['x', NULL, '\"']}",
    "{'a': 9007199254740993, 'b': NULL}",
  ],
  JSON: [`'{"a":[1,{"b":null}],"c":"\\u00e9"}'`, `'[]'`, `'"text"'`, longNumber, `'true'`, `'{}'`],
};

/** Tests of odd names, values and keys. */
export function values(bench: Workbench): void {
  it('takes a column of any name', async () => {
    const subject = await bench.subject();
    const selected = oddNames.map((name, index) => `'value ${index}' AS ${quoteIdentifier(name)}`);
    delivered(await subject.run(`SELECT 'p1' AS id, ${selected.join(', ')}`));
    const [row] = ownless(await subject.place.rows('people'));
    // The destination replaces names that it cannot take; each value must be there exactly once.
    const expected = ['p1', ...oddNames.map((_, index) => `value ${index}`)];
    expect([...(row?.values() ?? [])].sort()).toEqual(expected.sort());
    delivered(await subject.run(`SELECT 'p1' AS id, ${selected.join(', ').replaceAll('value', 'other')}`));
    const [changed] = ownless(await subject.place.rows('people'));
    expect([...(changed?.keys() ?? [])].sort()).toEqual([...(row?.keys() ?? [])].sort());
    expect([...(changed?.values() ?? [])].sort()).toEqual(
      expected.map((text) => text.replace('value', 'other')).sort(),
    );
  });

  const { keepsNegativeZero = true, keepsLongJsonNumbers = true } = bench.harness;
  const lost = [...(keepsNegativeZero ? [] : ['-0.0']), ...(keepsLongJsonNumbers ? [] : [longNumber])];
  const kept = (text: string) => !lost.includes(text);
  const typed = Object.entries(oddValues).map(([type, texts]) => [type, texts.filter(kept)] as const);

  it.each(typed)('keeps every value of %s', async (type, texts) => {
    const subject = await bench.subject();
    const rows = [...texts, 'NULL'].map((text, index) => `SELECT 'p${index}' AS id, (${text})::${type} AS value`);
    delivered(await subject.run(rows.join(' UNION ALL ')));
    expect(differences(await subject.published(), ownless(await subject.place.rows('people')))).toEqual([]);
  });

  it.runIf(bench.keyed)('keeps every value of a row that changes', async () => {
    const subject = await bench.subject({ destination: { mode: bench.keyed } });
    const row = (pick: number) =>
      typed.map(([type, texts], index) => `(${texts[pick % texts.length]})::${type} AS "c${index}"`).join(', ');
    delivered(await subject.run(`SELECT 'p1' AS id, ${row(0)} UNION ALL SELECT 'p2', ${row(1)}`));
    delivered(await subject.run(`SELECT 'p1' AS id, ${row(2)} UNION ALL SELECT 'p2', ${row(3)}`));
    expect(differences(await subject.published(), ownless(await subject.place.rows('people')))).toEqual([]);
    const nulls = typed.map(([type], index) => `NULL::${type} AS "c${index}"`).join(', ');
    delivered(await subject.run(`SELECT 'p1' AS id, ${nulls} UNION ALL SELECT 'p2', ${row(4)}`));
    expect(differences(await subject.published(), ownless(await subject.place.rows('people')))).toEqual([]);
  });

  describe('values that the destination cannot hold', () => {
    // Every connector refuses something when its columns are narrow enough.
    const narrow = (): TableConnector => {
      const { connector } = bench;
      const narrowed =
        (map: TableConnector['mapColumn']): TableConnector['mapColumn'] =>
        (type, of) => {
          const mapping = map(type, of);
          return type.kind === 'text' ? { ...mapping, limits: { ...mapping.limits, maxBytes: 20 } } : mapping;
        };
      // biome-ignore lint/suspicious/noExplicitAny: destinations of both kinds may have types of their own.
      const open = async (context: DestinationContext): Promise<any> => {
        const opened = (await connector.open(context)) as { readonly types?: TableTypes };
        const { types } = opened;
        if (types === undefined) return opened;
        const narrowedTypes = { ...types, mapColumn: narrowed(types.mapColumn) };
        return new Proxy(opened, {
          get(target, name) {
            const value: unknown = name === 'types' ? narrowedTypes : Reflect.get(target, name, target);
            return typeof value === 'function' ? value.bind(target) : value;
          },
        });
      };
      return { ...connector, mapColumn: narrowed(connector.mapColumn), open };
    };
    const long = "'much longer than twenty bytes'";
    const rows = (name: string) =>
      `SELECT 'p' || i AS id, CASE WHEN i = 3 THEN ${name} ELSE 'short' END AS name FROM range(5) t(i)`;

    it.runIf(bench.keyed)('arrive as NULL, named with column and reason, until the row has another value', async () => {
      const subject = await bench.subject({ connector: narrow(), destination: { mode: bench.keyed } });
      const { status, message } = undelivered(await subject.run(rows(long)));
      expect([status, message]).toEqual(['partial', '1 value of stream "people" cannot be stored there']);
      const actualRows = await subject.place.rows('people');
      expect(column(actualRows, 'id')).toEqual(['p0', 'p1', 'p2', 'p3', 'p4']);
      expect([...column(actualRows, 'name')].sort()).toEqual([null, 'short', 'short', 'short', 'short'].sort());
      expect(delivered(await subject.push()).refused).toBe(1);
      // First newer data of another row, then of the row itself.
      expect(delivered(await subject.run(`${rows(long)} UNION ALL SELECT 'p9', 'new'`)).refused).toBe(1);
      const healed = delivered(await subject.run(`${rows("'short again'")} UNION ALL SELECT 'p9', 'new'`));
      expect(healed.refused).toBe(0);
      expect(differences(await subject.published(), ownless(await subject.place.rows('people')))).toEqual([]);
    });

    it.runIf(bench.keyed)('arrive when everything is sent again and they can be held', async () => {
      const subject = await bench.subject({ connector: narrow(), destination: { mode: bench.keyed } });
      undelivered(await subject.run(rows(long)));
      subject.connector = bench.connector;
      delivered(await subject.push({ full: true }));
      expect(differences(await subject.published(), ownless(await subject.place.rows('people')))).toEqual([]);
      expect(delivered(await subject.push()).refused).toBe(0);
    });

    it.runIf(bench.keyed)('are reported once, and then counted until they are healed', async () => {
      const subject = await bench.subject({ connector: narrow(), destination: { mode: bench.keyed } });
      const both = (one: string, other: string) => `SELECT 'p1' AS id, ${one} AS name, ${other} AS other
        UNION ALL SELECT 'p2', 'short', 'short'`;
      expect(undelivered(await subject.run(both(long, "'short'"))).status).toBe('partial');
      expect(delivered(await subject.run(both(`${long} || ' and longer'`, "'short'")))).toMatchObject({ refused: 1 });
      expect(delivered(await subject.push({ full: true }))).toMatchObject({ refused: 1, error: null });
      expect(delivered(await subject.push())).toMatchObject({ refused: 1, error: null });
      // Another column is another reason; another key is a new row.
      expect(undelivered(await subject.run(both("'short'", long))).status).toBe('partial');
      const third = `${both("'short'", long)} UNION ALL SELECT 'p3', ${long}, 'short'`;
      const { message } = undelivered(await subject.run(third));
      expect(message).toBe('1 value of stream "people" cannot be stored there');
      expect(delivered(await subject.push())).toMatchObject({ refused: 2 });
      // What cannot be stored can be deleted.
      expect(delivered(await subject.run(both("'short'", long)))).toMatchObject({ refused: 1 });
      expect(delivered(await subject.run(both("'short'", "'short'")))).toMatchObject({ refused: 0 });
      expect(await subject.rejects()).toEqual([]);
    });

    it.runIf(bench.deletes('hard'))('are deleted if the source deletes them, whatever they were last', async () => {
      const subject = await bench.loaded(rows("'good'"), { connector: narrow(), destination: { mode: 'mirror' } });
      undelivered(await subject.run(rows(long)));
      expect(delivered(await subject.run(`SELECT * FROM (${rows(long)}) WHERE id <> 'p3'`)).refused).toBe(0);
      expect(column(await subject.place.rows('people'), 'id')).toEqual(['p0', 'p1', 'p2', 'p4']);
    });

    it('stop the whole stream if the job says so', async () => {
      const subject = await bench.subject({ connector: narrow(), destination: { on_reject: 'fail' } });
      const { status, code, message } = undelivered(await subject.run(rows(long)));
      expect([status, code]).toEqual(['failed', 'values_refused']);
      expect(message).not.toContain('much longer');
      if (bench.isTransactional) expect(await subject.place.rows('people').catch(() => [])).toEqual([]);
    });
  });
}
