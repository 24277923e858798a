import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ColumnSet } from '../../../src/columns/columns.js';
import { hashWords, RecordHasher, secretBytes } from '../../../src/columns/record-hash.js';
import { MalformedPageError } from '../../../src/extract/scan/page-cutter.js';
import { RecordScanner } from '../../../src/extract/scan/record-scanner.js';
import { RecordHashTable } from '../../../src/record-cache/hash-table.js';
import { RecordCache } from '../../../src/record-cache/record-cache.js';
import type { RecordSeparator } from '../../../src/record-cache/record-ranges.js';

const hash = new RecordHasher(Buffer.alloc(secretBytes, 0x5a));
const view = { isFirst: false, isFiltered: false };

const scanner = () => new RecordScanner(new ColumnSet([]), { container: null, key: ['id'], filter: new Map() });
const page = (text: string) => ({ body: Buffer.from(text), start: 0, end: Buffer.byteLength(text) });

/** Texts that look like the end of a record, the beginning of one, or both. */
const traps = [
  '}',
  '{',
  '},{',
  '},{"id":',
  '},{"id":"a"',
  '"},{"id":"',
  '\\"},{\\"id\\":',
  ']',
  ',',
  '\\',
  '"',
  '[{}]',
  '',
];
const texts = fc
  .array(fc.oneof(fc.constantFrom(...traps), fc.string({ maxLength: 4 })), { maxLength: 4 })
  .map((each) => each.join(''));
/** A member, always of one type: the scanner gives a column of several types another text. */
const members = fc.oneof(
  texts.map((text) => `"a":${JSON.stringify(text)}`),
  fc.constantFrom('"n":1', '"n":null', '"o":{"id":"z"}', '"o":{"id":"},{"}', '"l":[{"id":"x"},{"id":"y"}]'),
);
const spaces = fc.constantFrom('', '', '', ' ', '\n');

/** Records: most are objects with a key first; some have the key later, or cannot be kept. */
const records = fc.oneof(
  {
    weight: 8,
    arbitrary: fc
      .tuple(texts, members, spaces)
      .map(([id, member, space]) => `{"id":${JSON.stringify(id || 'a')},${space}${member}}`),
  },
  {
    weight: 2,
    arbitrary: fc
      .tuple(texts, members, spaces)
      .map(([id, member, space]) => `{${space}${member},"id":${JSON.stringify(id || 'a')}}`),
  },
  { weight: 1, arbitrary: fc.constantFrom('{}', '5', 'null', '[{"id":"b"},{"id":"c"}]', '{"id":5}', '"},{"') },
);
const commas = fc.constantFrom(',', ',', ',', ',', ', ', ' ,\n');
const lists = fc.array(fc.tuple(records, commas), { minLength: 1, maxLength: 12 });
const joined = (list: readonly (readonly [string, string])[]) =>
  list.map(([record, comma], at) => (at === list.length - 1 ? record : record + comma)).join('');

/** The record cache after a run that read these records. */
function known(list: string): {
  readonly set: RecordHashTable;
  readonly separator: RecordSeparator | undefined;
  readonly textOf: Map<number, string>;
} {
  const first = new RecordCache(hash);
  const { body, ...cut } = page(list);
  const { raw, bounds, outcomes } = first.scan(scanner(), { body, ...cut }, view);
  const set = RecordHashTable.empty(raw.length / hashWords);
  const textOf = new Map<number, string>();
  const kept = [...outcomes].flatMap((outcome, at) => (outcome === 0 ? [] : [at]));
  for (let row = 0; row < raw.length / hashWords; row += 1) {
    if (raw[row * hashWords + 1] === 0) continue;
    set.add(raw, row * hashWords);
    const record = kept[row] as number;
    textOf.set(set.find(raw, row * hashWords), body.toString('utf8', bounds[2 * record], bounds[2 * record + 1]));
  }
  return { set, separator: first.separator, textOf };
}

/** The records of a page as the cache returns them, in their order, as values, and the rejected ones. */
function found(cache: RecordCache, textOf: Map<number, string>, list: string) {
  const { hitRuns, records: rows, hits, rejects, ...scanned } = cache.scan(scanner(), page(list), view);
  const target = Buffer.alloc(scanned.byteLength);
  scanned.write(target, 0);
  const fresh = JSON.parse(`[${target.toString()}]`) as unknown[];
  expect(fresh.length).toBe(rows);
  const all: unknown[] = [];
  let row = 0;
  for (const { rowsBefore, slots } of hitRuns) {
    all.push(...fresh.slice(row, rowsBefore));
    row = rowsBefore;
    all.push(...slots.map((slot) => JSON.parse(textOf.get(slot) as string) as unknown));
  }
  all.push(...fresh.slice(row));
  expect(all.length).toBe(rows + hits);
  return { all, rejected: rejects.map(({ position, reason }) => [position, reason]), hits };
}

function withoutCache(list: string) {
  const { rejects } = scanner().scan(Buffer.from(list), 0, Buffer.byteLength(list));
  const places = new Set(rejects.map(({ position }) => position));
  const parsed = (JSON.parse(`[${list}]`) as unknown[]).filter((_, position) => !places.has(position));
  return { all: parsed, rejected: rejects.map(({ position, reason }) => [position, reason]) };
}

describe('a cache', () => {
  it('finds the records that JSON has, in their order, for any cache and any separator', () => {
    let allHits = 0;
    fc.assert(
      fc.property(lists, lists, fc.array(fc.nat()), (before, others, order) => {
        const { set, separator, textOf } = known(joined(before));
        const all = [...before, ...others];
        const list = joined([...order.map((at) => all[at % all.length] as (typeof all)[0]), ...others]);
        const { hits, ...records } = found(new RecordCache(hash, { table: set, separator }), textOf, list);
        allHits += hits;
        expect(records).toEqual(withoutCache(list));
      }),
      { numRuns: 700 },
    );
    expect(allHits).toBeGreaterThan(500);
  });

  it('has no hits on a page that is not JSON, and rejects it like the scanner', () => {
    fc.assert(
      fc.property(
        lists,
        lists,
        fc.nat(),
        fc.constantFrom('', '}', '{', '"', ',', 'x', ']'),
        (before, others, at, put) => {
          const { set, separator } = known(joined(before));
          const whole = joined([...before, ...others]);
          const place = at % (whole.length + 1);
          const list = whole.slice(0, place) + put + whole.slice(place + 1);
          const isRefused = (scan: () => unknown) => {
            try {
              scan();
              return false;
            } catch (error) {
              if (error instanceof MalformedPageError) return true;
              throw error;
            }
          };
          const cache = new RecordCache(hash, { table: set, separator });
          const body = page(list);
          expect(isRefused(() => cache.scan(scanner(), body, view))).toBe(
            isRefused(() => scanner().scan(body.body, 0, body.end)),
          );
        },
      ),
      { numRuns: 700 },
    );
  });

  it('does not trust the separator', () => {
    fc.assert(
      fc.property(
        lists,
        lists,
        fc.constantFrom(...traps.filter((text) => text.includes(','))),
        fc.nat(),
        fc.nat(),
        (before, others, bytes, a, b) => {
          const { set, textOf } = known(joined(before));
          const next = 1 + (a % bytes.length);
          const separator = { bytes: Buffer.from(bytes), before: b % next, next };
          const list = joined([...others, ...before]);
          const { hits, ...records } = found(new RecordCache(hash, { table: set, separator }), textOf, list);
          expect(hits).toBeLessThanOrEqual(others.length + before.length);
          expect(records).toEqual(withoutCache(list));
        },
      ),
      { numRuns: 700 },
    );
  });

  it('ignores bytes of an earlier page', () => {
    const old = ['{"id":"a","n":1}', '{"id":"b","n":1}'];
    const { set, separator } = known(old.join());
    const cache = new RecordCache(hash, { table: set, separator });
    const hitsOf = (...list: string[]) => cache.scan(scanner(), page(list.join()), view).hits;
    const short = '{"id":"c","n":2}';
    // There is a space where the shorter record ends.
    const long = `{"id":"d","a":"${' '.repeat(40)}"}`;
    expect(hitsOf(long, ...old)).toBe(2);
    expect(hitsOf(short, ...old)).toBe(2);
  });
});
