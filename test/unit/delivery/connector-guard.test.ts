import { describe, expect, it } from 'vitest';
import { CdsyncError } from '../../../src/core/errors.js';
import { Secret } from '../../../src/core/secret.js';
import { guardConnector } from '../../../src/delivery/connector-guard.js';
import type { DestinationContext, RecordDestination, RecordResult } from '../../../src/sdk/destination.js';
import { recordConnector } from '../../../src/sdk/destination.js';
import { ColumnNotWidened } from '../../../src/sdk/errors.js';

const token = 'tok-3f9a77d1';
const options = { token: new Secret(token), nested: [{ password: new Secret('p@ss/word') }] };
const context = { options } as unknown as DestinationContext;

/** A class as another copy of the package has it: the same brand, no common prototype. */
class ForeignError extends Error {
  readonly code = 'destination_unavailable';
  readonly kind = 'retryable';
  readonly hint = `try with ${token}`;
  readonly causeQuotesValues = false;
  get [Symbol.for('cdsync.error')]() {
    return true;
  }
}

function guardedThat(send: () => Promise<readonly RecordResult[]>) {
  const destination: RecordDestination = { send, close: async () => undefined };
  const connector = recordConnector({
    name: 'outside',
    summary: '',
    options: {},
    capabilities: {} as never,
    open: async () => destination,
  });
  return guardConnector(connector, options);
}

async function failureOf(thrown: unknown): Promise<CdsyncError> {
  const destination = await guardedThat(async () => {
    throw thrown;
  }).open(context);
  return destination.send([], new AbortController().signal).then(
    () => expect.unreachable('it throws'),
    (error: CdsyncError) => error,
  );
}

describe('an error of a connector', () => {
  it('shows no secret of the destination, raw or encoded', async () => {
    const thrown = new CdsyncError(`the token ${token} is wrong`, {
      code: 'destination_login',
      hint: 'is p%40ss%2Fword right?',
    });
    const error = await failureOf(thrown);
    expect(error.message).toBe('the token [secret] is wrong');
    expect(error.hint).toBe('is [secret] right?');
    expect([error.code, error.kind]).toEqual(['destination_login', 'auth']);
  });

  it('keeps code and kind if its class is that of another copy of cdsync', async () => {
    const error = await failureOf(new ForeignError(`cannot reach it with ${token}`));
    expect(Object.getPrototypeOf(error)).toBe(CdsyncError.prototype);
    expect([error.message, error.code, error.kind]).toEqual([
      'cannot reach it with [secret]',
      'destination_unavailable',
      'retryable',
    ]);
    expect(error.hint).toBe('try with [secret]');
  });

  it('without a code names the connector, and not its text, which may be a record', async () => {
    const error = await failureOf(new Error('cannot store {"email":"ann@example.com"}'));
    expect(error.code).toBe('connector_failed');
    expect(error.message).toContain('"outside"');
    expect(`${error.message} ${error.hint}`).not.toContain('ann@');
    expect(error.causeQuotesValues).toBe(true);
  });

  it('of a file operation is not one of the storage folder', async () => {
    const failed = (code: string) =>
      failureOf(Object.assign(new Error(`${code}: failed, write`), { code, syscall: 'write' }));
    const error = await failed('ENOSPC');
    expect(error.message).toMatch(/^connector "outside": the disk is full/);
    expect(error.hint).not.toContain('checkpoint');
    const codes = await Promise.all(
      ['ENOSPC', 'EFBIG', 'EIO', 'EACCES', 'EROFS'].map(async (code) => (await failed(code)).code),
    );
    const [full, rights] = ['destination_refused', 'destination_permission'];
    expect(codes).toEqual([full, full, full, rights, rights]);
  });

  it('about a column stays one', async () => {
    const error = await failureOf(
      new ColumnNotWidened('age', new CdsyncError(`no: ${token}`, { code: 'destination_refused' })),
    );
    expect(error).toBeInstanceOf(ColumnNotWidened);
    expect((error as ColumnNotWidened).column).toBe('age');
    expect(error.message).toBe('no: [secret]');
  });

  it('that is interrupted is an interruption', async () => {
    const { signal } = { signal: AbortSignal.abort() };
    expect((await failureOf(signal.reason)).kind).toBe('interrupted');
  });
});

it('the reasons of a connector show no secret', async () => {
  const destination = await guardedThat(async () => [
    { type: 'acknowledged' },
    { type: 'refused', reason: `401 for ${token}` },
  ]).open(context);
  expect(await destination.send([], new AbortController().signal)).toEqual([
    { type: 'acknowledged' },
    { type: 'refused', reason: '401 for [secret]' },
  ]);
});
