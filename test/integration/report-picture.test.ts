import { execFile } from 'node:child_process';
import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';
import { openBrowser } from '../fixtures/browser.js';

const root = join(import.meta.dirname, '..', '..');
const program = join(root, 'dist', 'src', 'cli', 'main.js');

/** The page of the second run of a quickstart in an empty folder. */
async function pageOfSecondRun(cwd: string): Promise<string> {
  await promisify(execFile)(process.execPath, [program, 'quickstart'], { cwd });
  const reports = join(cwd, 'data', 'quickstart', 'reports');
  const pages = (await readdir(reports)).filter((name) => /^\d.*\.html$/.test(name)).sort();
  return pathToFileURL(join(reports, pages.at(-1) ?? '')).href;
}

it.skipIf(process.env.CDSYNC_TEST_PICTURE !== '1')(
  'the picture of the README is made again (skipped unless CDSYNC_TEST_PICTURE=1)',
  async (test) => {
    const browser = await openBrowser();
    if (browser === undefined) return test.skip('Chromium is not installed');
    const cwd = await mkdtemp(join(tmpdir(), 'cdsync-picture-'));
    try {
      const page = await browser.newPage({ colorScheme: 'light', viewport: { width: 1120, height: 660 } });
      await page.goto(await pageOfSecondRun(cwd));
      const picture = await page.screenshot({ type: 'png' });
      expect(picture.length).toBeLessThan(200_000);
      await writeFile(join(root, 'docs', 'report.png'), picture);
    } finally {
      await browser.close();
      await rm(cwd, { recursive: true, force: true });
    }
  },
  1_200_000,
);
