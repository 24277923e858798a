import { mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { JobReport, StreamReport } from '../../../src/core/run-report.js';
import type { ColumnFigures } from '../../../src/pages/column-figures.js';
import { remakePage } from '../../../src/pages/remake-page.js';
import { type PagesTask, writePages } from '../../../src/pages/write-pages.js';
import { JobLayout } from '../../../src/storage/layout.js';
import { figures, id, report, stream } from './samples.js';

const hostile = [
  '<script>alert(1)</script>',
  '\u202egnp.exe',
  'a\u0000b\u001b[31m',
  '"><img src=x>',
  'n'.repeat(63),
  '\ud800',
];

let folder: string;
let layout: JobLayout;
let task: PagesTask;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'cdsync-pages-'));
  layout = new JobLayout(folder, 'nightly');
  task = { layout, file: '/srv/my data/cdsync.yaml', destinations: [], now: Date.parse('2026-11-30T02:20:00Z') };
  for (const each of [layout.reports, layout.figuresFolder]) await mkdir(each, { recursive: true });
});
afterEach(() => rm(folder, { recursive: true }));

async function keep(of: JobReport, columns?: ColumnFigures): Promise<void> {
  await writeFile(layout.report(of.run_id), JSON.stringify({ status: of.status, jobs: [of], error: null }));
  if (columns !== undefined) await writeFile(layout.figures(of.run_id), JSON.stringify(columns));
}

const page = (runId: string) => readFile(layout.page(runId), 'utf8');

describe('the page about a run', () => {
  it('shows names and messages of any kind as text, and lets nothing run or load', async () => {
    const error = { code: 'bad_request', message: hostile.join(' '), hint: '<b onclick=x>', request_id: '<i>' };
    const streams = hostile.map((name) => stream(name, { status: 'failed', error: { ...error, message: name } }));
    const destinations = [
      {
        name: '<a>',
        stream: '<b>',
        status: 'failed',
        rows: 0,
        action: 'nothing',
        why: '',
        refused: 0,
        seconds: 0,
        error,
      } as const,
    ];
    await keep(
      report(id(30), streams, { status: 'failed', destinations: [...destinations] }),
      figures(hostile, hostile),
    );
    await writePages(task, id(30));
    for (const text of [await page(id(30)), await readFile(layout.indexPage, 'utf8')]) {
      expect(text).not.toMatch(/<script|<img|<b onclick|<i>/);
      expect(text).not.toMatch(/[^\n\P{Cc}]|\p{Bidi_Control}/u);
      expect(text).toContain("default-src 'none'; style-src 'sha256-");
      expect(text).not.toMatch(/https?:|style="|javascript:|@import|url\(/);
    }
    expect(await page(id(30))).toContain('&lt;script&gt;alert(1)&lt;/script&gt;');
    expect(((await stat(layout.page(id(30)))).mode & 0o777).toString(8)).toBe('600');
  });

  it('shows the figures of guards, without keys, and commands to paste', async () => {
    const finding = { guard: 'max_deleted', message: '5 of 100 (5.0%) rows would be deleted, 3 may be' };
    const error = {
      code: 'guard_max_deleted',
      message: `${finding.message}: anna@example.com`,
      hint: null,
      request_id: null,
    };
    const held = stream('members', { status: 'held', findings: [finding], error });
    await keep(report(id(30), [held], { status: 'held' }));
    await writePages(task, id(30));
    const text = await page(id(30));
    expect(text).toContain('<code>max_deleted</code>: 5 of 100 (5.0%) rows would be deleted, 3 may be');
    expect(text).not.toContain('anna');
    expect(text).toContain('It is no longer held');
    const old = { ...held, findings: undefined, limit: undefined } as unknown as StreamReport;
    await keep(report(id(30), [old], { status: 'held' }));
    await writePages(task, id(30));
    expect(await page(id(30))).not.toContain('anna');
  });

  it('shows what needs attention although nothing was stopped', async () => {
    const warnings = [{ code: 'column_unknown', message: 'columns: no column "emial" to drop' }];
    const ofRun = [{ code: 'clock_off', message: 'the clock is ahead' }];
    await keep(report(id(30), [stream('members', { warnings })], { warnings: ofRun }));
    await writePages(task, id(30));
    const text = await page(id(30));
    expect(text).toContain('<h2>Needs attention</h2>');
    expect(text).toContain('columns: no column &quot;emial&quot; to drop <code>[column_unknown]</code>');
    expect(text).toContain('the clock is ahead <code>[clock_off]</code>');
  });

  it('shows hints with the configuration and the job, to be pasted as they are', async () => {
    const error = {
      code: 'destination_login',
      message: 'refused',
      hint: 'set it, then: cdsync push',
      request_id: null,
    };
    await keep(report(id(30), [stream('members', { status: 'failed', error })], { status: 'failed' }));
    await writePages(task, id(30));
    expect(await page(id(30))).toContain(
      "<b>Do this:</b> Set it, then: cdsync push</p><pre><code>cdsync push '/srv/my data/cdsync.yaml' --job nightly</code></pre>",
    );
  });

  it('shows first what needs attention, then what changed, then freshness, destinations, columns and the runs before', async () => {
    const finding = { guard: 'max_deleted', message: '90 of 100 rows deleted (90%); the limit is 10%' };
    const held = stream('vip', { status: 'held', findings: [finding], rows: 10 });
    await keep(report(id(29), [stream('members'), stream('vip')]));
    const delivered = { name: 'lake', stream: 'members', status: 'ok', action: 'increment', why: '' } as const;
    const destinations = [{ ...delivered, rows: 6, refused: 0, seconds: 1, error: null }];
    await keep(
      report(id(30), [stream('members'), held], { status: 'held', destinations }),
      figures(['members'], ['email']),
    );
    await writePages(task, id(30));
    const text = await page(id(30));
    expect([...text.matchAll(/<h2>([^<]*)<\/h2>/g)].map(([, title]) => title)).toEqual([
      'Needs attention',
      'What changed',
      'Freshness',
      'Destinations',
      'Columns that changed',
      'Beside the run before',
      'Columns',
      'How it ran',
    ]);
    expect(text).toContain(
      '<p class="lead">Stream vip is held by a guard: nothing of it was published.<br>members: 3 inserted, 2 updated, 1 deleted, now 100 rows.</p>',
    );
    expect(text).toContain('<td class="n">100<small>10 if approved</small></td>');
    expect(text).toContain('<dt>Share of the limit</dt><dd>100 %<small>Profile API: 100 % of 20 a second</small>');
  });

  it('adds no figures of streams that may share rows', async () => {
    const streams = ['members', 'gold', 'vip'].map((name) => stream(name));
    for (const day of [29, 30]) await keep(report(id(day), streams));
    await writePages(task, id(30));
    const shown = `${await page(id(30))}${await readFile(layout.indexPage, 'utf8')}`;
    for (const sum of ['9 inserted', '6 updated', '>9<', '300 rows']) expect(shown).not.toContain(sum);
  });

  it('folds streams without a change, and lists columns that changed by how much they did', async () => {
    const quiet = stream('audit', { inserted: 0, updated: 0, deleted: 0, unchanged: 100 });
    const columns = figures(['members'], ['email', 'tier', 'points']);
    const counts = [0, 1, 2];
    for (const [index, column] of (columns.streams.members?.columns ?? []).entries())
      column.changed = counts[index] ?? 0;
    for (const day of [29, 30]) await keep(report(id(day), [stream('members'), quiet]), columns);
    await writePages(task, id(30));
    const text = await page(id(30));
    expect(text).toMatch(/<details><summary>1 stream without a change<\/summary>(?:(?!<\/details>).)*audit/s);
    const [, listed = ''] = /<h2>Columns that changed<\/h2>(.*?)<\/section>/s.exec(text) ?? [];
    expect([...listed.matchAll(/<th scope="row"><bdi>(\w+)/g)].map(([, column]) => column)).toEqual(['points', 'tier']);
  });

  it('folds columns that changed less than the first twelve', async () => {
    const names = Array.from({ length: 20 }, (_, index) => `c${index}`);
    for (const day of [29, 30]) await keep(report(id(day), [stream('members')]), figures(['members'], names));
    await writePages(task, id(30));
    expect(await page(id(30))).toContain('<summary>8 columns that changed less</summary>');
  });

  it('of a first run lists the streams that were loaded, and compares them with nothing', async () => {
    const first = { inserted: 100, updated: 0, deleted: 0, unchanged: 0 };
    await keep(report(id(29), [stream('members', first)], { sequence: 1 }), figures(['members'], ['email']));
    await writePages(task, id(29));
    const text = await page(id(29));
    expect(text).toContain('First run: loaded 100 rows of members. There is nothing to compare with yet.');
    expect(text).toContain('<h2>First load</h2>');
    expect(text).not.toMatch(/<figure>|<h2>What changed/);
    expect(await readFile(layout.indexPage, 'utf8')).toContain('<td class="why">first load</td>');
    await keep(report(id(30), [stream('members')], { sequence: 2 }));
    await writePages(task, id(30));
    const second = await page(id(30));
    // The first load is no bar, so that it does not flatten those of changes.
    expect(second).toContain('29 Nov 2026, 02:15 (first load)</title>');
    expect(second).toContain('>29 Nov</text>');
  });

  it('shows a run far above the others as a bar that is cut, and the days of runs', async () => {
    for (let day = 20; day <= 30; day += 1)
      await keep(report(id(day), [stream('members')], { seconds: day === 24 ? 900 : 9 }));
    await writePages(task, id(30));
    const text = await page(id(30));
    const [, time = ''] = /<h3>Time<\/h3>(.*?)<\/figure>/s.exec(text) ?? [];
    expect(time.match(/class="cut"/g)).toHaveLength(1);
    expect(time).toContain('24 Nov 2026, 02:15: 15 min 0 s (time)');
    expect([...time.matchAll(/>(\d+ Nov)<\/text>/g)].map(([, day]) => day)).toEqual([
      '30 Nov',
      '27 Nov',
      '24 Nov',
      '21 Nov',
    ]);
  });

  it('names streams with people before a log of events that has more new rows', async () => {
    const [few, many] = [
      { inserted: 1, updated: 2, deleted: 0 },
      { inserted: 500, updated: 0, deleted: 0 },
    ];
    await keep(report(id(29), [stream('audit', many), stream('members', few), stream('new', few)]));
    const grown = stream('members', { inserted: 7, updated: 0, deleted: 0 });
    await keep(report(id(30), [stream('audit', many), grown]));
    await writePages(task, id(30));
    const lead = /<p class="lead">([\s\S]*?)<\/p>/.exec(await page(id(30)))?.[1] ?? '';
    expect(lead.indexOf('members: 7 inserted')).toBeGreaterThanOrEqual(0);
    expect(lead.indexOf('members: 7 inserted')).toBeLessThan(lead.indexOf('audit: 500 inserted'));
  });

  it('has changes of columns and announced ends of versions as news', async () => {
    const added = { column: 'attributes.vip', change: 'column_added', from: null, to: 'BOOLEAN' } as const;
    const ending = {
      api: 'profile',
      version: '2025-07-31',
      deprecated: null,
      sunset: '2027-03-31T00:00:00.000Z',
    } as const;
    await keep(report(id(29), [stream('members')]));
    await keep(report(id(30), [stream('members', { schema_changes: [added] })], { deprecations: [ending] }));
    await writePages(task, id(30));
    const text = await page(id(30));
    expect(text).toContain('<bdi>members</bdi>: new columns: attributes.vip (BOOLEAN)');
    expect(text).toContain(
      '<h3>deprecated</h3><p>the Profile API version 2025-07-31 ends 31 Mar 2027, 00:00 UTC, the service says',
    );
    expect(text).toContain("<code>cdsync check '/srv/my data/cdsync.yaml' --job nightly</code>");
    expect(await readFile(layout.indexPage, 'utf8')).toContain(
      '1 column new or of another type; an API version is deprecated',
    );
  });

  it.each(['ok', 'held', 'partial', 'failed', 'interrupted'] as const)(
    'has the word %s for that status, as reports have',
    async (status) => {
      await keep(report(id(30), [stream('members')], { status }));
      await writePages(task, id(30));
      expect(await page(id(30))).toMatch(new RegExp(`class="status ${status} pill"><svg.*?</svg>${status}</span>`));
    },
  );

  it('begins what to do with the action of the code, and keeps a hint that only explains', async () => {
    const error = {
      code: 'unreachable',
      message: 'no connection',
      hint: 'Is `base_url` right?',
      request_id: null,
    };
    await keep(report(id(30), [stream('members', { status: 'failed', error })], { status: 'failed' }));
    await writePages(task, id(30));
    expect(await page(id(30))).toContain(
      '<b>Do this:</b> Correct <code>base_url</code> or the network, then: cdsync check</p><pre><code>cdsync check \'/srv/my data/cdsync.yaml\' --job nightly</code></pre><p class="note">Is <code>base_url</code> right?</p>',
    );
  });

  it('never shows more than all of the limit: requests at both ends of a second may be those of two', async () => {
    await keep(report(id(30), [stream('members', { requests: 30, seconds: 1.2 })]));
    await writePages(task, id(30));
    expect(await page(id(30))).toContain('<dt>Share of the limit</dt><dd>100 %');
  });

  it('says which figures are not known', async () => {
    await keep(report(id(30), [stream('members')]), figures(['members'], ['email']));
    await writePages(task, id(30));
    const text = await page(id(30));
    expect(text).toContain('<td class="n zero">not known</td>');
    await keep(report(id(29), [stream('members', { limit: null })]));
    await writePages(task, id(29));
    expect(await page(id(29))).toContain('No column statistics for this run.');
  });

  it('stays small with 100 streams of 50 columns', async () => {
    const names = Array.from({ length: 100 }, (_, index) => `stream_${index}`);
    const columns = Array.from({ length: 50 }, (_, index) => `${'column'.repeat(9)}_${index}`);
    const streams = names.map((name) => stream(name));
    for (let day = 1; day <= 30; day += 1) await keep(report(id(day), streams), figures(names, columns));
    await writePages(task, id(30));
    expect((await page(id(30))).length).toBeLessThan(500_000);
  }, 60_000);

  it('can be made again for any run that has a report, and names the last runs if there is none', async () => {
    for (const day of [28, 29, 30]) await keep(report(id(day), [stream('members')]));
    const made = await remakePage(task, id(29));
    expect(made.page).toBe(await page(id(29)));
    expect(made.page).toContain('Beside the run before');
    expect(made.document.jobs[0]?.run_id).toBe(id(29));
    expect((await remakePage(task, undefined)).path).toBe(layout.page(id(30)));
    const wrong = remakePage(task, 'nonsense-that-is-long');
    await expect(wrong).rejects.toMatchObject({ code: 'run_not_found', hint: expect.stringContaining(id(30)) });
  });
});

describe('the page of all runs', () => {
  const rows = async () =>
    [...(await readFile(layout.indexPage, 'utf8')).matchAll(/<tr data-run="([^"]+)">/g)].map(([, run]) => run);

  it('lists every run, newest first, and links those with a page', async () => {
    for (let day = 1; day <= 3; day += 1) {
      await keep(report(id(day), [stream('members')]));
      await writePages(task, id(day));
    }
    expect(await rows()).toEqual([id(3), id(2), id(1)]);
    expect(await readFile(layout.indexPage, 'utf8')).toContain(`<a href="${id(1)}.html">`);
  });

  it('says which stream is held or failed and why, without keys, and gives absolute times', async () => {
    const finding = { guard: 'max_deleted', message: '90 of 100 rows deleted (90%); the limit is 10%' };
    const error = { code: 'guard_max_deleted', message: 'anna@example.com', hint: null, request_id: null };
    const away = { code: 'service_unavailable', message: 'timed out since 02:15:20', hint: null, request_id: null };
    await keep(report(id(1), [stream('members'), stream('vip')]));
    const streams = [
      stream('members', { status: 'held', findings: [finding], error }),
      stream('vip', { status: 'failed', error: away }),
    ];
    await keep(report(id(2), streams, { status: 'partial' }));
    await writePages(task, id(2));
    const index = await readFile(layout.indexPage, 'utf8');
    expect(index).toContain(
      '<bdi>members</bdi> held: max_deleted: 90 of 100 rows deleted (90%); the limit is 10%; <bdi>vip</bdi> failed: timed out since 02:15:20',
    );
    expect(index).not.toContain('anna');
    expect(index).toContain('The last run that was ok: 1 Nov 2026, 02:15 UTC.');
    expect(index).not.toMatch(/before this page| old\b|\bago\b/);
  });

  it('forgets pages, rows and figures of runs whose reports were removed', async () => {
    for (const day of [1, 2]) {
      await keep(report(id(day), [stream('members')]), figures(['members'], ['a']));
      await writePages(task, id(day));
    }
    await rm(layout.report(id(1)));
    await writePages(task, id(2));
    expect(await rows()).toEqual([id(2)]);
    expect((await readdir(layout.reports)).sort()).toEqual([`${id(2)}.html`, `${id(2)}.json`, 'index.html']);
    expect(await readdir(layout.figuresFolder)).toEqual([`${id(2)}.json`]);
  });

  it('takes rows of old runs from the page before, without reading their reports', async () => {
    for (let day = 1; day <= 32; day += 1) await keep(report(id(day), [stream('members')]));
    await writePages(task, id(32));
    await writeFile(layout.report(id(1)), 'damaged');
    await writePages(task, id(32));
    expect(await rows()).toHaveLength(32);
  });
});

describe('the rows of a run', () => {
  const failed = { status: 'failed', rows: 0 } as const;

  it('are those of the last snapshot for streams that were held or failed', async () => {
    await keep(report(id(1), [stream('a', { rows: 1_000 }), stream('b', { rows: 20 })]));
    const late = [stream('a', { rows: 1_003 }), stream('b', failed), stream('never', failed)];
    await keep(report(id(2), late, { status: 'partial' }));
    await writePages(task, id(2));
    const text = await page(id(2));
    expect(text).not.toContain('no earlier run to compare with');
    expect(text).toContain('2 of 3 streams failed; their last snapshots are unchanged, where they had one.');
    expect(text).toMatch(
      /<th scope="row">.*?b.*?<\/th><td>.*?failed.*?<\/td><td class="n">20<\/td><td class="n zero">–<\/td>/,
    );
  });

  it('are not known if no run has committed a stream', async () => {
    await keep(report(id(1), [stream('never', failed)], { status: 'failed' }));
    await writePages(task, id(1));
    expect(await page(id(1))).toContain('1 of 1 stream failed; it has no snapshot yet.');
  });
});
