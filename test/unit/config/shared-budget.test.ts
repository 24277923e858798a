import { expect, test } from 'vitest';
import { Secret } from '../../../src/core/secret.js';
import { members, parse, problemsOf, withStream } from './sample.js';

const sharedBy = (yaml: string) =>
  withStream(...members).replace('storage:', `  budget: { shared: ${yaml} }\nstorage:`);
const variables = { BUDGET_URL: 'postgres://u:p@db/limits', WORD: 'none' };

test.each([
  ['machine', 'machine'],
  ['"${WORD}"', 'none'],
])('a word says who shares the budget: %s', (yaml, word) => {
  expect(parse(sharedBy(yaml), variables).service.budget).toEqual({ shared: word });
});

test('a map names the database of a fleet, and its URL is a secret', () => {
  const { shared } = parse(sharedBy('{ postgres: "${BUDGET_URL}" }'), variables).service.budget;
  const { postgres } = shared as { postgres: Secret };
  expect(postgres).toBeInstanceOf(Secret);
  expect([String(postgres), postgres.reveal()]).toEqual([
    expect.not.stringContaining('u:p'),
    'postgres://u:p@db/limits',
  ]);
});

test.each([
  [
    'everybody',
    'cdsync.yaml:6:21  service.budget.shared: unknown value, found "everybody"; allowed: machine, none, or a map: { postgres: URL }',
  ],
  [
    '{ postgres: "mysql://db/limits" }',
    'cdsync.yaml:6:33  service.budget.shared.postgres: must be a URL that begins with postgres://, found text',
  ],
  [
    '[machine]',
    'cdsync.yaml:6:21  service.budget.shared: must be machine, none, or a map: { postgres: URL }, found a list',
  ],
])('what else is given is refused: %s', (yaml, problem) => {
  expect(problemsOf(sharedBy(yaml))).toEqual([problem]);
});
