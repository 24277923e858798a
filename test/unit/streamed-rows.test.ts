import { readFile } from 'node:fs/promises';
import { join, relative, resolve } from 'node:path';
import { expect, it } from 'vitest';
import { entriesBelow } from '../../src/core/folders.js';

/** The only file that reads a result of DuckDB before it is complete: it knows whether the rows are all. */
const reader = 'src/sdk/duckdb/streamed-result.ts';

/**
 * Ways of DuckDB's client to begin such a result, or to read one: one that DuckDB stopped ends like a whole one. Other things of ours
 * have a function `stream`, too.
 */
const unproven =
  /\b(?:fetch(?:All)?Chunks?|yield[A-Z]\w*|streamAnd\w+|startStream\w*|runAndRead(?:Until)?|getResult)\(|(?<!\b(?:layout|session|store|this))\.stream\(/i;

async function unprovenLines(root: string): Promise<string[]> {
  const lines: string[] = [];
  for (const folder of ['src', 'connectors'])
    for (const entry of await entriesBelow(join(root, folder))) {
      const path = join(entry.parentPath, entry.name);
      if (!entry.isFile() || !entry.name.endsWith('.ts') || relative(root, path) === reader) continue;
      for (const line of (await readFile(path, 'utf8')).split('\n'))
        if (unproven.test(line)) lines.push(`${relative(root, path)}: ${line.trim()}`);
    }
  return lines;
}

it('no other file reads rows whose end is not proven', async () => {
  expect(await unprovenLines(resolve('.'))).toEqual([]);
});

it('the rule knows the ways to read them', async () => {
  expect(unproven.test(await readFile(reader, 'utf8'))).toBe(true);
  for (const line of [
    'const result = await connection.stream(sql);',
    'const result = await this.#connection.stream(sql);',
    'return statement.stream();',
    'await this.#begun().stream(sql)',
    'const reader = await connection.streamAndReadAll(sql);',
    'for await (const rows of result.yieldRowObjects()) yield* rows;',
    'await (await connection.startStream(sql)).getResult()',
  ])
    expect(unproven.test(line), line).toBe(true);
  for (const line of ['layout.stream(name)', 'session.stream(sql)', 'await connection.runAndReadAll(sql)'])
    expect(unproven.test(line), line).toBe(false);
});
