import fc from 'fast-check';
import { expect, test } from 'vitest';
import { Decimal } from '../../../../src/sdk/template/decimal.js';
import { templateFaults } from '../../../../src/sdk/template/faults.js';
import { TemplateFailure, templateFilters } from '../../../../src/sdk/template/filters.js';
import { markedLiteral } from '../../../../src/sdk/template/marks.js';
import { BodyTemplate, TemplateRow, TextTemplate } from '../../../../src/sdk/template/template.js';
import { jsonOf, membersOf, parseExactly } from '../../../../src/sdk/template/values.js';

const number = fc.oneof(
  fc.bigInt().map(String),
  fc.tuple(fc.bigInt(), fc.stringMatching(/^\d{1,30}$/)).map(([whole, part]) => `${whole}.${part}`),
  fc.double({ noNaN: true, noDefaultInfinity: true }).map((value) => JSON.stringify(value)),
);
const text = fc.string({ unit: 'binary' }).map((value) => JSON.stringify(value));
const json: fc.Arbitrary<string> = fc.letrec<{ value: string }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 4, withCrossShrink: true },
    fc.constantFrom('null', 'true', 'false', '""', '0', '-0', '1.0', '1e5'),
    number,
    text,
    fc.array(tie('value'), { maxLength: 4 }).map((items) => `[${items.join(',')}]`),
    fc
      .uniqueArray(fc.tuple(fc.string(), tie('value')), { maxLength: 4, selector: ([name]) => name })
      .map((members) => `{${members.map(([name, value]) => `${JSON.stringify(name)}:${value}`).join(',')}}`),
  ),
})).value;

const columns = ['a', 'b', 'c', 'd'] as const;
const row = fc.tuple(...columns.map(() => json)).map((values) => {
  const members = columns.map((name, index) => `"${name}":${values[index]}`);
  return `{${members.join(',')}}`;
});
const rowOf = (members: string) =>
  TemplateRow.of({ id: 'i', stream: 's', op: 'insert', key: 'k', syncedAt: '2026-01-01T00:00:00Z', json: members });

test('a column alone is the JSON text of the row, whatever its value', () => {
  fc.assert(
    fc.property(json, json, (one, two) => {
      const record = rowOf(`{"a":${one}, "b" : ${two} }`);
      expect(new BodyTemplate('{{ a }}').json(record)).toBe(one);
      expect(new BodyTemplate({ x: ['{{b}}'] }).json(record)).toBe(`{"x":[${two}]}`);
      expect([...membersOf(`{"a":${one},"b":${two}}`)]).toEqual([
        ['a', one],
        ['b', two],
      ]);
    }),
  );
});

test('of a row that is read for some columns, these are the same', () => {
  fc.assert(
    fc.property(row, fc.subarray([...columns, 'absent']), (members, names) => {
      const all = [...membersOf(members)].filter(([name]) => names.includes(name));
      expect([...membersOf(members, new Set(names))]).toEqual(all);
    }),
  );
});

test('reading and writing a value keeps every digit', () => {
  fc.assert(
    fc.property(json, (value) => {
      const again = jsonOf(parseExactly(value));
      expect(JSON.parse(again)).toEqual(JSON.parse(value));
      const digits = (written: string) => written.replace(/"(?:[^"\\]|\\.)*"/g, '').match(/\d{16,}/g);
      expect(digits(again)).toEqual(digits(value));
    }),
  );
});

test('arithmetic is that of whole numbers, at every scale', () => {
  fc.assert(
    fc.property(fc.bigInt(), fc.bigInt(), fc.integer({ min: 0, max: 30 }), (one, two, scale) => {
      const of = (value: bigint) => {
        const size = String(value < 0n ? -value : value).padStart(scale + 1, '0');
        const at = size.length - scale;
        return Decimal.from(
          `${value < 0n ? '-' : ''}${size.slice(0, at)}${scale > 0 ? '.' : ''}${size.slice(at)}`,
        ) as Decimal;
      };
      expect(
        of(one)
          .plus(of(two))
          .compare(of(one + two)),
      ).toBe(0);
      expect(
        of(one)
          .plus(of(two).negated())
          .compare(of(one - two)),
      ).toBe(0);
      expect(of(one).compare(of(two))).toBe(one < two ? -1 : one > two ? 1 : 0);
      if (two !== 0n) expect(of(one).times(of(two)).dividedBy(of(two))?.compare(of(one))).toBe(0);
    }),
  );
});

const operand = fc.constantFrom(
  'a',
  'b',
  'c',
  'd',
  'a.x',
  'b[0]',
  '["a"]',
  '"text"',
  "'5'",
  '7',
  '-1.5',
  'true',
  'nil',
  'empty',
  'blank',
);
const filter = fc
  .tuple(fc.constantFrom(...templateFilters.keys()), fc.array(operand, { maxLength: 2 }))
  .map(([name, args]) => `| ${name}${args.length > 0 ? `: ${args.join(', ')}` : ''}`);
const expression = fc
  .tuple(operand, fc.array(filter, { maxLength: 3 }))
  .map(([value, filters]) => `${value} ${filters.join(' ')}`);
const comparison = fc
  .tuple(operand, fc.constantFrom('==', '!=', '<', '>', '<=', '>=', 'contains', 'and', 'or'), operand)
  .map((parts) => parts.join(' '));
const piece: fc.Arbitrary<string> = fc.oneof(
  fc.constantFrom('', ' ', 'text', '{', '}}', '%}', '\n', '"'),
  expression.map((value) => `{{ ${value} }}`),
  expression.map((value) => `{{- ${value} -}}`),
  fc.tuple(comparison, expression).map(([test, value]) => `{% if ${test} %}{{ ${value} }}{% else %}n{% endif %}`),
  fc.tuple(operand, expression).map(([list, value]) => `{% for i in ${list} %}{{ i }}{{ ${value} }}{% endfor %}`),
  expression.map((value) => `{% assign v = ${value} %}{{ v }}`),
);

test('a template without faults fills in any row, or sets it aside', () => {
  let rendered = 0;
  fc.assert(
    fc.property(fc.array(piece, { minLength: 1, maxLength: 4 }), row, (pieces, members) => {
      const template = pieces.join('');
      if (templateFaults(template).length > 0) return;
      const record = rowOf(members);
      for (const render of [
        () => JSON.parse(new BodyTemplate(template).json(record)),
        () => new TextTemplate(template).render(record),
        () => decodeURIComponent(new TextTemplate(template, { isUrl: true }).render(record).replaceAll('%}', '')),
      ]) {
        try {
          render();
          rendered += 1;
        } catch (error) {
          if (!(error instanceof TemplateFailure || (error instanceof URIError && template.includes('raw'))))
            throw error;
        }
      }
    }),
    { numRuns: 500 },
  );
  expect(rendered).toBeGreaterThan(300);
});

test('filters of a column alone have the results of those of a member, which the engine evaluates', () => {
  const literal = fc.constantFrom('"text"', "'5'", '"%Y"', '7', '-1.5', '2');
  const literalFilter = fc
    .tuple(fc.constantFrom(...templateFilters.keys()), fc.array(literal, { maxLength: 2 }))
    .map(([name, args]) => `| ${name}${args.length > 0 ? `: ${args.join(', ')}` : ''}`);
  const made = (template: string, members: string) => {
    try {
      return new BodyTemplate(template).json(rowOf(members));
    } catch (error) {
      if (error instanceof TemplateFailure) return error;
      throw error;
    }
  };
  let compared = 0;
  fc.assert(
    fc.property(json, fc.array(literalFilter, { minLength: 1, maxLength: 3 }), (value, filters) => {
      const [alone, member] = ['a', 'm.a'].map((name) => `{{ ${name} ${filters.join(' ')} }}`) as [string, string];
      if (templateFaults(alone).length > 0) return;
      compared += 1;
      expect(made(alone, `{"a":${value}}`)).toEqual(made(member, `{"m":{"a":${value}}}`));
    }),
    { numRuns: 1000 },
  );
  expect(compared).toBeGreaterThan(100);
});

test('any text either has a fault with its place, or is a template that renders', () => {
  const anyText = fc.array(
    fc.oneof(fc.constantFrom('{{', '}}', '{%', '%}', '|', ':', '"', ' if ', ' raw ', 'a', '.', '[', '-'), fc.string()),
    {
      maxLength: 12,
    },
  );
  fc.assert(
    fc.property(anyText, (pieces) => {
      const template = pieces.join('');
      const faults = templateFaults(template);
      for (const { placeholder } of faults) expect(placeholder).toBeLessThan(template.match(/\{\{|\{%/g)?.length ?? 1);
      if (faults.length > 0) return;
      try {
        new TextTemplate(template).render(rowOf('{"a":1}'));
      } catch (error) {
        if (!(error instanceof TemplateFailure)) throw error;
      }
    }),
    { numRuns: 500 },
  );
});

test('a literal in a template is itself, whatever characters it has', () => {
  fc.assert(
    fc.property(
      fc.string({ unit: 'binary' }).filter((value) => !/[\ufdd0-\ufdd5]/.test(value)),
      (value) => {
        const marked = markedLiteral(value);
        expect(templateFaults(`{{ a }}${marked}`)).toEqual([]);
        expect(new TextTemplate(`{{ a }}${marked}`).render(rowOf('{"a":1}'))).toBe(`1${value}`);
      },
    ),
  );
});
