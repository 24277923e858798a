import { expect, it } from 'vitest';
import { redactor, Secret } from '../../../src/core/secret.js';

it('a secret is taken out of a text as it is, as a URL and as JSON have it, whatever characters it has', () => {
  const redact = redactor(
    ['half \ud800 of a pair', 'quoted "text"', 'http://user:pa%ss@host', 'abc'].map((text) => new Secret(text)),
  );
  expect(redact('a half \ud800 of a pair')).toBe('a [secret]');
  expect(redact('half%20%EF%BF%BD%20of%20a%20pair "quoted \\"text\\""')).toBe('[secret] "[secret]"');
  expect(redact('the password pa%ss, and abc')).toBe('the password [secret], and abc');
});
