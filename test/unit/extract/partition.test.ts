import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { CdsyncError } from '../../../src/core/errors.js';
import {
  chunkOf,
  type Partition,
  partitionName,
  partitionNamed,
  partitionsOf,
  windowsOf,
} from '../../../src/extract/partition.js';
import type { Source } from '../../../src/sources/source.js';

const moment = fc.date({ noInvalidDate: true }).map((date) => date.toISOString());
const anyText = fc.string({ unit: 'grapheme' });

const partitions: fc.Arbitrary<Partition> = fc.oneof(
  fc.constantFrom<Partition>({ kind: 'whole' }, { kind: 'again' }, { kind: 'single' }),
  anyText.map((value): Partition => ({ kind: 'value', value })),
  fc.array(fc.tuple(anyText, anyText), { maxLength: 3 }).map((values): Partition => ({ kind: 'values', values })),
  anyText.map((key): Partition => ({ kind: 'record', key })),
  fc.nat().map((chunk): Partition => ({ kind: 'keys', chunk })),
  fc.tuple(moment, moment).map(([from, to]): Partition => ({ kind: 'window', from, to })),
);

it('asks for an unfinished record again, unless no URL can carry its key', () => {
  const source = { kind: 'windowed' } as Source;
  const found = partitionsOf({ source, partition: undefined, windows: [], unfinished: ['a', '.', '..', 'b/c'] });
  expect(found).toEqual([
    { kind: 'record', key: 'a' },
    { kind: 'record', key: 'b/c' },
  ]);
});

describe('names of partitions', () => {
  it('point to their partition', () => {
    fc.assert(
      fc.property(partitions, (each) => {
        expect(partitionNamed(partitionName(each))).toEqual(each);
      }),
    );
  });

  it('differ if the partitions differ', () => {
    fc.assert(
      fc.property(partitions, partitions, (one, other) => {
        const isSame = JSON.stringify(one) === JSON.stringify(other);
        expect(partitionName(one) === partitionName(other)).toBe(isSame);
      }),
    );
  });

  it('are refused, or are the names of the partition that they are read as', () => {
    const names = fc.oneof(
      anyText,
      fc.tuple(fc.constantFrom('*', '+', '=', '>', '!', '#', '&', '&[["a",'), anyText).map((parts) => parts.join('')),
    );
    fc.assert(
      fc.property(names, (name) => {
        let found: Partition;
        try {
          found = partitionNamed(name);
        } catch (error) {
          expect(error).toBeInstanceOf(CdsyncError);
          expect((error as CdsyncError).code).toBe('state_unreadable');
          return;
        }
        expect(partitionName(found)).toBe(name);
      }),
    );
  });

  it('stay the same as in existing journals', () => {
    const named: [string, Partition][] = [
      ['*', { kind: 'whole' }],
      ['**', { kind: 'again' }],
      ['+', { kind: 'single' }],
      ['=gold', { kind: 'value', value: 'gold' }],
      ['=', { kind: 'value', value: '' }],
      ['=**', { kind: 'value', value: '**' }],
      [
        '&[["country","DE"],["tier","gold"]]',
        {
          kind: 'values',
          values: [
            ['country', 'DE'],
            ['tier', 'gold'],
          ],
        },
      ],
      ['!wf_1', { kind: 'record', key: 'wf_1' }],
      ['#12', { kind: 'keys', chunk: 12 }],
      [
        '>2024-05-01T00:00:00.000Z/2024-05-02T00:00:00.000Z',
        { kind: 'window', from: '2024-05-01T00:00:00.000Z', to: '2024-05-02T00:00:00.000Z' },
      ],
    ];
    for (const [name, partition] of named) {
      expect(partitionName(partition)).toBe(name);
      expect(partitionNamed(name)).toEqual(partition);
    }
  });
});

describe('the partitions of a stream', () => {
  const windows = [{ from: 'a', to: 'b' }];
  const none = { partition: undefined, windows: [], unfinished: [] };
  const source = (properties: object) => properties as Source;

  it('are one for a list that is not split, otherwise one for each value', () => {
    expect(partitionsOf({ ...none, source: source({ kind: 'list' }) })).toEqual([{ kind: 'whole' }]);
    expect(
      partitionsOf({ ...none, source: source({ kind: 'list' }), partition: { attribute: 'a', values: ['x', ''] } }),
    ).toEqual([
      { kind: 'value', value: 'x' },
      { kind: 'value', value: '' },
    ]);
  });

  it('are the windows of time and the unfinished records', () => {
    const found = partitionsOf({ ...none, source: source({ kind: 'windowed' }), windows, unfinished: ['k'] });
    expect(found).toEqual([
      { kind: 'window', from: 'a', to: 'b' },
      { kind: 'record', key: 'k' },
    ]);
    expect(windowsOf(found.map(partitionName))).toEqual(windows);
  });

  it('are chunks with each request once, in order', () => {
    fc.assert(
      fc.property(fc.nat({ max: 1000 }), (count) => {
        const requests = Array.from({ length: count }, (_, index) => index);
        const found = partitionsOf({ ...none, source: source({ kind: 'keyed', requests }) });
        const asked = found.flatMap((each) => (each.kind === 'keys' ? chunkOf(each.chunk, requests) : []));
        expect(asked).toEqual(requests);
      }),
    );
  });
});
