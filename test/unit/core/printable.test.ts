import '../../fixtures/property-seed.js';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { printable, visible, visibleJson } from '../../../src/core/printable.js';

const hostile = /[\p{Cc}\p{Zl}\p{Zp}\p{Bidi_Control}\u{FEFF}]/u;
const texts = fc.string({ unit: 'binary', maxLength: 40 });

describe('text on its way to a terminal', () => {
  it.each([
    ['\x1b[31mred\x1b[0m', '\\x1b[31mred\\x1b[0m'],
    ['\x1b]52;c;cGx1Z2g=\x07', '\\x1b]52;c;cGx1Z2g=\\x07'],
    ['a\nb\r\nc\td', 'a\\nb\\r\\nc\\td'],
    ['\x00\x7f\x85\x9b1m', '\\x00\\x7f\\x85\\x9b1m'],
    ['abc\u202Etxt.exe\u2066', 'abc\\u202etxt.exe\\u2066'],
    ['a\u2028b\u2029c\uFEFF', 'a\\u2028b\\u2029c\\ufeff'],
    ['half \uD800 of one', 'half \\ud800 of one'],
  ])('shows %j', (text, shown) => expect(visible(text)).toBe(shown));

  it.each(['', 'plain', 'Zürich', '東京', '👩‍👩‍👧', 'می‌خواهم', 'שלום', 'C:\\x1b'])('stays as it is: %j', (text) =>
    expect(visible(text)).toBe(text),
  );

  it('has nothing that a terminal obeys, and becomes no different when it passes twice', () => {
    fc.assert(
      fc.property(texts, (text) => {
        expect(visible(text)).not.toMatch(hostile);
        expect(visible(visible(text))).toBe(visible(text));
      }),
    );
  });

  it('keeps its value if it is JSON', () => {
    fc.assert(
      fc.property(fc.dictionary(texts, texts), (value) => {
        const json = visibleJson(JSON.stringify(value, null, 1));
        expect(json.replaceAll('\n', '')).not.toMatch(hostile);
        expect(JSON.parse(json)).toEqual(value);
      }),
    );
  });
});

const jwt = `eyJ${'a'.repeat(20)}.eyJ${'b'.repeat(20)}.${'c'.repeat(20)}`;

describe('a foreign message', () => {
  it.each([
    ['a JWT', `invalid token ${jwt}`],
    ['a bearer token', 'sent Authorization: Bearer abcdefghijklmnop-123'],
    ['a basic login', 'sent Authorization: Basic dXNlcjpwYXNzd29yZA=='],
    ['a login in a URL', 'cannot reach amqp://user:p4ss@mq.example.com/x'],
    ['a key of AWS', `the key ${'AKIA'}ABCDEFGHIJKLMNOP is unknown`],
    ['a token of GitHub', `bad ${'ghp'}_${'a'.repeat(36)}`],
    ['a token of GitLab', `bad ${'glpat'}-${'a'.repeat(20)}`],
    ['a token of Slack', `bad ${'xoxb'}-${'1'.repeat(12)}-${'a'.repeat(12)}`],
    ['a webhook of Slack', 'POST https://hooks.slack.com/services/T0/B0/aaaabbbb'],
    ['a key of Stripe', `bad ${'sk'}_live_${'a'.repeat(24)}`],
    ['a key of Google', `bad ${'AIza'}${'a'.repeat(35)}`],
    ['a signed URL of S3', 'GET https://b.example.com/k?X-Amz-Signature=aaaa&X-Amz-Credential=bbbb failed'],
    ['a signed URL of Azure', 'GET https://b.example.com/k?sv=1&sig=aaaa%3D failed'],
    ['a connection string', 'DefaultEndpointsProtocol=https;AccountName=a;AccountKey=aaaabbbb=='],
    ['a parameter of a driver', "no login with password='aaaabbbb' for me"],
    ['a private key', '-----BEGIN PGP PRIVATE KEY BLOCK-----\naaaabbbb\n-----END PGP PRIVATE KEY BLOCK-----'],
    ['half a private key', '-----BEGIN RSA PRIVATE KEY-----\naaaabbbb'],
  ])('loses %s', (_, text) => {
    const shown = printable(text);
    expect(shown).toContain('[secret]');
    expect(shown).not.toMatch(/aaaa|bbbb|p4ss|dXNl|abcdefgh|ABCDEF/);
    expect(printable(shown)).toBe(shown);
  });

  it('keeps words about them', () => {
    for (const text of [
      'the password is wrong',
      'basic authentication is off',
      'a bearer token is needed',
      'see https://h.example.com/a?page=2&size=5',
    ])
      expect(printable(text)).toBe(text);
  });
});
