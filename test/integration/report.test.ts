import { mkdir, readdir, readFile, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { ColumnFigures } from '../../src/pages/column-figures.js';
import { type Browser, openBrowser } from '../fixtures/browser.js';
import { Workspace } from '../fixtures/workspace.js';

type Row = Record<string, unknown>;

const odd = { '<script>alert(1)</script>': 'x', '\u202egnp': 'y', [`${'long'.repeat(15)}`]: 'z' };
const record = (n: number, more: Row = {}) => ({
  id: `r${n}`,
  index_id: 'people',
  attributes: { name: `person ${n}`, tier: 'gold', score: n, ...(n % 4 === 0 ? {} : { town: 'Ulm' }), ...odd, ...more },
});
const records = (count: number, more: (n: number) => Row = () => ({})) =>
  Array.from({ length: count }, (_, n) => record(n, more(n)));

const people = { name: 'people', source: 'index_profiles', index: 'people' };
const gold = { name: 'gold', source: 'sql', key: ['id'], query: "select id, name from people where tier = 'gold'" };

/** Ids of runs have the second in which they began: two runs in one second have no order. */
async function nextSecond(): Promise<void> {
  const second = () => Math.floor(Date.now() / 1000);
  for (const now = second(); second() === now; ) await new Promise((resolve) => setTimeout(resolve, 10));
}

let space: Workspace;
let browser: Browser | undefined;
const runs: string[] = [];
beforeAll(async () => {
  space = await Workspace.open({ profiles: 10 });
  browser = await openBrowser();
  await space.configure('seen', [people, gold], { job: { guards: { max_deleted: 20 } } });
  const serve = (all: readonly unknown[]) => space.control('profiles', { index: 'people', records: all });
  await serve(records(100));
  runs.push((await space.runWell('seen')).run_id);
  await nextSecond();
  await serve(records(101, (n) => (n < 10 ? { score: -1 } : {})));
  runs.push((await space.runWell('seen')).run_id);
  await nextSecond();
  runs.push((await space.runWell('seen')).run_id);
  await nextSecond();
  await serve(records(30));
  const { report } = await space.run('seen');
  runs.push(report.jobs[0]?.run_id as string);
});
afterAll(async () => {
  await browser?.close();
  await space.close();
});

const reports = () => join(space.jobFolder('seen'), 'reports');
const page = (runId: string | undefined) => readFile(join(reports(), `${runId}.html`), 'utf8');
const figuresOf = async (runId: string | undefined) =>
  JSON.parse(
    await readFile(join(space.jobFolder('seen'), '.cdsync', 'figures', `${runId}.json`), 'utf8'),
  ) as ColumnFigures;

describe('after a run', () => {
  it('there is a private page about it, and one about all runs', async () => {
    const names = await readdir(reports());
    expect(names.filter((name) => name.endsWith('.html'))).toHaveLength(5);
    for (const name of names) expect((await stat(join(reports(), name))).mode & 0o777).toBe(0o600);
    const index = await readFile(join(reports(), 'index.html'), 'utf8');
    for (const run of runs) expect(index).toContain(`<a href="${run}.html">`);
  });

  it('missing and changed values of columns are those of the rows', async () => {
    const { people: first } = (await figuresOf(runs[0])).streams;
    const column = (name: string) => first?.columns.find((each) => each.name === name);
    expect(column('town')).toMatchObject({ type: 'VARCHAR', nulls: 25, changed: null });
    expect(column('name')).toMatchObject({ nulls: 0 });
    const { people: second, gold: derived } = (await figuresOf(runs[1])).streams;
    expect(second?.updated).toEqual({ rows: 10, compared: 10 });
    expect(second?.columns.filter(({ changed }) => changed !== 0).map(({ name, changed }) => [name, changed])).toEqual([
      ['score', 10],
    ]);
    expect(second?.columns.find(({ name }) => name === 'town')).toMatchObject({ nulls: 26 });
    expect(derived?.rows).toBe(101);
  });

  it('a run without changes repeats the cached figures, without a changed value', async () => {
    const [before, after] = [await figuresOf(runs[1]), await figuresOf(runs[2])];
    expect(after.streams.people?.updated).toBeNull();
    expect(after.streams.people?.columns.map(({ name, nulls }) => [name, nulls])).toEqual(
      before.streams.people?.columns.map(({ name, nulls }) => [name, nulls]),
    );
  });

  it('the page of a held run has the figures of its guard and commands to paste, but no keys', async () => {
    const text = await page(runs[3]);
    expect(text).toContain('71 of 101 rows deleted (70.3%); the limit is 20 rows</li>');
    expect(text).toContain(`--held ${runs[3]} people`);
    expect(text).not.toMatch(/\br\d\d\b|person \d/);
  });

  it('a page that cannot be written is one notice, and the run is well', async () => {
    await space.configure('blocked', [people]);
    await space.runWell('blocked');
    const index = join(space.jobFolder('blocked'), 'reports', 'index.html');
    await rm(index);
    await mkdir(join(index, 'in the way'), { recursive: true });
    const { code, stderr } = await space.cdsync(['run', 'blocked.json']);
    expect(code).toBe(0);
    expect(stderr.match(/warning: after the run, writing its page failed/g)).toHaveLength(1);
  });
});

describe('cdsync report', () => {
  it('makes the last page again and says where it is', async () => {
    await rm(join(reports(), `${runs[3]}.html`));
    const { code, stdout } = await space.cdsync(['report', 'seen.json']);
    expect(code).toBe(0);
    expect(stdout).toContain('job seen: held in');
    expect(stdout).toContain(join('reports', `${runs[3]}.html`));
    expect(await page(runs[3])).toContain('Stream people is held by a guard: nothing of it was published.');
  });

  it('writes a copy, or the page itself to standard output', async () => {
    await space.cdsync(['report', 'seen.json', String(runs[1]), '--out', 'copy.html']);
    expect(await readFile(join(space.folder, 'copy.html'), 'utf8')).toContain(`Run <code>${runs[1]}</code>`);
    const { stdout } = await space.cdsync(['report', 'seen.json', String(runs[1]), '--out', '-']);
    expect(stdout).toMatch(/^<!doctype html>[\s\S]*<\/html>\n$/);
  });

  it('names the path that it cannot write a copy to', async () => {
    const { code, stderr } = await space.cdsync(['report', 'seen.json', '--out', '/nonexistent/x.html']);
    expect([code, stderr]).toEqual([
      2,
      expect.stringContaining('--out: /nonexistent/x.html could not be written (ENOENT)'),
    ]);
  });

  it('has the document of the run as --json', async () => {
    const { stdout } = await space.cdsync(['report', 'seen.json', String(runs[0]), '--json']);
    expect(JSON.parse(stdout)).toEqual(JSON.parse(await readFile(join(reports(), `${runs[0]}.json`), 'utf8')));
  });

  it('names the last runs if there is no such run', async () => {
    const { code, stderr } = await space.cdsync(['report', 'seen.json', 'yesterday-or-the-day-before']);
    expect(code).toBe(2);
    expect(stderr).toContain('[run_not_found]');
    expect(stderr).toContain(String(runs[3]));
  });

  it('prints the path if no program here opens pages', async () => {
    const { code, stderr } = await space.cdsync(['report', 'seen.json', '--open'], { PATH: space.folder });
    expect(code).toBe(0);
    expect(stderr).toContain(`there is no program here that opens pages; it is ${reports()}`);
  });
});

/** Text whose contrast to its background is below 4.5, the width of the page, and the number of unlabelled charts. */
const looks = `(() => {
  for (const each of document.querySelectorAll('details')) each.open = true;
  const numbers = (text) => (text.match(/[\\d.]+/g) ?? []).map(Number);
  const light = (rgb) => {
    const [r, g, b] = rgb.slice(0, 3).map((c) => (c / 255 <= 0.03928 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const colour = numbers(getComputedStyle(at).backgroundColor);
      if (colour.length === 3 || colour[3] > 0.99) return colour;
    }
    return numbers(getComputedStyle(document.body).backgroundColor);
  };
  const pale = [];
  for (const element of document.querySelectorAll('body *')) {
    const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim() !== '');
    if (!own || element.tagName === 'title') continue;
    const style = getComputedStyle(element);
    const [a, b] = [light(numbers(element.namespaceURI.endsWith('svg') ? style.fill : style.color)), light(behind(element))];
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (contrast < 4.5) pale.push(element.outerHTML.slice(0, 80) + ' ' + contrast.toFixed(2));
  }
  return { pale, width: document.documentElement.scrollWidth, unlabelled: document.querySelectorAll('svg:not([aria-hidden]):not([aria-label])').length };
})()`;

describe('a page in Chromium', () => {
  const pages = () => [...runs.map((run) => `${run}.html`), 'index.html'];

  for (const colorScheme of ['light', 'dark'] as const) {
    it(`loads nothing, complains of nothing and can be read in the ${colorScheme} scheme, on a phone too`, async (test) => {
      if (browser === undefined) return test.skip('no Chromium here');
      for (const name of pages()) {
        const file = pathToFileURL(join(reports(), name)).href;
        for (const width of [390, 1200]) {
          const shown = await browser.newPage({ colorScheme, viewport: { width, height: 900 } });
          const [said, asked]: [string[], string[]] = [[], []];
          shown.on('console', (message) => said.push(message.text()));
          shown.on('request', (request) => asked.push(request.url()));
          await shown.goto(file);
          const found = await shown.evaluate<{ pale: string[]; width: number; unlabelled: number }>(looks);
          expect({ name, said, asked, ...found }).toEqual({
            name,
            said: [],
            asked: [file],
            pale: [],
            width,
            unlabelled: 0,
          });
          await shown.close();
        }
      }
    }, 240_000);
  }

  it('prints, and is small', async (test) => {
    if (browser === undefined) return test.skip('no Chromium here');
    const shown = await browser.newPage({ colorScheme: 'dark', viewport: { width: 1200, height: 900 } });
    await shown.goto(pathToFileURL(join(reports(), `${runs[3]}.html`)).href);
    expect((await shown.pdf({ format: 'A4' })).subarray(0, 5).toString()).toBe('%PDF-');
    await shown.close();
    for (const name of pages()) expect((await stat(join(reports(), name))).size).toBeLessThan(150_000);
  }, 120_000);
});
