import { expect, it } from 'vitest';
import { commonArguments } from '../../../src/cli/command-line.js';

it.each([
  [['run', '--json'], { json: true }],
  [['run', '--json=true'], { json: true }],
  [['run', '--json', 'true'], { json: true }],
  [['run', '--json=false'], { json: false }],
  [['run', '--json', '--json=false'], { json: false }],
  [['run', '--quiet=true', '--verbose=true', '--show-values=true'], { quiet: true, verbose: true, showValues: true }],
  [['query', '--', '--json'], { json: false }],
  [['run', '--log-format=json'], { logFormat: 'json' }],
  [['run', '--log-format', 'json'], { logFormat: 'json' }],
  [['run', '--env-file=.env', 'a.yaml'], { envFile: '.env' }],
])('the words %j mean %j before yargs reads them', (words, expected) => {
  expect(commonArguments(words)).toMatchObject(expected);
});
