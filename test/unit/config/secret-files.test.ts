import { chmod, mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parseConfig } from '../../../src/config/parse.js';
import { ConfigError } from '../../../src/config/problem.js';
import { SecretFiles } from '../../../src/config/variables.js';
import { redactor, Secret } from '../../../src/core/secret.js';

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'cdsync-secret-files-'));
  const files: Record<string, string | Buffer> = {
    token: 'of-a-file\n',
    windows: 'of-a-file\r\n',
    marked: '\uFEFFof-a-file\r\n',
    lines: 'one\ntwo\n\n',
    dollar: 'a$b$${NAME}',
    empty: '',
    newline: '\n',
    open: 'everybody-reads',
    binary: Buffer.from([0xff, 0xfe, 0x41]),
    large: 'x'.repeat(70_000),
  };
  for (const [name, text] of Object.entries(files)) await writeFile(join(folder, name), text, { mode: 0o600 });
  await chmod(join(folder, 'open'), 0o644);
  await mkdir(join(folder, 'folder'));
  await symlink('loop', join(folder, 'loop'));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

function parsed(token: string, url = 'http://127.0.0.1:1') {
  const text = `version: 1\nservice:\n  base_url: "${url}"\n  tenant_id: acme\n  auth:\n    token: "${token}"\njobs:\n  a:\n    streams:\n      - { name: s, source: segments }\n`;
  return parseConfig(text, join(folder, 'cdsync.yaml'), { env: { NAME: 'x' } });
}

function tokenOf(written: string): string {
  const { auth } = parsed(written).service;
  return auth.type === 'token' ? auth.token.reveal() : '';
}

function problem(written: string): string {
  try {
    parsed(written);
  } catch (error) {
    if (error instanceof ConfigError) return error.message;
    throw error;
  }
  return 'no problem';
}

describe('${file:PATH}', () => {
  it.each([
    ['${file:token}', 'of-a-file'],
    ['${file:./token}', 'of-a-file'],
    ['${file:windows}', 'of-a-file'],
    ['${file:marked}', 'of-a-file'],
    ['a-${file:token}-${NAME}', 'a-of-a-file-x'],
    ['${file:dollar}', 'a$b$${NAME}'],
    ['$${file:token}', '${file:token}'],
  ])('%s becomes %j', (written, text) => {
    expect(tokenOf(written)).toBe(text);
  });

  it('loses one line break at its end, and no more', () => {
    expect(new SecretFiles(folder).read('lines')).toMatchObject({ text: 'one\ntwo\n' });
  });

  it('takes an absolute path too', () => {
    expect(tokenOf(`\${file:${join(folder, 'token')}}`)).toBe('of-a-file');
  });

  it.each([
    ['absent', 'does not exist'],
    ['folder', 'is a folder'],
    ['empty', 'is empty'],
    ['newline', 'is empty'],
    ['large', 'has more than 65536 bytes'],
    ['binary', 'is not UTF-8'],
    ['loop', 'is a link to itself'],
  ])('names file, line and key if the file %s %s', (name, why) => {
    const shown = problem(`\${file:${name}}`);
    expect(shown).toContain('cdsync.yaml:6:12  service.auth.token: ');
    expect(shown).toContain(`the file ${name} ${why}`);
  });

  it('counts as a secret in every option, and is never in a message', () => {
    const { secrets } = parsed('some-token', 'http://127.0.0.1:1/${file:token}');
    expect(redactor(secrets)('GET /of-a-file/members')).toBe('GET /[secret]/members');
    expect(secrets.every((secret) => secret instanceof Secret)).toBe(true);
    expect(problem('${file:token} with blanks')).not.toContain('of-a-file');
  });

  it('warns of a file that every user of the machine can read', () => {
    expect(parsed('${file:open}').warnings).toEqual([
      expect.stringMatching(
        /service\.auth\.token: every user of this machine can read the file open; chmod 600 closes it/,
      ),
    ]);
    expect(parsed('${file:token}').warnings).toEqual([]);
  });

  it('is read only if a command uses it', () => {
    const text =
      'version: 1\nservice:\n  base_url: http://127.0.0.1:1\n  tenant_id: t\n  auth: { token: "${file:absent}" }\njobs:\n  a:\n    streams: [{ name: s, source: segments }]\n';
    const options = { env: {}, needs: { service: false } } as const;
    expect(parseConfig(text, join(folder, 'cdsync.yaml'), options).jobs).toHaveLength(1);
  });

  it.each([
    ['', 300_000],
    ['  retry: { patience: 10s }\n', 10_000],
    ['  retry: { patience: "${UNSET}" }\n', 300_000],
  ])('with %j, a delivery without the service waits %i ms for a receiver', (retry, patienceMs) => {
    const text = `version: 1\nservice:\n  base_url: http://127.0.0.1:1\n  tenant_id: t\n  auth: { token: "\${UNSET}" }\n${retry}jobs:\n  a:\n    streams: [{ name: s, source: segments }]\n`;
    const options = { env: {}, needs: { service: false } } as const;
    expect(parseConfig(text, join(folder, 'cdsync.yaml'), options)).toMatchObject({ patienceMs });
  });
});

it('a misspelt source is reported as such, and not as missing', () => {
  const text =
    'version: 1\nservice: { base_url: "http://127.0.0.1:1", tenant_id: t, auth: { token: t-1 } }\njobs:\n  a:\n    streams:\n      - { name: s, sorce: segments }\n';
  let shown = '';
  try {
    parseConfig(text, join(folder, 'cdsync.yaml'), { env: {} });
  } catch (error) {
    shown = (error as Error).message;
  }
  expect(shown).toMatch(/streams\[0\]\.sorce: unknown key; did you mean "?source"?/);
  expect(shown).not.toContain('missing');
});
