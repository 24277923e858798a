import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';

const program = join(import.meta.dirname, '..', '..', 'dist', 'src', 'cli', 'main.js');

/** An output without what differs from run to run. */
function steady(text: string): string {
  return text
    .replace(/\d{8}T\d{6}Z-[0-9a-f]{6}/g, 'RUN')
    .replace(/\d+(?:\.\d+)? s\b/g, 'TIME')
    .replace(/[\d,]+ requests, [\d.]+ MB/g, 'REQUESTS')
    .trim();
}

it('the output that the README shows is that of the second run of the quickstart, whose changes its query lists', async () => {
  const readme = await readFile('README.md', 'utf8');
  const [, shown = ''] = /```\n\$ cdsync run\n([\s\S]*?)```/.exec(readme) ?? [];
  const [, query = ''] = /^npx --no-install cdsync query "(.*)"$/m.exec(readme) ?? [];
  const cwd = await mkdtemp(join(tmpdir(), 'cdsync-readme-'));
  try {
    const { stdout } = await promisify(execFile)(process.execPath, [program, 'quickstart'], { cwd });
    const summaries = stdout.match(/^job quickstart: [\s\S]*? received$/gm) ?? [];
    expect(summaries).toHaveLength(2);
    expect(steady(summaries[1] ?? '')).toBe(steady(shown));
    // The quickstart counts those who changed tier by their two tiers.
    const counts = [...stdout.matchAll(/^[a-z]+ +[a-z]+ +(\d+)$/gm)].map(([, count]) => Number(count));
    const listed = await promisify(execFile)(process.execPath, [program, 'query', query, '--format', 'json'], { cwd });
    const people = JSON.parse(listed.stdout) as { key: string; before: string; after: string }[];
    expect([counts.length > 3, new Set(people.map(({ key }) => key)).size]).toEqual([
      true,
      counts.reduce((sum, count) => sum + count, 0),
    ]);
    expect(people.every(({ before, after }) => before !== after)).toBe(true);
  } finally {
    await rm(cwd, { recursive: true, force: true });
  }
}, 120_000);
