import { spawnSync } from 'node:child_process';
import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { dbtYaml } from '../../../src/output/dbt.js';

const names = [
  'no',
  'on',
  'Y',
  '1_000',
  '12:30:45',
  '0o17',
  '017',
  '1e3',
  '~',
  '2026-01-01',
  '=',
  '<<',
  'a: b',
  '#x',
  'csi\u009bx',
  'rlo\u202ex',
  'nel\u0085x',
  'ls\u2028x',
  'tab\tx',
  '',
];
const document = {
  version: 2,
  columns: names.map((name) => ({ name, description: `${name}, since\n2026`, quote: true })),
};

describe('the YAML for dbt', () => {
  it('gives every name back to a reader of YAML 1.1, and has no character that a terminal obeys', async () => {
    const text = await dbtYaml(document);
    expect(parse(text, { version: '1.1' })).toEqual(document);
    expect(text.replaceAll('\n', '')).not.toMatch(/[\p{Cc}\p{Zl}\p{Zp}\p{Bidi_Control}]/u);
  });

  it.runIf(spawnSync('python3', ['-c', 'import yaml']).status === 0)('and to PyYAML', async () => {
    const program = 'import json, sys, yaml; print(json.dumps(yaml.safe_load(sys.stdin.read())))';
    const { stdout } = spawnSync('python3', ['-c', program], { input: await dbtYaml(document), encoding: 'utf8' });
    expect(JSON.parse(stdout)).toEqual(document);
  });
});
