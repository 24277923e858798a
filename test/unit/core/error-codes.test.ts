import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import type { z } from 'zod';
import { jobGuards } from '../../../src/config/guard-options.js';
import { allErrorCodes, type ErrorCode, type ErrorKind, errorType } from '../../../src/core/error-codes.js';
import { CdsyncError as SdkError } from '../../../src/sdk/errors.js';
import { unwrap } from '../../../src/sdk/option.js';

/** A code of a finding of zod, which ends no command. */
const noErrors: ReadonlySet<string> = new Set(['custom']);
/** Codes that the sources put together: `${what}_not_found`. */
const composed = /^(stream|destination)_not_found$/;
/** The codes of guards: all options under `guards:` but what happens if one fails. */
const guardCodes = Object.keys((unwrap(jobGuards).core as z.ZodObject).shape)
  .filter((name) => !['action', 'new_storage'].includes(name))
  .map((name) => `guard_${name}`);

const exitOfKind: Readonly<Record<ErrorKind, string>> = {
  configuration: '2',
  auth: '4',
  retryable: '1',
  interrupted: '130',
  locked: '75',
  fatal: '1',
};

/** Exit codes of errors that end different commands differently, of held streams and of warnings. */
const otherExits: Partial<Record<ErrorCode, string>> = {
  sql_failed: '2, 1',
  empty_answer: '3',
  column_unknown: '3, 0, 1',
  guard_column_unknown: '0',
  no_rows: '0',
  total_missing: '0',
  column_unselected: '0',
  delete_unconfirmed: '0',
  forgotten_returned: '0',
  stream_unconfigured: '0',
  not_held: '2, 1',
  held_outdated: '2, 1',
  clock_off: '1, 0',
  metrics_shared: '-',
  receiver_failed: '-',
  // Of a destination: the run continues, and ends with 1.
  destination_url: '1',
  destination_ca_file: '1',
  template_invalid: '2, 1',
  changes_gone: '1, 3',
  records_waiting: '5',
  removal_owed: '5',
  table_changed: '5, 1',
  values_refused: '5, 1',
  row_rejected: '1, 5',
};

function exitsOf(code: ErrorCode): string {
  return otherExits[code] ?? exitOfKind[errorType(code).kind ?? 'fatal'];
}

async function sources(): Promise<string> {
  const texts: string[] = [];
  for (const root of ['src', 'connectors'])
    for (const name of await readdir(root, { recursive: true }))
      if (name.endsWith('.ts') && name !== join('core', 'error-codes.ts'))
        texts.push(await readFile(join(root, name), 'utf8'));
  return texts.join('\n');
}

/** For each code on the page its exit codes, as the first columns of its rows have them. */
async function documented(): Promise<Map<string, string[]>> {
  const exits = new Map<string, string[]>();
  for (const row of (await readFile('docs/errors.md', 'utf8')).split('\n')) {
    const [, codes = '', exit = ''] = row.split('|');
    for (const [, code = ''] of codes.matchAll(/`([a-z]+(?:_[a-z]+)*)`/g))
      exits.set(code, [...(exits.get(code) ?? []), ...exit.trim().split(', ')].sort());
  }
  return exits;
}

describe('the table of error codes', () => {
  it('has a row on docs/errors.md for each code, with its exit code, and the page has no other', async () => {
    const expected = allErrorCodes.map((code) => [code, exitsOf(code).split(', ').sort()]);
    const held = guardCodes.map((code) => [code, ['3']]);
    expect(held.length).toBeGreaterThan(7);
    expect(Object.fromEntries(await documented())).toEqual(Object.fromEntries([...expected, ...held]));
  });

  it('has only codes that are used', async () => {
    const text = await sources();
    expect(allErrorCodes.filter((code) => !composed.test(code) && !text.includes(`'${code}'`))).toEqual([]);
  });

  it('has every code of a connector and of a warning', async () => {
    const used = (await sources()).matchAll(/\bcode: '([a-z]+(?:_[a-z]+)*)'/g);
    const codes = new Set(Array.from(used, ([, code = '']) => code).filter((code) => !noErrors.has(code)));
    expect(codes.size).toBeGreaterThan(80);
    expect([...codes].filter((code) => !(allErrorCodes as string[]).includes(code))).toEqual([]);
  });
});

describe('the error of a connector from outside', () => {
  it('may have a code that no other has, of any kind', () => {
    expect(new SdkError('no', { code: 'own_refusal' })).toMatchObject({ kind: 'fatal', resumable: true });
    expect(new SdkError('no', { code: 'own_refusal', kind: 'retryable' }).kind).toBe('retryable');
    expect(new SdkError('no', { code: 'constructor' }).kind).toBe('fatal');
  });

  it('takes its kind from the code if cdsync has it', () => {
    expect(new SdkError('no', { code: 'destination_login' }).kind).toBe('auth');
    expect(new SdkError('no', { code: 'page_loop' }).resumable).toBe(false);
  });
});
