import { expect, it } from 'vitest';
import { printable } from '../../../src/core/printable.js';
import { noteSecrets, redactor, Secret } from '../../../src/core/secret.js';

it('a secret is taken out of a text as it is, as a URL and as JSON have it, whatever characters it has', () => {
  const redact = redactor(
    ['half \ud800 of a pair', 'quoted "text"', 'http://user:pa%ss@host', 'abc'].map((text) => new Secret(text)),
  );
  expect(redact('a half \ud800 of a pair')).toBe('a [secret]');
  expect(redact('half%20%EF%BF%BD%20of%20a%20pair "quoted \\"text\\""')).toBe('[secret] "[secret]"');
  expect(redact('the password pa%ss, and abc')).toBe('the password [secret], and abc');
});

const words = (texts: readonly string[]) => redactor(texts.map((text) => new Secret(text)));
const pem = [
  '-----BEGIN OPENSSH PRIVATE KEY-----',
  'b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAE',
  'QyNTUxOQAAACDf0c1nWmQ1x7vP4h',
  '-----END OPENSSH PRIVATE KEY-----',
];

it.each([
  [
    'a login of Basic',
    'pass-word-12',
    `Basic ${Buffer.from('user:pass-word-12').toString('base64')}`,
    /cGFzcy|YXNzLX|dvcmQt/,
  ],
  [
    'base64 for URLs',
    '???>>>~~~secret',
    Buffer.from('ab???>>>~~~secret').toString('base64url'),
    /c2VjcmV0|NlY3Jl|zZWNy/,
  ],
  ['a lower percent code', 'a/b+c d=e', 'at a%2fb%2bc%20d%3de', /%2f/],
  ['a form', 'a/b+c d=e', 'key=a%2Fb%2Bc+d%3De', /%2F/],
  [
    'a path of a webhook',
    'https://hooks.example.com/services/T0AA/B0BB/xyzxyzxyz',
    'POST /services/T0AA/B0BB/xyzxyzxyz: 404',
    /xyzxyz/,
  ],
  [
    'a signed URL',
    'https://h.example.com/f?sv=2024&sig=abcdefgh%2Bijk',
    'the signature abcdefgh+ijk differs',
    /abcdefgh/,
  ],
  ['a token as user', 'https://tok_0123456789@h.example.com/', 'no such user tok_0123456789', /tok_/],
  ['a line of a key', pem.join('\n'), `bad line ${pem[1]}`, /b3Blbn/],
  [
    'a member of JSON credentials',
    JSON.stringify({ type: 'x', private_key: pem.join('\n') }),
    `bad key ${pem[2]}`,
    /QyNTUx/,
  ],
  [
    'a member of a connection string',
    'Server=tcp:h;User Id=me;Password=Pa55word;Encrypt=1',
    'login failed: Pa55word',
    /Pa55/,
  ],
  ['a pair of a connection string', "host=db user=me password='Pa55 x'", 'login failed: Pa55', /Pa55/],
])('a secret is taken out of a text as %s has it', (_, secret, text, left) => {
  expect(text).toMatch(left);
  expect(words([secret])(text)).not.toMatch(left);
});

it('each value of headers as OpenTelemetry lists them is a secret', () => {
  const hide = redactor([new Secret('authorization=Bearer%20t0ken-of-mine, x-team=another-k3y')]);
  expect(hide('no t0ken-of-mine; Bearer%20t0ken-of-mine; "Bearer t0ken-of-mine"; another-k3y; x-team')).toBe(
    'no [secret]; [secret]; "[secret]"; [secret]; x-team',
  );
});

it('the other parts of a URL or a document stay: hosts, databases, types', () => {
  const hide = words([
    'postgres://me:pass-word@db.example.com/production_warehouse_of_all',
    '{"type":"service_account","token_uri":"https://oauth2.example.com/token","private_key":"aaaabbbbcccc"}',
  ]);
  const text = 'db.example.com/production_warehouse_of_all for a service_account of https://oauth2.example.com/token';
  expect(hide(text)).toBe(text);
});

it('a secret is taken out of a text however it is spelled, also one way within the other', () => {
  const text = `p'a"s%s+w/o=r&d<ü>\\ x\n2`;
  const json = (words: string) => JSON.stringify(words).slice(1, -1);
  const html = (words: string) =>
    words
      .replaceAll('&', '&amp;')
      .replaceAll('<', '&lt;')
      .replaceAll('>', '&gt;')
      .replaceAll('"', '&quot;')
      .replaceAll("'", '&#39;');
  const ways = [(words: string) => words, json, html, encodeURIComponent];
  for (const one of ways) for (const other of ways) expect(words([text])(`(${one(other(text))})`)).toBe('([secret])');
  for (const spelled of [
    text.replaceAll("'", "''"),
    text.replaceAll('\n', ' '),
    new URLSearchParams({ '': text }).toString().slice(1),
  ])
    expect(words([text])(`(${spelled})`)).toBe('([secret])');
  for (const way of ways)
    for (const coding of ['hex', 'base64'] as const)
      expect(words([text])(Buffer.from(way(text)).toString(coding))).toMatch(/^.{0,2}\[secret\].{0,3}$/);
});

it('a secret of a destination is taken out of a text before anything else is', () => {
  const login = 'kanarie"me@host.example" and more';
  noteSecrets([new Secret(login)]);
  expect(printable(`no login ${login}`)).toBe('no login [secret]');
  expect(printable(`${'.'.repeat(290)}${login}`)).toBe(`${'.'.repeat(290)}[secret]`);
});

it('a secret that ends with a letter of several bytes leaves nothing of it', () => {
  expect(words(['voilà'])('(voilà) (voil%C3%A0)')).toBe('([secret]) ([secret])');
});
