import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { PageTokens } from '../../../src/local-service/page-token.js';

const list = fc.integer({ min: 0, max: 0xffff_ffff });
const position = fc.record({
  position: fc.integer({ min: 0, max: 2 ** 40 }),
  salt: fc.integer({ min: 0, max: 0xffff_ffff }),
});

describe('page tokens', () => {
  it('give back the position that they were issued for, in every service with the seed', () => {
    fc.assert(
      fc.property(list, position, fc.nat(), (id, place, seed) => {
        const token = new PageTokens(seed).issue(id, place);
        expect(token).toMatch(/^[\w-]{32}$/);
        expect(new PageTokens(seed).read(id, token)).toEqual(place);
      }),
    );
  });

  it('are refused by another list, by another seed, and with any character changed', () => {
    fc.assert(
      fc.property(list, position, fc.integer({ min: 0, max: 31 }), (id, place, at) => {
        const tokens = new PageTokens(1);
        const token = tokens.issue(id, place);
        expect(tokens.read((id + 1) >>> 0, token)).toBeUndefined();
        expect(new PageTokens(2).read(id, token)).toBeUndefined();
        const changed = token.slice(0, at) + (token[at] === 'x' ? 'y' : 'x') + token.slice(at + 1);
        expect(tokens.read(id, changed)).toBeUndefined();
      }),
    );
  });

  it('are accepted: any other text is refused', () => {
    fc.assert(fc.property(fc.string(), (text) => new PageTokens(1).read(1, text) === undefined));
  });

  it('are all refused after they have expired', () => {
    const tokens = new PageTokens(1);
    const old = tokens.issue(1, { position: 5, salt: 0 });
    tokens.expireAll();
    expect(tokens.read(1, old)).toBeUndefined();
    expect(tokens.read(1, tokens.issue(1, { position: 5, salt: 0 }))).toEqual({ position: 5, salt: 0 });
  });
});
