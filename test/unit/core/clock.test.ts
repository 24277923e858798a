import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { abortAfter, callAfter, callEvery, sleep } from '../../../src/core/clock.js';
import { entriesBelow } from '../../../src/core/folders.js';

const dayMs = 86_400_000;

describe('Spans longer than the timers of Node', () => {
  beforeEach(() => {
    vi.useFakeTimers();
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  it.each([1, 24, 25, 50, 400])('a call after %i days happens then, and not before', (days) => {
    const call = vi.fn();
    callAfter(days * dayMs, call);
    vi.advanceTimersByTime(days * dayMs - 1);
    expect(call).not.toHaveBeenCalled();
    vi.advanceTimersByTime(1);
    expect(call).toHaveBeenCalledTimes(1);
  });

  it('a call that was cancelled in its second span never happens', () => {
    const call = vi.fn();
    const cancel = callAfter(60 * dayMs, call);
    vi.advanceTimersByTime(30 * dayMs);
    cancel();
    vi.advanceTimersByTime(60 * dayMs);
    expect(call).not.toHaveBeenCalled();
    expect(vi.getTimerCount()).toBe(0);
  });

  it('a sleep of 300 years ends at once when its signal aborts', async () => {
    const stop = new AbortController();
    const slept = expect(sleep(9_999_999_999_000, stop.signal)).rejects.toThrow('interrupted');
    vi.advanceTimersByTime(100 * dayMs);
    stop.abort();
    await slept;
    expect(vi.getTimerCount()).toBe(0);
  });

  it('a call every 30 days does not come every millisecond', () => {
    const call = vi.fn();
    const timer = callEvery(30 * dayMs, call);
    vi.advanceTimersByTime(20 * dayMs);
    expect(call).not.toHaveBeenCalled();
    clearInterval(timer);
  });
});

it.each([2 ** 31, 2 ** 33, Number.MAX_SAFE_INTEGER])('a signal that aborts after %i ms is a signal', (ms) => {
  expect(abortAfter(ms).aborted).toBe(false);
});

it('timers are set in core/clock.ts only', async () => {
  const root = join(import.meta.dirname, '../../..');
  // A socket's own limit of silence is no timer.
  const timers = /(?<![\w.])(setTimeout|setInterval|AbortSignal\.timeout)\(|['"](node:)?timers\b/;
  const files = (await Promise.all(['src', 'connectors'].map((folder) => entriesBelow(join(root, folder)))))
    .flat()
    .filter((entry) => entry.isFile() && entry.name.endsWith('.ts'))
    .map((entry) => join(entry.parentPath, entry.name));
  const texts = await Promise.all(files.map((file) => readFile(file, 'utf8')));
  const setting = files.filter((_, index) => timers.test(texts[index] as string));
  expect(setting).toEqual([join(root, 'src/core/clock.ts')]);
});
