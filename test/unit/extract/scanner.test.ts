import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { MalformedPageError } from '../../../src/extract/scan/page-cutter.js';
import { oddNames, streams, write } from '../../fixtures/json-model.js';
import { emitted, scanners } from '../../fixtures/scanners.js';

/** A value as both paths must agree on it: numbers as text, no nulls, sorted names. */
function meaning(text: string): unknown {
  const strict = JSON.parse(
    text.replace(/"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g, (each) =>
      each.startsWith('"') ? each : `"#${each}"`,
    ),
  );
  const without = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(without);
    if (typeof value !== 'object' || value === null) return value;
    return Object.entries(value)
      .filter(([, member]) => member !== null)
      .map(([name, member]) => [name, without(member)])
      .sort();
  };
  return without(strict);
}

function scanBoth(pages: readonly string[]): void {
  const [exact, fast] = scanners() as [ReturnType<typeof scanners>[0], ReturnType<typeof scanners>[0]];
  for (const text of pages) {
    const body = Buffer.from(text);
    const slow = exact.scanner.scan(body, 0, body.length);
    const quick = fast.scanner.scan(body, 0, body.length);
    expect(quick.records).toBe(slow.records);
    expect(quick.rejects).toEqual(slow.rejects);
    expect([quick.mismatches, quick.mismatchedAttribute]).toEqual([slow.mismatches, slow.mismatchedAttribute]);
    expect([...quick.keyHashes]).toEqual([...slow.keyHashes]);
    expect(quick.replaced).toBe(slow.replaced);
    expect(meaning(`[${emitted(quick)}]`)).toEqual(meaning(`[${emitted(slow)}]`));
  }
  expect(fast.columns.store()).toEqual(exact.columns.store());
}

function pagesOf(records: readonly string[], size: number): string[] {
  const pages: string[] = [];
  for (let from = 0; from < records.length; from += size) pages.push(records.slice(from, from + size).join(','));
  return pages;
}

/** Strange records: some that a service should not send, and some that it may. */
const strange = fc.constantFrom(
  '5',
  'null',
  '[]',
  '"x"',
  '{}',
  '{"id":null}',
  '{"id":""}',
  '{"id":7}',
  '{"id":"a"}',
  '{"id":"a","attributes":null}',
  '{"id":"a","attributes":[]}',
  '{"id":"a","attributes":[{"n":1}]}',
  '{"id":"a", "attributes" : [ {"n" : 1.5 } ] }',
  '{"id":"a","attributes":[{"n":1},{"n":2}]}',
  '{"id":"a","attributes":"no"}',
  '{"id":"a","attributes":{"s":"\\ud800","t":"\\ud83d\\ude00"}}',
  '{"id":"\\u0061","attributes":{"\\u006e":1}}',
  '{"index_id":5,"id":"b","more":{"x":[1]}}',
  '{"id":"a","attributes":{"email":"silver"}}',
  '{"id":"a","attributes":{"email":["x","gold"]}}',
  '{"id":"a","attributes":{"n":1,"n":"text"}}',
  '{"attributes":{"n":"of a record without a key","new":1}}',
  '{"id":"a","attributes":{"s":{}}}',
  '{"id":"a","attributes":{"s":{"x":{}}}}',
  '{"id":"a","attributes":{"\\ud800":1,"\\ud801":2,"s":{"\\ud800":1,"\ufffd":2}}}',
  `{"id":"deep","attributes":{"d":${'['.repeat(600)}${']'.repeat(600)}}}`,
  `{"id":"nested","attributes":{"d":${'{"a":'.repeat(40)}1${'}'.repeat(40)}}}`,
  '{"id":"a","attributes":{"n":-0,"m":1e5,"big":123456789012345678901234567890}}',
);

describe('the record scanner', () => {
  it('gives the same result as the slow path, whatever the values and names', () => {
    fc.assert(
      fc.property(streams, fc.integer({ min: 1, max: 9 }), (records, size) => {
        const texts = records.map((attributes, number) => {
          const members = [...attributes].map(([name, value]) => `${JSON.stringify(name)}:${write(value)}`);
          return `{"id":"r${number}","index_id":"i","attributes":{${members.join(',')}}}`;
        });
        scanBoth(pagesOf(texts, size));
      }),
      { numRuns: 300 },
    );
  });

  it('gives the same result as the slow path for strange records', () => {
    fc.assert(
      fc.property(
        fc.array(strange, { minLength: 1, maxLength: 12 }),
        fc.integer({ min: 1, max: 5 }),
        (records, size) => {
          scanBoth(pagesOf(records, size));
        },
      ),
      { numRuns: 500 },
    );
  });

  it('keeps the last value of a repeated name, at any depth', () => {
    const [exact, fast] = scanners() as [ReturnType<typeof scanners>[0], ReturnType<typeof scanners>[0]];
    const body = Buffer.from(
      '{"id":"a","id":"b","attributes":{"n":1,"n":2,"o":{"p":1,"p":3}},"attributes":{"n":4,"\\u006e":5,"o":{"p":1,"p":3}}}',
    );
    for (const { scanner } of [exact, fast]) {
      expect(JSON.parse(emitted(scanner.scan(body, 0, body.length)))).toEqual({
        id: 'b',
        n: 5,
        o: { p: 3 },
      });
    }
  });

  it('accepts exactly what JSON.parse accepts', () => {
    const base = '{"id":"a","attributes":{"s":"x\\n\\u00e9","n":-1.5e+3,"b":true,"z":null,"l":[1,{"k":[]}]}}';
    const mutations = fc.tuple(
      fc.nat(base.length - 1),
      fc.constantFrom(
        '',
        '0',
        '"',
        ',',
        '{',
        '}',
        '[',
        ']',
        ':',
        '\\',
        ' ',
        '\n',
        '-',
        '+',
        '.',
        'e',
        'u',
        '\u0001',
        'nul',
        '//',
      ),
      fc.nat(2),
    );
    fc.assert(
      fc.property(fc.array(mutations, { minLength: 1, maxLength: 3 }), (changes) => {
        let text = base;
        for (const [at, insert, remove] of changes) text = text.slice(0, at) + insert + text.slice(at + remove);
        const valid = isJson(`[${text}]`);
        for (const { scanner } of scanners()) {
          const body = Buffer.from(text);
          const scan = () => scanner.scan(body, 0, body.length);
          if (valid) expect(scan().records + scan().rejects.length).toBe((JSON.parse(`[${text}]`) as unknown[]).length);
          else expect(scan).toThrow(MalformedPageError);
        }
      }),
      { numRuns: 3000 },
    );
  });

  it('keeps a number too close to zero for a double unchanged, and the smallest doubles as doubles', () => {
    const cases = [
      ['1e-400', 'JSON', '1e-400'],
      ['-2.5E-324', 'DOUBLE', undefined],
      ['-1.5E-330', 'JSON', '-1.5E-330'],
      [`0.${'0'.repeat(400)}1`, 'JSON', `0.${'0'.repeat(400)}1`],
      ['5e-324', 'DOUBLE', undefined],
      ['0e-400', 'DOUBLE', undefined],
      ['-0.000e+400', 'DOUBLE', undefined],
    ] as const;
    for (const [text, type, kept] of cases) {
      for (const { columns, scanner } of scanners()) {
        const first = Buffer.from('{"id":"a","attributes":{"n":1.5}}');
        scanner.scan(first, 0, first.length);
        const body = Buffer.from(`{"id":"b","attributes":{"n":${text}}}`);
        const page = scanner.scan(body, 0, body.length);
        expect([text, columns.get('attribute', 'n')?.type]).toEqual([text, type]);
        if (kept !== undefined) expect(JSON.parse(emitted(page)).n).toBe(kept);
      }
    }
  });

  it('rejects a record that is nested too deep, and only that', () => {
    const deep = `{"id":"deep","attributes":{"d":${'['.repeat(50_000)}${']'.repeat(50_000)}}}`;
    const body = Buffer.from(`{"id":"a"},${deep},{"id":"b"}`);
    for (const { scanner } of scanners()) {
      const page = scanner.scan(body, 0, body.length);
      expect(page.rejects.map(({ reason, position }) => [reason, position])).toEqual([['nested_too_deep', 1]]);
      expect(meaning(`[${emitted(page)}]`)).toEqual([[['id', 'a']], [['id', 'b']]]);
    }
  });

  it('learns nothing from a record that it rejects', () => {
    for (const { columns, scanner } of scanners()) {
      const body = Buffer.from('{"id":"a","attributes":{"n":1}},{"attributes":{"n":"one","m":1}},{"id":7,"more":1}');
      expect(scanner.scan(body, 0, body.length).rejects.map(({ reason }) => reason)).toEqual([
        'key_missing',
        'key_not_text',
      ]);
      expect(columns.get('attribute', 'n')?.type).toBe('BIGINT');
      expect([columns.get('attribute', 'm'), columns.get('envelope', 'more')]).toEqual([undefined, undefined]);
    }
  });

  it('does not collect the names of an unlimited map', () => {
    for (const { columns, scanner } of scanners()) {
      for (let page = 0; page < 10; page += 1) {
        const records = Array.from(
          { length: 100 },
          (_, index) => `{"id":"r${index}","attributes":{"map":{"key ${page}-${index}":${index}}}}`,
        );
        const body = Buffer.from(records.join(','));
        expect(scanner.scan(body, 0, body.length).records).toBe(100);
      }
      const map = columns.get('attribute', 'map');
      expect([map?.type, map?.shape.fields]).toEqual(['JSON', undefined]);
      const settled = columns.version;
      const body = Buffer.from('{"id":"r","attributes":{"map":{"another":[1.5,"x"]}}}');
      scanner.scan(body, 0, body.length);
      expect(columns.version).toBe(settled);
    }
  });

  it('takes strings of many megabytes over the slow path too', () => {
    const long = `${'x'.repeat(16_000_000)}${'\\\\\\"'.repeat(100_000)}`;
    const body = Buffer.from(`{"id":"a","attributes":{"s":"${long}","t":"\\ud800"}}`);
    for (const { scanner } of scanners()) {
      const page = scanner.scan(body, 0, body.length);
      expect([page.records, page.replaced]).toEqual([1, 1]);
      expect(page.byteLength).toBeGreaterThan(long.length);
    }
  });

  it('finds names in any order, escaped in any way, even near the end of a body', () => {
    const names = Array.from({ length: 200 }, (_, index) => `n${index % 7}${'x'.repeat(index % 5)}${index}`);
    fc.assert(
      fc.property(
        fc.array(fc.shuffledSubarray(names), { minLength: 2, maxLength: 6 }),
        fc.boolean(),
        (orders, spaced) => {
          const records = orders.map((order, number) => {
            const members = order.map((name, index) => {
              const written = index % 11 === 0 ? `\\u006e${name.slice(1)}` : name;
              return `"${written}"${spaced && index % 3 === 0 ? ' ' : ''}:${index}`;
            });
            return `{"attributes":{${members.join(',')}},"id":"r${number}"}`;
          });
          scanBoth([records.join(','), records.toReversed().join(' , ')]);
        },
      ),
      { numRuns: 60 },
    );
  });

  it('gives each odd name its own column', () => {
    const members = oddNames.map((name, index) => `${JSON.stringify(name)}:${index}`);
    const { columns, scanner } = scanners()[1] as ReturnType<typeof scanners>[0];
    const body = Buffer.from(`{"id":"a","attributes":{${members.join(',')}}}`);
    const attributes = JSON.parse(emitted(scanner.scan(body, 0, body.length)));
    for (const [index, name] of oddNames.entries()) {
      expect(Object.getOwnPropertyDescriptor(attributes, columns.get('attribute', name)?.name ?? '')?.value).toBe(
        index,
      );
    }
  });
});

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}
