import { expect, test } from 'vitest';
import { templateFaults } from '../../../../src/sdk/template/faults.js';
import { TemplateFailure } from '../../../../src/sdk/template/filters.js';
import { markedLiteral } from '../../../../src/sdk/template/marks.js';
import { BodyTemplate, TemplateRow, TextTemplate } from '../../../../src/sdk/template/template.js';

const json = `{"id":"a/b c","big":123456789012345678901234567890,"price":1.50,"n":7,"zero":0,"none":null,"empty":"","no":false,
"tags":["x",2,18446744073709551615],"address":{"city":"Bonn","zip":"05311"},"first name":"Ada","email":" Ada@X.org ","born":"1990-05-01",
"seen":"2026-07-15T23:30:00.123456Z","phone":"0171 / 123-4567"}`;
const row = TemplateRow.of({
  ...{ id: 'f00', stream: 'members', op: 'update', key: 'a/b c', syncedAt: '2026-07-15T00:00:00.000Z', json },
});
const typed = (body: unknown, omitsNull = false) => new BodyTemplate(body, { omitsNull }).json(row);
const text = (template: string) => new TextTemplate(template).render(row);
const messages = (template: unknown) => templateFaults(template).map(({ message }) => message);

test.each([
  ['{{ big }}', '123456789012345678901234567890'],
  ['  {{big}} ', '123456789012345678901234567890'],
  ['{{ price }}', '1.50'],
  ['{{ n }}', '7'],
  ['{{ zero }}', '0'],
  ['{{ none }}', 'null'],
  ['{{ empty }}', '""'],
  ['{{ no }}', 'false'],
  ['{{ tags }}', '["x",2,18446744073709551615]'],
  ['{{ address }}', '{"city":"Bonn","zip":"05311"}'],
  ['{{ address.zip }}', '"05311"'],
  ['{{ ["first name"] }}', '"Ada"'],
  ['{{ _op }}', '"update"'],
  ['{{ tags[2] }}', '18446744073709551615'],
  ['{{ nothing_of_this_name }}', 'null'],
])('a placeholder alone, %s, keeps the type and every digit', (template, expected) => {
  expect(typed(template)).toBe(expected);
});

test.each([
  ['tel {{ none }}', 'tel '],
  ['n={{ n }} p={{ price }} b={{ big }}', 'n=7 p=1.50 b=123456789012345678901234567890'],
  ['{{ tags }}!', '["x",2,18446744073709551615]!'],
  ['{{ address }}!', '{"city":"Bonn","zip":"05311"}!'],
  ['{{ no }}, {{ zero }}, {{ empty }}.', 'false, 0, .'],
  ['{% if big > 5 and price == 1.5 %}yes{% else %}no{% endif %}', 'yes'],
  ['{% case n %}{% when 7 %}seven{% endcase %}', 'seven'],
  ['{% for tag in tags %}{{ tag }};{% endfor %}', 'x;2;18446744073709551615;'],
  ['{% assign low = email | downcase | strip %}<{{ low }}>', '<ada@x.org>'],
  ['{% raw %}{{ n }}{% endraw %}{% comment %}{{ gone }}{% endcomment %}', '{{ n }}'],
])('inside of a text, %s is text', (template, expected) => {
  expect(text(template)).toBe(expected);
});

test.each([
  ['big | plus: 1', '123456789012345678901234567891'],
  ['price | plus: "0.1"', '1.6'],
  ['price | times: big', '185185183518518518351851851835'],
  ['n | divided_by: 2', '3.5'],
  ['n | divided_by: 3', '2.33333333333333333333'],
  ['n | modulo: 4', '3'],
  ['price | round', '2'],
  ['big | round: -3', '123456789012345678901234568000'],
  ['price | ceil', '2'],
  ['price | floor', '1'],
  ['n | minus: 9 | abs', '2'],
  ['n | at_least: big', '123456789012345678901234567890'],
  ['big | at_most: n', '7'],
  ['none | plus: 1', 'null'],
  ['n | plus: none', 'null'],
  ['none | downcase', 'null'],
  ['none | sha256', 'null'],
  ['empty | sha256', 'null'],
  ['n | sha256', '"7902699be42c8a8e46fbbb4501726517e86b22c56a189f7625a6da49081b2451"'],
  ['"a" | md5', '"0cc175b9c0f1b6a831c399e269772661"'],
  [
    '"The quick brown fox jumps over the lazy dog" | hmac_sha256: "key"',
    '"f7bc83f430538424b13298e6aa6fb143ef4d59a14946175997479dbc2d1a3cd8"',
  ],
  ['none | default: "x"', '"x"'],
  ['empty | default: 5', '5'],
  ['zero | default: 5', '0'],
  ['no | default: 5', '5'],
  ['no | default: 5, allow_false: true', 'false'],
  ['big | default: 1', '123456789012345678901234567890'],
  ['tags | json', JSON.stringify('["x",2,18446744073709551615]')],
  ['tags | sort', '[2,18446744073709551615,"x"]'],
  ['tags | join: ","', '"x,2,18446744073709551615"'],
  ['phone | e164', 'null'],
  ['phone | e164: "49"', '"+491711234567"'],
  ['"0049 171 1234567" | e164', '"+491711234567"'],
  ['n | pad: 4', '"0007"'],
  ['email | url_encode', '"+Ada%40X.org+"'],
  ['seen | date: "%Y-%m-%d %H:%M"', '"2026-07-15 23:30"'],
  ['born | date: "%d.%m.%Y"', '"01.05.1990"'],
  ['"2026-07-15 01:00:00" | date: "%Y-%m-%d %H:%M:%S"', '"2026-07-15 01:00:00"'],
  ['none | date: "%Y"', 'null'],
  ['email | date: "%Y"', '" Ada@X.org "'],
  ['address.city | upcase | append: "!"', '"BONN!"'],
])('%s', (expression, expected) => {
  expect(typed(`{{ ${expression} }}`)).toBe(expected);
});

test('dates are in UTC, whatever the zone of the machine', () => {
  const zone = process.env.TZ;
  process.env.TZ = 'America/New_York';
  try {
    expect(typed('{{ born | date: "%Y-%m-%d" }}')).toBe('"1990-05-01"');
    expect(typed('{{ "2026-07-15 01:00:00" | date: "%s" }}')).toBe('"1784077200"');
  } finally {
    if (zone === undefined) delete process.env.TZ;
    else process.env.TZ = zone;
  }
});

test('members that are NULL are left out only if asked', () => {
  const body = { a: '{{ none }}', b: '{{ empty }}', c: ['{{ none }}'], d: '{{ zero }}' };
  expect(typed(body)).toBe('{"a":null,"b":"","c":[null],"d":0}');
  expect(typed(body, true)).toBe('{"b":"","c":[null],"d":0}');
});

test('a value in a URL stays in its segment, unless raw asks otherwise', () => {
  const url = new TextTemplate('https://x/{{ id }}/{{ address.city }}?q={{ email }}&r={{ id | raw }}', { isUrl: true });
  expect(url.render(row)).toBe('https://x/a%2Fb%20c/Bonn?q=%20Ada%40X.org%20&r=a/b c');
});

test.each([
  ['{{ first name }}', '"name" is left over after a value; a column whose name has spaces is written ["first name"]'],
  ['{{ email | downcaes }}', 'there is no filter "downcaes"; did you mean "downcase"?'],
  ['{{ email | sample }}', 'there is no filter "sample"'],
  ['{{ email | append }}', 'the filter "append" takes 1 argument, and has 0'],
  ['{{ email | downcase: 1 }}', 'the filter "downcase" takes 0 arguments, and has 1'],
  ['{{ email | default: 1, deny: true }}', 'the filter "default" has no argument "deny"'],
  ['{{ "now" | date: "%Y" }}', '"now" would be another time at each try; use _synced_at'],
  ["{{ 'today' | date }}", '"today" would be another time at each try; use _synced_at'],
  ['{{ }}', 'a placeholder must name a column: {{ column }}'],
  ['{{ email', 'a placeholder is not closed by "}}"'],
  ['{% if email %}x', 'the tag "if" is not closed'],
  ['{% if email', 'a tag is not closed by "%}"'],
  ['{% if a b %}x{% endif %}', '"b" is left over after a value'],
  ['{{ email | }}', 'a filter is missing after "|"'],
  ['{{ a == }}', 'a value is missing'],
  ['{% include "x" %}', 'the tag "include" cannot be used here'],
  ['{% render "x" %}', 'the tag "render" cannot be used here'],
  ['{% layout "x" %}', 'the tag "layout" cannot be used here'],
  ['{% block x %}{% endblock %}', 'the tag "block" cannot be used here'],
  ['{% tablerow x in y %}{% endtablerow %}', 'the tag "tablerow" cannot be used here'],
  ['{% cycle "a", "b" %}', 'the tag "cycle" cannot be used here'],
  ['{% increment x %}', 'the tag "increment" cannot be used here'],
  ['{% liquid echo x %}', 'the tag "liquid" cannot be used here'],
  ['{% echo x %}', 'the tag "echo" cannot be used here'],
  ['{% else if %}', '"if" is left over after "else"'],
])('%s is refused when the file is read', (template, message) => {
  const [first] = messages(template);
  expect(first?.startsWith(message), first).toBe(true);
});

test('a fault names its placeholder and its text', () => {
  const faults = templateFaults({ a: ['{{ n }} {% if n %}{{ x y }}{% endif %}'], '{{ k }}': 1 });
  expect(faults).toMatchObject([
    { path: ['a', 0], placeholder: 2, code: 'template_invalid' },
    { path: ['{{ k }}'], message: 'placeholders do not work in keys' },
  ]);
});

test('the columns of a template are known before a row is, without its own variables', () => {
  const { columns } = new BodyTemplate({
    a: 'x {{ n }}',
    b: ['{% assign y = tags %}{% for z in y %}{{ z }}{{ email | append: id }}{% endfor %}'],
  });
  expect(columns.map(({ name, placeholder, path }) => [name, placeholder, path.join('.')])).toEqual([
    ['n', 0, 'a'],
    ['tags', 0, 'b.0'],
    ['email', 3, 'b.0'],
    ['id', 3, 'b.0'],
  ]);
});

test.each(['{{ n | plus: email }}', '{{ n | divided_by: 0 }}', '{{ "%" | url_decode }}'])(
  '%s sets the row aside, and the reason has no value',
  (template) => {
    expect(() => typed(template)).toThrow(TemplateFailure);
    expect(() => typed(template)).not.toThrow(/Ada|%"/);
  },
);

test.each([
  '{% for i in (1..99999999) %}x{% endfor %}',
  '{% for i in (1..5000) %}{% for j in (1..5000) %}{{ i | times: j }}{% endfor %}{% endfor %}',
  '{% assign x = "aaaaaaaaaa" %}{% for i in (1..60) %}{% assign x = x | append: x %}{% endfor %}{{ x }}',
  '{{ "1e399" | times: "1e399" | times: "1e399" | round: 999999999 | pad: 99999999 }}{{ n | plus: "1e9999" }}',
])('%s ends at a limit of memory or time', (template) => {
  const begun = performance.now();
  expect(() => text(template)).toThrow(TemplateFailure);
  expect(performance.now() - begun).toBeLessThan(5000);
});

test('a variable in a template is a literal, whatever is in it', () => {
  const secret = 'ab{{cd}}{% if %}"\'\\}}';
  expect(templateFaults(`Bearer ${markedLiteral(secret)}`)).toEqual([]);
  expect(text(`Bearer ${markedLiteral(secret)}`)).toBe(`Bearer ${secret}`);
  expect(text(`{{ n }} ${markedLiteral(secret)}`)).toBe(`7 ${secret}`);
  expect(typed(`{{ n | append: "${markedLiteral(secret)}" }}`)).toBe(JSON.stringify(`7${secret}`));
  expect(templateFaults(`{{ n | append: "${markedLiteral(secret)}" }}`)).toEqual([]);
});

test('nothing of the prototype of a value can be reached', () => {
  for (const template of [
    '{{ email.constructor }}',
    '{{ address.__proto__ }}',
    '{{ tags.constructor }}',
    '{{ big.equals }}',
  ])
    expect(typed(template), template).toBe('null');
});
