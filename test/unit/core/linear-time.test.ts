import { describe, expect, it } from 'vitest';
import { parsedBody } from '../../../connectors/http/values-at.js';
import { parseExact } from '../../../connectors/iceberg/exact-json.js';
import { streamNameFor } from '../../../src/cli/init/streams.js';
import { keysOfLine } from '../../../src/cli/lookup.js';
import { parseEnvText } from '../../../src/config/env-file.js';
import { nameFault } from '../../../src/config/names.js';
import { parseConfig } from '../../../src/config/parse.js';
import { parseYaml } from '../../../src/config/yaml-document.js';
import { printable, visible, withoutAddresses } from '../../../src/core/printable.js';
import { redactor, Secret } from '../../../src/core/secret.js';
import { pairsOf } from '../../../src/metrics/otlp.js';
import { oneLine } from '../../../src/pages/format.js';
import { databaseError, ownQueryError } from '../../../src/sdk/duckdb/errors.js';
import { textFaults } from '../../../src/sdk/template/faults.js';
import { membersOf } from '../../../src/sdk/template/values.js';

/** What reads a text that others have written. An error is a result, too. */
const readers: Readonly<Record<string, (text: string) => unknown>> = {
  withoutAddresses,
  printable,
  visible,
  'a secret of escapes': redactor([new Secret(`${'\\'.repeat(6)}b'''\n\n%%%&&&   c`)]),
  oneLine: (text) => oneLine(text, 100),
  'a query in braces': (text) =>
    parseYaml(`a: { query: select 1, ${text.replaceAll(/[[\]{}#:&*!|>'"%@`,?-]/g, 'x')} }`),
  parseConfig: (text) => parseConfig(`version: 1\nservice: ${JSON.stringify(text)}`, 'cdsync.yaml', { env: {} }),
  parseEnvText: (text) => parseEnvText(`A=${text}\nB="${text}`, '.env'),
  nameFault,
  streamNameFor: (text) => streamNameFor(text, 'profiles', new Set()),
  pairsOf,
  keysOfLine: (text) => keysOfLine(`a=${text}`, 'line 1'),
  databaseError: (text) => databaseError(new Error(text)),
  ownQueryError: (text) => ownQueryError(new Error(text), 'select 1', true),
  parsedBody: (text) => parsedBody(`NaN "${text}`),
  parseExact,
  membersOf: (text) => membersOf(`{"a": ${text}}`),
  textFaults,
};

const pieces = [
  ...[
    'a',
    '0',
    ' ',
    '\n',
    '\t',
    '"',
    '\\"',
    "'",
    '.',
    '-',
    '/',
    '_',
    '@',
    'a@',
    '@a.',
    'a@b.c',
    '\\',
    '\u0001',
    '\u202e',
    'é',
    '\ud800',
  ],
  ...[
    '{{',
    '{{ ',
    '{% ',
    '{',
    '[',
    '${',
    '$',
    '[cdsync ',
    'LINE 1: ',
    '\nLINE ',
    'a=',
    ',"',
    ': ',
    '- ',
    '#',
    '&a ',
    '*a ',
  ],
];

function seconds(read: (text: string) => unknown, text: string): number {
  const start = process.cpuUsage();
  try {
    read(text);
  } catch {
    // Only its time counts.
  }
  const { user, system } = process.cpuUsage(start);
  return (user + system) / 1e6;
}

/** The least of some runs: whatever else happens on the machine only adds. */
function least(read: (text: string) => unknown, text: string): number {
  return Math.min(...Array.from({ length: 3 }, () => seconds(read, text)));
}

describe('texts of others', () => {
  it.each(Object.entries(readers))('%s takes twice the time for twice the text, whatever its characters', (_, read) => {
    for (const piece of pieces) {
      const text = (length: number) => `${piece.repeat(length / piece.length)}!`;
      const long = seconds(read, text(65_536));
      // A pattern that is this quick cannot hang anything; a pattern in quadratic time takes seconds.
      if (long < 0.25) continue;
      const ratio = least(read, text(65_536)) / least(read, text(32_768));
      expect(ratio, JSON.stringify(piece)).toBeLessThan(3.2);
    }
  });
});
