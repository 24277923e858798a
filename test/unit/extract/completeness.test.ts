import { describe, expect, it } from 'vitest';
import { ServiceError } from '../../../src/api/client.js';
import { CdsyncError } from '../../../src/core/errors.js';
import { type CountedRead, readWithTotal } from '../../../src/extract/completeness.js';
import type { Partition } from '../../../src/extract/partition.js';

const whole: Partition = { kind: 'whole' };
const again: Partition = { kind: 'again' };
const values: Partition[] = [
  { kind: 'value', value: 'x' },
  { kind: 'value', value: 'y' },
];

interface Input {
  /** Totals before and after each reading. */
  readonly totals: readonly (number | null)[];
  /** Different keys after each reading, or the error of the reading. */
  readonly outcomes: readonly (number | CdsyncError)[];
  readonly list?: Partial<CountedRead>;
}

/** The readings of a list with such totals and keys, and their outcome. */
async function read({ totals: [totalAtStart = null, ...totals], outcomes, list = {} }: Input) {
  const readings: [readonly Partition[], number | undefined][] = [];
  let keys = 0;
  const error = await readWithTotal({
    label: 'GET /list',
    distrustsTokens: false,
    checkTotal: false,
    totalAtStart,
    partitions: [whole],
    pageSize: () => 100,
    missed: () => undefined,
    hasNoTotal: () => undefined,
    total: async () => totals.shift() ?? null,
    partitionKeys: undefined,
    read: async (partitions, { pageSize } = {}) => {
      const found = outcomes[readings.length] ?? 0;
      readings.push([partitions, pageSize]);
      if (found instanceof CdsyncError) throw found;
      keys = found;
    },
    distinctKeys: async () => keys,
    ...list,
  }).then(
    () => undefined,
    (thrown) => thrown as CdsyncError,
  );
  return { error, readings };
}

const once = (partitions: readonly Partition[]) => [[partitions, undefined]];

describe('a list that is read in partitions', () => {
  const list = { partitions: values };

  it('is complete if it has as many keys as its total before and after', async () => {
    const found = await read({ totals: [5, 6], outcomes: [6], list });
    expect(found).toEqual({ error: undefined, readings: once(values) });
  });

  it('is read to the end unpartitioned if an earlier process began that; its additional keys are counted', async () => {
    const missed: number[] = [];
    const begun = { ...list, partitionKeys: 4, missed: (records: number) => missed.push(records) };
    const found = await read({ totals: [7, 7], outcomes: [7, 7], list: begun });
    expect(found).toEqual({ error: undefined, readings: [...once(values), ...once([whole])] });
    expect(missed).toEqual([3]);
  });

  it('is also read unpartitioned if keys are missing or its total is unknown', async () => {
    for (const totals of [
      [6, 5],
      [5, 6],
      [null, 5],
      [5, null],
    ]) {
      const { error, readings } = await read({ totals, outcomes: [5, 6], list });
      const isComplete = totals[0] === 5 && totals[1] === 5;
      expect([totals, error, readings.length]).toEqual([totals, undefined, isComplete ? 1 : 2]);
      expect(readings[1]).toEqual([[whole], undefined]);
    }
  });

  it('is also read unpartitioned if its total is far too small to prove it complete', async () => {
    expect((await read({ totals: [100, 100], outcomes: [110], list })).readings).toHaveLength(1);
    expect((await read({ totals: [100, 100], outcomes: [112, 112], list })).readings).toHaveLength(2);
  });
});

describe('a list whose total is checked', () => {
  const list = { checkTotal: true };

  it('is read once more if keys are missing, and fails if they still are', async () => {
    expect(await read({ totals: [9, 9, 9], outcomes: [8, 9], list })).toEqual({
      error: undefined,
      readings: [...once([whole]), ...once([again])],
    });
    const { error } = await read({ totals: [9, 9, 9], outcomes: [8, 8], list });
    expect(error).toMatchObject({ code: 'total_mismatch' });
  });

  it('does not fail if records were deleted in between', async () => {
    expect((await read({ totals: [9, 9, 8], outcomes: [8, 8], list })).error).toBeUndefined();
  });
});

describe('a list whose page tokens may lead nowhere', () => {
  const list = { distrustsTokens: true };
  const circle = new CdsyncError('a circle', { code: 'page_loop' });

  it('is complete if it has its total, even if its tokens form a loop', async () => {
    expect((await read({ totals: [7, 7], outcomes: [7], list })).readings).toEqual(once([whole]));
    const partly = { ...list, distinctKeys: async () => 7 };
    expect((await read({ totals: [7, 7], outcomes: [circle], list: partly })).readings).toEqual(once([whole]));
  });

  it('is read once more, in one page large enough for all', async () => {
    const { error, readings } = await read({ totals: [250, 250, 250], outcomes: [100, 250], list });
    expect(error).toBeUndefined();
    expect(readings).toEqual([
      [[whole], undefined],
      [[again], 250],
    ]);
  });

  it('fails if that page lacks members too', async () => {
    const { error } = await read({ totals: [250, 250, 250], outcomes: [100, 200], list });
    expect(error).toMatchObject({ code: 'members_incomplete', message: expect.stringContaining('200 members of 250') });
  });

  it('is accepted without a total only if its tokens reached an end', async () => {
    expect((await read({ totals: [null, null], outcomes: [100], list })).readings).toHaveLength(1);
    const { error, readings } = await read({ totals: [null, null, null], outcomes: [circle, circle], list });
    expect(readings).toHaveLength(2);
    expect(error).toMatchObject({ code: 'members_incomplete' });
  });

  it('is complete with one response if that is the whole list, and nothing else is asked', async () => {
    const inOne = { ...list, readInOneAnswer: async () => true };
    expect(await read({ totals: [], outcomes: [], list: inOne })).toEqual({ error: undefined, readings: [] });
  });

  it('fails with what would help if one response is not the whole list, and parameters are refused', async () => {
    const refused = new ServiceError('no parameters', { code: 'bad_request', kind: 'fatal', status: 400 });
    const total = async () => Promise.reject(refused);
    const inOne = { ...list, total, readInOneAnswer: async () => false };
    const { error } = await read({ totals: [], outcomes: [], list: inOne });
    expect(error).toMatchObject({ code: 'members_incomplete', hint: expect.stringContaining('take `limit`') });
  });

  it('fails with any other error', async () => {
    const refused = new CdsyncError('no', { code: 'forbidden' });
    expect((await read({ totals: [7], outcomes: [refused], list })).error).toBe(refused);
  });
});

it('a list to be compared with its total says so if there is none', async () => {
  const notices: string[] = [];
  const hasNoTotal = () => notices.push('none');
  const list = { checkTotal: true, hasNoTotal };
  const none = await read({ totals: [null, null], outcomes: [5, 5], list });
  expect([none.error, notices]).toEqual([undefined, ['none']]);
  await read({ totals: [5, 5], outcomes: [5], list });
  await read({ totals: [null, null], outcomes: [5], list: { hasNoTotal } });
  expect(notices).toEqual(['none']);
});

describe('totals that differ between readings', () => {
  const listed = { distrustsTokens: true };

  it('of a partitioned list fail it only if it must be compared with them', async () => {
    const list = { partitions: values };
    const input = { totals: [10, 10, 10], outcomes: [5, 5] };
    expect((await read({ ...input, list })).error).toBeUndefined();
    const { error } = await read({ ...input, list: { ...list, checkTotal: true } });
    expect(error).toMatchObject({ code: 'total_mismatch' });
  });

  it.each([
    ['the smaller of them counts, the later one', [250, 250, 200], 200, undefined],
    ['the smaller of them counts, the earlier one', [200, 250, 250], 200, undefined],
    ['one less is too few', [200, 250, 250], 199, 'members_incomplete'],
    ['a later total that is missing proves nothing against an end', [250, 250, null], 200, undefined],
    ['a total before that is missing neither', [null, 250, 250], 200, undefined],
  ] as const)('of members: %s', async (_, totals, keys, code) => {
    const { error } = await read({ totals: [...totals], outcomes: [100, keys], list: listed });
    expect(error?.code).toBe(code);
  });

  it.each(['page_loop', 'dead_token'] as const)('a reading that ends with %s has no proven end', async (code) => {
    const ended = new CdsyncError('the tokens lead nowhere', { code });
    const found = await read({ totals: [null, null, null], outcomes: [ended, 100], list: listed });
    expect([found.error, found.readings.length]).toEqual([undefined, 2]);
    const twice = await read({ totals: [null, null, null], outcomes: [ended, ended], list: listed });
    expect(twice.error).toMatchObject({ code: 'members_incomplete' });
  });

  it.each([
    [25, 10, 'members_incomplete'],
    [25, 0, 'members_incomplete'],
    [25, 24, undefined],
  ] as const)('tokens that lead nowhere after %i members, with a total of %i: %s', async (keys, total, code) => {
    const ended = new CdsyncError('the tokens lead nowhere', { code: 'page_loop' });
    const list = { ...listed, distinctKeys: async () => keys };
    const { error } = await read({ totals: [total, total, total], outcomes: [ended, ended], list });
    expect(error?.code).toBe(code);
  });

  it('any other end of a reading is its error, even if all keys have come', async () => {
    const ended = new CdsyncError('the filter is ignored', { code: 'filter_ignored' });
    const list = { ...listed, distinctKeys: async () => 7 };
    expect((await read({ totals: [7, 7], outcomes: [ended], list })).error).toBe(ended);
  });
});
