import { describe, expect, it } from 'vitest';
import { whileResponding } from '../../../src/sdk/index.js';

/** Waits for a statement that ends after that many questions, of a server that responds so to new connections, at last always the same way. */
async function waited(questions: number, responses: boolean[]) {
  const seen = { asked: 0, cuts: 0 };
  let done: (value: string) => void = () => undefined;
  const work = new Promise<string>((resolve) => {
    done = resolve;
  });
  const responds = async () => {
    seen.asked += 1;
    if (seen.asked === questions) done('done');
    return (responses.length > 1 ? responses.shift() : responses[0]) as boolean;
  };
  const cut = () => {
    seen.cuts += 1;
  };
  const end = await whileResponding(work, { server: 'the server', responds, cut, everyMs: 1 }).catch(
    ({ code, message }) => ({ code, message }),
  );
  return { end, ...seen };
}

describe('a statement that lasts', () => {
  it('is waited for while the server responds to others', async () => {
    expect(await waited(3, [true])).toEqual({ end: 'done', asked: 3, cuts: 0 });
  });

  it('is waited for if one new connection of two is lost', async () => {
    expect(await waited(4, [false, true])).toEqual({ end: 'done', asked: 4, cuts: 0 });
  });

  it('ends if nothing responds to two new connections', async () => {
    expect(await waited(10, [true, false])).toEqual({
      end: {
        code: 'destination_unavailable',
        message: 'the server has gone silent: it responds neither to a statement nor to a new connection',
      },
      asked: 3,
      cuts: 1,
    });
  });

  it('is not asked about if it is short, and fails as it fails', async () => {
    const short = Promise.resolve('done');
    const responds = () => Promise.reject(new Error('asked'));
    expect(await whileResponding(short, { server: 'it', responds, everyMs: 1 })).toBe('done');
    const failed = Promise.reject(new Error('refused'));
    await expect(whileResponding(failed, { server: 'it', responds: async () => true })).rejects.toThrow('refused');
  });
});
