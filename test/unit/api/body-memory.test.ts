import { gzipSync } from 'node:zlib';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type BodyAllocation, BodyMemory } from '../../../src/api/body-memory.js';
import { indexesPageOperation } from '../../../src/api/profile-api.js';
import { formatBytes } from '../../../src/core/quantities.js';
import { type Reply, scriptedService, serviceOptions, testClient } from './scripted-service.js';

const MB = 1_000_000;
const list = indexesPageOperation({});

/** A page of about this many bytes. */
function page(bytes: number): string {
  return JSON.stringify({ data: [{ id: 'x'.repeat(bytes) }] });
}

const ways: Readonly<Record<string, (text: string) => Reply>> = {
  'a stated length': (text) => (response) => {
    response.writeHead(200, { 'content-length': text.length });
    response.end(text);
  },
  'an unknown length': (text) => (response) => {
    response.writeHead(200);
    response.write(text.slice(0, 100_000));
    response.end(text.slice(100_000));
  },
  gzip: (text) => {
    const body = gzipSync(text);
    return (response) => {
      response.writeHead(200, { 'content-encoding': 'gzip' });
      response.end(body);
    };
  },
};

describe('The memory for bodies', () => {
  it('never keeps a body waiting for ever, and never gives out more than twice its bytes', () => {
    const step = fc.record({ which: fc.nat(9), does: fc.constantFrom('grow', 'grow', 'settle', 'take') });
    fc.assert(
      fc.property(fc.integer({ min: 10, max: 100 }), fc.array(step, { maxLength: 200 }), (bytes, steps) => {
        const space = new BodyMemory(bytes);
        const growing: BodyAllocation[] = [];
        const whole: BodyAllocation[] = [];
        const grow = (place: BodyAllocation) => {
          if (place.wanted === 0 && place.bytes < bytes) place.claim(Math.min(bytes, place.bytes + 7), () => undefined);
        };
        const check = () => {
          const sum = [...growing, ...whole].reduce((all, place) => all + place.bytes, 0);
          expect(space.used).toBe(sum);
          expect(space.used).toBeLessThanOrEqual(2 * bytes);
        };
        for (const { which, does } of steps) {
          const place = growing[which];
          if (does === 'take') whole.shift()?.release();
          else if (place === undefined) growing.push(space.enter());
          else if (does === 'grow') grow(place);
          else if (place.wanted === 0) {
            growing.splice(which, 1);
            place.settle(Math.ceil(place.bytes / 2));
            whole.push(place);
          }
          check();
        }
        // The settled bodies are released; then each other body, one after the other, can grow to the full size.
        for (const place of whole.splice(0)) place.release();
        for (const place of growing.splice(0)) {
          while (place.bytes < bytes) {
            grow(place);
            expect(place.wanted).toBe(0);
          }
          place.release();
        }
        expect(space.used).toBe(0);
        expect(space.whenMemoryIsFree).toBeUndefined();
      }),
    );
  });

  it('lets few large bodies grow in parallel while the process is busy, and all of them otherwise', () => {
    let isBusy = true;
    const space = new BodyMemory(192 * MB, () => isBusy);
    const [first, second, third] = [space.enter(), space.enter(), space.enter()];
    const claim = (place: BodyAllocation, bytes: number) => place.claim(bytes, () => undefined);
    expect(claim(first, 5 * MB)).toBe(true);
    expect(claim(second, 2 * MB)).toBe(true);
    expect(claim(third, 2 * MB)).toBe(false);
    expect(claim(first, 30 * MB)).toBe(true);
    first.settle(30 * MB);
    expect(third.bytes).toBe(0);
    first.release();
    expect(third.bytes).toBe(2 * MB);
    isBusy = false;
    expect(claim(third, 100 * MB)).toBe(true);
    expect(claim(second, 50 * MB)).toBe(true);
  });

  it('lets a body that waited for a busy process continue, although no other body ends', async () => {
    let isBusy = true;
    const space = new BodyMemory(192 * MB, () => isBusy);
    const [first, second] = [space.enter(), space.enter()];
    first.claim(20 * MB, () => undefined);
    const isFree = new Promise<void>((resolve) => second.claim(MB, resolve));
    isBusy = false;
    await isFree;
    expect(second.bytes).toBe(MB);
  });

  it('lets requests begin when the last body that waited has gone', async () => {
    const space = new BodyMemory(10);
    const [first, second] = [space.enter(), space.enter()];
    first.claim(10, () => undefined);
    second.claim(5, () => undefined);
    const { whenMemoryIsFree: calm } = space;
    second.release();
    await calm;
    expect(space.whenMemoryIsFree).toBeUndefined();
  });

  for (const [name, way] of Object.entries(ways)) {
    it(`lets large bodies of ${name} come one after the other`, async () => {
      const service = await scriptedService(way(page(3 * MB)));
      const { client, abort, meter } = testClient(serviceOptions(service.baseUrl), { bodyBytes: 4 * MB });
      let kept = 0;
      const bodies = Array.from({ length: 8 }, async () => {
        const { response } = await client.sendPage(list, () => ({}), { signal: abort.signal, meter });
        kept += 1;
        expect(kept).toBe(1);
        await new Promise((resolve) => setImmediate(resolve));
        kept -= 1;
        response.dispose();
      });
      await Promise.all(bodies);
      expect(meter).toMatchObject({ requests: 8, retries: 0 });
    });

    it(`refuses a body of ${name} that alone is too large, and names the options`, async () => {
      const service = await scriptedService(way(page(5 * MB)));
      const { failure, meter } = testClient(serviceOptions(service.baseUrl), { bodyBytes: 4 * MB });
      const error = await failure(list);
      expect(error).toMatchObject({ code: 'response_too_large', kind: 'fatal' });
      expect(error.message).toContain(`more than ${formatBytes(4 * MB)}`);
      expect(error.hint).toMatch(/`page_size`.*`resources.memory_mb`/);
      expect(meter.retries).toBe(0);
    });
  }

  it('is not fooled by a compressed body that states a smaller size than it has', async () => {
    const bomb = Buffer.concat([gzipSync(page(50 * MB)), gzipSync('')]);
    const service = await scriptedService((response) => {
      response.writeHead(200, { 'content-encoding': 'gzip' });
      response.end(bomb);
    });
    const { failure } = testClient(serviceOptions(service.baseUrl), { bodyBytes: 4 * MB });
    expect(await failure(list)).toMatchObject({ code: 'response_too_large' });
    const small = testClient(serviceOptions(service.baseUrl), { bodyBytes: 60 * MB });
    await expect(small.send(list)).resolves.toHaveProperty('data');
  });

  it('is given back by requests that are aborted while they wait for it', async () => {
    const service = await scriptedService(ways['an unknown length']?.(page(3 * MB)) as Reply);
    const { client, abort, meter, failure } = testClient(serviceOptions(service.baseUrl), { bodyBytes: 4 * MB });
    const { signal } = new AbortController();
    const { response } = await client.sendPage(list, () => ({}), { signal, meter });
    const waiting = Array.from({ length: 5 }, () => failure(list));
    while (service.received.length < 2) await new Promise((resolve) => setImmediate(resolve));
    abort.abort();
    for (const error of await Promise.all(waiting)) expect(error).toMatchObject({ code: 'interrupted' });
    response.dispose();
    await client.send(list, () => undefined, { signal, meter });
  });
});
