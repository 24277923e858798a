import { describe, expect, it } from 'vitest';
import { meant } from '../../../src/core/suggestions.js';
import { members, problemsOf, withStream } from './sample.js';

describe('a word of another tool, or a value without its unit', () => {
  it.each([
    ['type', ['name', 'connector'], 'connector'],
    ['host', ['name', 'url'], 'url'],
    ['overwrite', ['append', 'upsert', 'mirror', 'replace'], 'replace'],
    ['error', ['started', 'ok', 'failed'], 'failed'],
    ['indx', ['index', 'name'], 'index'],
    ['toString', ['index'], undefined],
  ])('%s is answered with the word that is meant', (word, candidates, expected) => {
    expect(meant(word, candidates)).toBe(expected);
  });
});

it('the file says which word is meant, and what to do about several values', () => {
  const text = `${withStream(...members, 'filter: { country: [DE, US] }')}    destinations:
      - { name: w, type: postgres }
      - { name: v, connector: postgres, host: db.example.com, mode: overwrite }
`;
  const found = problemsOf(text).join('\n');
  for (const words of [
    'filter.country: must be text, one value: several values are several streams, found a list',
    '.type: unknown key; did you mean "connector"?',
    '.mode: unknown value, found "overwrite"; did you mean "replace"?',
    '.host: unknown key; did you mean "url"?',
  ])
    expect(found).toContain(words);
});
