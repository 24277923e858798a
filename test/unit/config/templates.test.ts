import { expect, test } from 'vitest';
import { ConfigError } from '../../../src/config/problem.js';
import { BodyTemplate, TemplateRow } from '../../../src/sdk/template/template.js';
import { head, parse } from './sample.js';

const lines = (body: string) => `${head}jobs:
  a:
    streams: [{ name: s, source: indexes }]
    destinations:
      - name: events
        connector: event_stream
        stream_id: evs-1
        body:
${body}`;

function failure(body: string): ConfigError {
  try {
    parse(lines(body));
  } catch (error) {
    if (error instanceof ConfigError) return error;
    throw error;
  }
  throw new Error('nothing was refused');
}

const first = head.split('\n').length + 8;

test.each([
  ['          a: "{{ id }} {{ first name }}"', 0, 24, 'a["…"]'],
  ["          a: '{{ id | dwoncase }}'", 0, 15, 'downcase'],
  ['          a: >-\n            one {{ id }}\n            two {% if x %}', 2, 17, '"if"'],
  ['          a: [x, { b: "{{ id | append }}" }]', 0, 24, 'append'],
])('%s is refused with line and column', (body, line, column, words) => {
  const error = failure(body);
  expect(error.code).toBe('template_invalid');
  expect(error.problems).toHaveLength(1);
  expect(error.problems[0]).toMatchObject({ line: first + line, column });
  expect(error.message).toContain(words === 'a["…"]' ? '["first name"]' : words);
});

test.each([
  ['          a: {{ id }}', 15],
  ['          a: [{{ id }}]', 16],
  ['          a: {{ id | downcase }}', 15],
  ['          a: { b: x/{{ id }} }', 21],
])('%s, without quotes, says that placeholders need quotes', (body, column) => {
  const [problem] = failure(body).problems;
  expect(problem?.message).toMatch(/quotes: "\{\{ column \}\}"/);
  expect(problem).toMatchObject({ line: first, column });
});

test('the value of a variable is a literal, also one that looks like a template', () => {
  const env = { TOKEN: 'ab{{cd}} {% x', KEY: `k"'\\{{`, NUMBER: '7' };
  const body = [
    '          alone: "${TOKEN}"',
    '          within: "t ${TOKEN} {{ id }}"',
    '          key: "{{ id | append: \'${KEY}\' }}"',
    '          number: "${NUMBER}"',
    '          deep: [{ x: "${TOKEN:-none}" }]',
  ].join('\n');
  const { jobs } = parse(lines(body), env, { destinations: true });
  const options = jobs[0]?.destinations[0]?.options as { body: unknown };
  const row = TemplateRow.of({ id: '1', stream: 's', op: 'insert', key: '7', syncedAt: '', json: '{"id":7}' });
  expect(JSON.parse(new BodyTemplate(options.body).json(row))).toEqual({
    alone: env.TOKEN,
    within: `t ${env.TOKEN} 7`,
    key: `7${env.KEY}`,
    number: 7,
    deep: [{ x: env.TOKEN }],
  });
});

test('the place of a part of a destination is known later, with its placeholder', () => {
  const { jobs } = parse(lines('          a: { b: "{{ id }}/{{ x }}" }'), {}, { destinations: true });
  const place = jobs[0]?.destinations[0]?.place(['body', 'a', 'b'], 1);
  expect(place).toBe(`cdsync.yaml:${first}:29  jobs.a.destinations[0].body.a.b`);
});
