import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { JobReport, RunReport } from '../../../src/core/run-report.js';
import type { Message } from '../../../src/notify/message.js';
import type { JobStatus } from '../../../src/output/status.js';
import { readExposition } from '../../fixtures/exposition.js';
import { readMetrics } from '../../fixtures/otlp.js';
import type { Received } from '../../fixtures/webhook-server.js';
import type { Workspace } from '../../fixtures/workspace.js';

type Cells = Readonly<Record<string, string>>;

/** Rows of a table of a page, by its heads. */
export function pageTable(page: string, label: string): Cells[] {
  const from = page.indexOf(`aria-label="${label}"`);
  if (from < 0) return [];
  const text = page.slice(from, page.indexOf('</table>', from));
  const plain = (cell: string) => cell.replace(/<[^>]*>/g, '').trim();
  const heads = [...text.matchAll(/<th scope="col"[^>]*>(.*?)<\/th>/g)].map(([, head = '']) => plain(head));
  return text
    .split('<tr')
    .slice(2)
    .map((row) => {
      const cells = [...row.matchAll(/<t[hd]\b[^>]*>(.*?)<\/t[hd]>/g)].map(([, cell = '']) => plain(cell));
      return Object.fromEntries(heads.map((head, at) => [head, cells[at] ?? '']));
    });
}

/** Rows of a table of the terminal, by its heads. @param first the first head */
export function textTable(text: string, first: string): Cells[] {
  const lines = text.split('\n').map((line) => line.trim());
  const at = lines.findIndex((line) => line.startsWith(`${first} `));
  if (at < 0) return [];
  const heads = (lines[at] ?? '').split(/ {2,}/);
  return lines.slice(at + 1, lines.indexOf('', at)).map((line) => {
    const cells = line.split(/ {2,}/);
    return Object.fromEntries(heads.map((head, column) => [head, cells[column] ?? '']));
  });
}

/** A count of a text; undefined for a dash. */
export function countIn(text: string | undefined): number | undefined {
  const count = Number((text ?? '–').replaceAll(',', ''));
  return Number.isNaN(count) ? undefined : count;
}

/** Everything that a job says about its last run. */
export interface Outputs {
  readonly report: JobReport;
  readonly page: string;
  /** Its row in the index of runs, as text. */
  readonly indexRow: string;
  readonly status: JobStatus;
  readonly statusText: string;
  readonly message: Message | undefined;
  /** Figures of the text file, by name and labels. */
  readonly prometheus: ReadonlyMap<string, number>;
  readonly otlp: ReadonlyMap<string, number>;
  /** Variables of the commands of `after`. */
  readonly after: Cells;
}

function seriesOf(name: string, labels: Readonly<Record<string, unknown>>): string {
  const words = Object.entries(labels).filter(([key]) => key !== 'job');
  return [name.replaceAll('.', '_').replace(/(_seconds|_bytes)?(_total)?$/, ''), ...words.map(([, word]) => word)].join(
    ' ',
  );
}

function prometheusFigures(text: string): Map<string, number> {
  return new Map(
    [...readExposition(text)].flatMap(([name, { samples }]) =>
      samples.map(({ labels, value }) => [seriesOf(name, labels), value] as const),
    ),
  );
}

function otlpFigures(body: string | undefined): Map<string, number> {
  if (body === undefined) return new Map();
  const { points } = readMetrics(JSON.parse(body));
  return new Map(points.map(({ name, attributes, value }) => [seriesOf(name, attributes), value] as const));
}

/** Reads all outputs of a job. @param received what its receivers have got since the command began */
export async function outputsOf(space: Workspace, job: string, received: readonly Received[]): Promise<Outputs> {
  const read = (...path: string[]) => readFile(join(space.folder, ...path), 'utf8');
  const reported = await space.cdsync(['report', `${job}.json`, '--json']);
  const [report] = (JSON.parse(reported.stdout) as RunReport).jobs as [JobReport];
  const inReports = (name: string) => read('data', job, 'reports', name);
  const bodies = (path: string) => received.flatMap((each) => (each.path === path ? [each.body] : []));
  const row = (await inReports('index.html')).match(new RegExp(`<tr data-run="${report.run_id}">.*`))?.[0] ?? '';
  const environment = await read('after.txt').catch(() => '');
  return {
    report,
    page: await inReports(`${report.run_id}.html`),
    indexRow: row.replace(/<[^>]*>/g, ' '),
    status: JSON.parse((await space.cdsync(['status', `${job}.json`, '--json'])).stdout) as JobStatus,
    statusText: (await space.cdsync(['status', `${job}.json`])).stdout,
    message: bodies('/hook')
      .map((body) => JSON.parse(body) as Message)
      .at(-1),
    prometheus: prometheusFigures(await read('numbers.prom')),
    otlp: otlpFigures(bodies('/otlp/v1/metrics').at(-1)),
    after: Object.fromEntries(
      environment
        .split('\n')
        .map((line) => line.split('='))
        .filter(([key]) => key),
    ),
  };
}
