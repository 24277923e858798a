import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import {
  type Reject,
  readRejects,
  tellRejects,
  withTold,
  writeRejects,
} from '../../../../src/delivery/former/rejects.js';

const reject = (more: Partial<Reject> = {}): Reject => ({
  key: 'k1',
  column: 'name',
  reason: 'too long',
  run_id: 'run-1',
  ...more,
});
const untold = (more: Partial<Reject> = {}): Reject => ({ ...reject(more), told: false });

describe('a refused row', () => {
  it.each<[string, Reject, boolean]>([
    ['the same key, column and reason', reject({ run_id: 'run-2' }), true],
    ['another key', reject({ key: 'k2' }), false],
    ['another column', reject({ column: 'email' }), false],
    ['another reason', reject({ reason: 'U+0000' }), false],
    ['no column any more', reject({ column: null }), false],
  ])('that has %s as one told before', (_, now, isTold) => {
    expect(withTold([now], [reject()])).toEqual([isTold ? now : { ...now, told: false }]);
  });

  it('that no report has told of stays untold, as after a crash', () => {
    expect(withTold([reject()], [untold()])).toEqual([untold()]);
    expect(withTold([reject()], [untold(), reject()])).toEqual([reject()]);
  });

  it('without a key is told apart by number', () => {
    const one = reject({ key: null });
    expect(withTold([one, one], [one])).toEqual([one, { ...one, told: false }]);
  });
});

describe('the file of refused rows', () => {
  let folder: string;
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'cdsync-rejects-'));
  });
  afterEach(() => rm(folder, { recursive: true }));

  it('has all rows told after a report, as files of older versions have', async () => {
    const path = join(folder, 'members.jsonl');
    await writeRejects(path, [reject(), untold({ key: 'k2' })]);
    await tellRejects(path);
    expect(await readRejects(path)).toEqual([reject(), reject({ key: 'k2' })]);
    await tellRejects(join(folder, 'none.jsonl'));
    expect(await readRejects(join(folder, 'none.jsonl'))).toEqual([]);
  });
});
