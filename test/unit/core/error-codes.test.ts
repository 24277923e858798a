import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, it } from 'vitest';

/** Codes of warnings in a report, and of findings: they end no command. */
const noErrors: ReadonlySet<string> = new Set(['custom', 'delete_unconfirmed']);

async function thrown(): Promise<Set<string>> {
  const codes = new Set<string>();
  for (const root of ['src', 'connectors'])
    for (const name of await readdir(root, { recursive: true })) {
      if (!name.endsWith('.ts')) continue;
      const text = await readFile(join(root, name), 'utf8');
      for (const [, code = ''] of text.matchAll(/\bcode: '([a-z]+(?:_[a-z]+)*)'/g)) codes.add(code);
    }
  return codes;
}

it('docs/errors.md has a line for every code that is thrown', async () => {
  const page = await readFile('docs/errors.md', 'utf8');
  const described = new Set([...page.matchAll(/`([a-z]+(?:_[a-z]+)*)`/g)].map(([, code]) => code));
  const codes = [...(await thrown())].filter((code) => !noErrors.has(code));
  expect(codes.length).toBeGreaterThan(80);
  expect(codes.filter((code) => !described.has(code)).sort()).toEqual([]);
});
