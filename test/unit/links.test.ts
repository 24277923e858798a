import { readdir, readFile, stat } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { expect, it } from 'vitest';

const roots = ['.', 'docs', 'connectors'];

async function pages(): Promise<string[]> {
  const found = await Promise.all(
    roots.map(async (root) => {
      const names = await readdir(root, { recursive: root !== '.' });
      return names.filter((name) => name.endsWith('.md')).map((name) => join(root, name));
    }),
  );
  return found.flat();
}

/** Anchors that a page sets itself, and those that GitHub makes of headings. */
function anchors(text: string): Set<string> {
  const own = [...text.matchAll(/<a id="([^"]+)"><\/a>/g)].map(([, id = '']) => id);
  const headings = [...text.replaceAll(/^```[\s\S]*?^```/gm, '').matchAll(/^#+ +(.+)$/gm)].map(([, heading = '']) =>
    heading
      .replaceAll(/\[([^\]]*)\]\([^)]*\)/g, '$1')
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N}\s_-]/gu, '')
      .trim()
      .replaceAll(/\s/g, '-'),
  );
  return new Set([...own, ...headings]);
}

function links(text: string): string[] {
  const prose = text.replaceAll(/^```[\s\S]*?^```/gm, '').replaceAll(/`[^`\n]*`/g, '');
  return [...prose.matchAll(/\]\(([^)\s]+)\)/g)].map(([, link = '']) => link).filter((link) => !/^[a-z]+:/.test(link));
}

it('each link to a page of the project points to a file and a heading that exist', async () => {
  const broken: string[] = [];
  for (const page of await pages()) {
    for (const link of links(await readFile(page, 'utf8'))) {
      const [path = '', anchor] = link.split('#');
      const target = path === '' ? resolve(page) : resolve(dirname(page), path);
      const isThere = await stat(target).catch(() => undefined);
      const isKnown = anchor === undefined || !target.endsWith('.md');
      if (isThere === undefined || (!isKnown && !anchors(await readFile(target, 'utf8')).has(anchor)))
        broken.push(`${page}: ${link}`);
    }
  }
  expect(broken).toEqual([]);
});

it('no blank line cuts a table in two', async () => {
  const cut: string[] = [];
  for (const page of await pages()) {
    const lines = (await readFile(page, 'utf8')).split('\n');
    lines.forEach((line, at) => {
      const isBetween = line === '' && lines[at - 1]?.startsWith('|') && lines[at + 1]?.startsWith('|');
      if (isBetween && !/^\|[-:| ]+\|$/.test(lines[at + 2] ?? '')) cut.push(`${page}:${at + 1}`);
    });
  }
  expect(cut).toEqual([]);
});

it('the README shows a picture, which is small', async () => {
  const [, picture = ''] = /^!\[[^\]]+\]\((.+\.png)\)$/m.exec(await readFile('README.md', 'utf8')) ?? [];
  const bytes = await readFile(picture);
  expect([bytes.subarray(1, 4).toString(), bytes.length < 200_000]).toEqual(['PNG', true]);
});
