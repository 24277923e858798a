import { describe, expect, it } from 'vitest';
import { exitCodeOfCheck, nextAfterCheck } from '../../../src/output/check.js';

const error = (auth: boolean | string) => ({
  code: auth === true ? 'forbidden' : String(auth),
  message: 'x',
  hint: null,
  request_id: null,
  auth: auth !== false,
});
const stream = (auth?: boolean | string) => ({
  name: 's',
  total: null,
  untried: null,
  error: auth === undefined ? null : error(auth),
});
const destination = (auth?: boolean | 'lacks') => ({
  name: 'd',
  connector: 'duckdb',
  streams: ['s'],
  status: auth === undefined ? ('ok' as const) : ('failed' as const),
  reached: 'there',
  lacks: auth === 'lacks' ? [{ message: 'a right', hint: 'GRANT' }] : [],
  untried: null,
  error: typeof auth === 'boolean' ? error(auth) : null,
});
const contract = (breaks: boolean) => ({ name: 's', records: 1, differences: ['new column'], texts: [], breaks });
const checked = (
  streams: ReturnType<typeof stream>[],
  destinations: ReturnType<typeof destination>[] = [],
  contracts: ReturnType<typeof contract>[] | null = null,
) => ({ status: 'failed' as const, job: 'j', warnings: [], token_expires_at: null, streams, destinations, contracts });

describe('a check that failed', () => {
  it.each([
    [4, checked([stream(true), stream()])],
    [1, checked([stream(true), stream(false)])],
    [4, checked([stream()], [destination('lacks'), destination(true)])],
    [1, checked([stream(true)], [destination(false)])],
    [1, checked([stream()], [], [contract(true)])],
  ])('exits with %i for %j', (code, of) => {
    expect(exitCodeOfCheck(of)).toBe(code);
  });

  it.each([
    ['cdsync discover', checked([stream(true)])],
    ['cdsync check', checked([stream(false)])],
    ['correct it, then: cdsync check', checked([stream('oauth_failed')])],
    ['correct it, then: cdsync check', checked([stream('token_unusable'), stream(true)])],
    ['the destination, then: cdsync check', checked([stream()], [destination(false)])],
    ['cdsync check --contract', checked([stream()], [], [contract(true)])],
  ])('suggests %s, and never a run, for %j', (next, of) => {
    expect(nextAfterCheck(of)).toContain(next);
    expect(nextAfterCheck(of)).not.toContain('cdsync run');
  });
});
