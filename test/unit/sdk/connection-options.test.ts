import { expect, it } from 'vitest';
import { memorySettings } from '../../../src/sdk/connection-options.js';

it.each([
  [{ options: {} }, '512MB', '2'],
  [{ options: {}, memoryMb: 2048, threads: 4 }, '2048MB', '4'],
  [{ options: {}, memoryMb: 2048, threads: 1 }, '2048MB', '1'],
  [{ options: {}, memoryMb: 800, threads: 8 }, '800MB', '3'],
  [{ options: { memoryMb: 64 }, memoryMb: 2048, threads: 8 }, '64MB', '1'],
])(
  'a DuckDB of a connector has the threads of the job, as far as its memory suffices: %j',
  (context, memory_limit, threads) => {
    expect(memorySettings(context)).toEqual({ memory_limit, threads });
  },
);
