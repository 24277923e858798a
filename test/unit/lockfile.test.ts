import { readFileSync } from 'node:fs';
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
