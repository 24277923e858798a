import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type Keychain, lookUpProfiles } from '../../../src/engine/inspect/lookup-profiles.js';
import { type Received, type Reply, scriptedService, serviceOptions, testClient } from '../api/scripted-service.js';

async function* list(keys: readonly Keychain[], failure?: Error): AsyncGenerator<Keychain> {
  yield* keys;
  if (failure !== undefined) throw failure;
}

const idOf = ({ body }: Received) => (JSON.parse(body) as { keys: { id: string } }).keys.id;
const profile = (id: string) => JSON.stringify({ profile_id: id });

async function lookups(reply: (id: string) => Reply, concurrency = 8) {
  const service = await scriptedService((response, request) => {
    const made = reply(idOf(request));
    if (typeof made === 'function') return made(response, request);
    response.writeHead(made.status).end(JSON.stringify(made.body ?? {}));
  });
  const { client, abort } = testClient(serviceOptions(service.baseUrl));
  const task = {
    client,
    signal: abort.signal,
    collection: 'c',
    enrich: false,
    method: 'post',
    atOnce: { count: concurrency },
  } as const;
  return { service, abort, ask: (questions: AsyncIterable<Keychain>) => lookUpProfiles(task, questions) };
}

async function collected(responses: AsyncIterable<string | null>) {
  const found: (string | null)[] = [];
  try {
    for await (const response of responses) found.push(response);
    return { found, error: undefined };
  } catch (error) {
    return { found, error };
  }
}

describe('Lookups', () => {
  it('are answered in the order of the questions, however long each takes, and not all at once', async () => {
    let under = 0;
    let most = 0;
    const { ask } = await lookups((id) => (response) => {
      under += 1;
      most = Math.max(most, under);
      setTimeout(() => {
        under -= 1;
        if (id.endsWith('!')) response.writeHead(404).end('{}');
        else response.end(profile(id));
      }, Number.parseInt(id, 10) % 7);
    });
    const ids = fc.array(fc.tuple(fc.nat(99), fc.constantFrom('', '!')), { maxLength: 40 });
    await fc.assert(
      fc.asyncProperty(ids, async (drawn) => {
        const asked = drawn.map(([number, end]) => `${number}${end}`);
        const { found } = await collected(ask(list(asked.map((id) => ({ id })))));
        expect(found).toEqual(asked.map((id) => (id.endsWith('!') ? null : profile(id))));
      }),
      { numRuns: 20 },
    );
    expect(most).toBe(8);
  });

  it('are answered before the last question has arrived', async () => {
    const { ask } = await lookups((id) => ({ status: 200, body: { profile_id: id } }));
    let goOn = () => {};
    const answered = new Promise<void>((resolve) => {
      goOn = resolve;
    });
    async function* questions(): AsyncGenerator<Keychain> {
      yield { id: '1' };
      await answered;
      yield { id: '2' };
    }
    const found: (string | null)[] = [];
    for await (const response of ask(questions())) {
      found.push(response);
      goOn();
    }
    expect(found).toEqual([profile('1'), profile('2')]);
  });

  it('yield the responses before a failed one, and end there', async () => {
    const { ask } = await lookups((id) => (id === '3' ? { status: 403 } : { status: 200, body: { profile_id: id } }));
    const questions = Array.from({ length: 30 }, (_, index) => ({ id: String(index) }));
    const { found, error } = await collected(ask(list(questions)));
    expect(found).toEqual(['0', '1', '2'].map(profile));
    expect(error).toMatchObject({ code: 'forbidden' });
  });

  it('yield the responses before a wrong question', async () => {
    const { ask } = await lookups((id) => ({ status: 200, body: { profile_id: id } }));
    const { found, error } = await collected(ask(list([{ id: '1' }, { id: '2' }], new Error('line 3'))));
    expect([found, error]).toEqual([[profile('1'), profile('2')], new Error('line 3')]);
  });

  it('end when the user asks to stop', async () => {
    const { ask, abort } = await lookups(() => () => abort.abort());
    expect((await collected(ask(list([{ id: '1' }, { id: '2' }])))).error).toMatchObject({ kind: 'interrupted' });
  });

  it('keep the text of the service, digit for digit, on one line', async () => {
    const text =
      '{\n  "profile_id" : "a",\r\n\t"attributes": { "n": 12345678901234567890, "d": 1.50, "t": " a \\" : {\\\\" }\n}';
    const { ask } = await lookups(() => (response) => response.end(text));
    expect((await collected(ask(list([{ id: '1' }])))).found).toEqual([
      '{"profile_id":"a","attributes":{"n":12345678901234567890,"d":1.50,"t":" a \\" : {\\\\"}}',
    ]);
  });
});
