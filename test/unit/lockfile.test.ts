import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';

interface Entry {
  readonly version?: string;
  readonly integrity?: string;
  readonly resolved?: string;
  readonly dev?: boolean;
  readonly funding?: unknown;
}

const { packages } = JSON.parse(readFileSync('package-lock.json', 'utf8')) as { packages: Record<string, Entry> };
const installed = Object.entries(packages).filter(([path]) => path.startsWith('node_modules/'));

describe('package-lock.json', () => {
  it('has the checksum of every package that users install', () => {
    const unchecked = installed
      .filter(([, { dev, integrity }]) => dev !== true && !/^sha512-[\w+/]{86}==$/.test(integrity ?? ''))
      .map(([path, { version }]) => [path, version]);
    expect(unchecked).toEqual([]);
  });

  it('names no host that packages come from', () => {
    expect(installed.filter(([, { resolved }]) => resolved !== undefined)).toEqual([]);
    const rest = installed.map(([, { funding: _, ...entry }]) => entry);
    expect(JSON.stringify(rest)).not.toContain('://');
  });
});

it('has the packages of `npm run sbom`, with versions and checksums', () => {
  const folder = mkdtempSync(join(tmpdir(), 'cdsync-sbom-'));
  try {
    for (const file of ['package.json', 'package-lock.json', 'build/sbom.mjs'])
      cpSync(file, join(folder, file), { recursive: true });
    mkdirSync(join(folder, 'dist'));
    execFileSync(process.execPath, [join(folder, 'build/sbom.mjs')], { stdio: 'ignore' });
    const { metadata, components } = JSON.parse(readFileSync(join(folder, 'dist/sbom.json'), 'utf8')) as {
      metadata: { component: object };
      components: { name: string; version: string; hashes: { alg: string; content: string }[] }[];
    };
    expect(metadata.component).toMatchObject({ name: 'cdsync', purl: expect.stringContaining('pkg:npm/cdsync@') });
    const listed = components.map(({ name, version, hashes: [hash] }) => [
      `${name}@${version}`,
      `sha512-${Buffer.from(hash?.content ?? '', 'hex').toString('base64')}`,
    ]);
    const expected = installed
      .filter(([, { dev }]) => dev !== true)
      .map(([path, { version, integrity }]) => [`${path.replace(/.*node_modules\//, '')}@${version}`, integrity]);
    // A package that is in two folders is listed once.
    const distinct = (rows: object) => [...new Set(Object.values(rows).map((row) => JSON.stringify(row)))].sort();
    expect(distinct(listed)).toEqual(distinct(expected));
  } finally {
    rmSync(folder, { recursive: true });
  }
});

it('is not all that an image has: the Dockerfile names one base, which an argument can fix by its digest', () => {
  const lines = readFileSync('Dockerfile', 'utf8').split('\n');
  expect(lines.filter((line) => /^(ARG|FROM)/.test(line))).toEqual([
    expect.stringMatching(/^ARG NODE=node:22-slim(@sha256:[0-9a-f]{64})?$/),
    'FROM ${NODE} AS build',
    'FROM ${NODE}',
  ]);
});
