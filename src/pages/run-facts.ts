import { apiNames } from '../core/deprecation.js';
import { formatBytes, formatCount, formatCounted, formatDuration } from '../core/quantities.js';
import type { JobReport } from '../core/run-report.js';
import { runBudget } from '../notify/run-figures.js';
import { percent } from './format.js';
import { type Html, html } from './html.js';

function fact(term: string, value: string, small?: string): Html {
  return html`<div><dt>${term}</dt><dd>${value}${small === undefined ? undefined : html`<small>${small}</small>`}</dd></div>`;
}

/** How the run went: time, requests, how much of the limits it used. */
export function runFacts(report: JobReport): Html {
  const streams = report.streams ?? [];
  const sum = (of: 'requests' | 'retries' | 'throttled' | 'bytes' | 'pages') =>
    streams.reduce((all, stream) => all + (stream[of] ?? 0), 0);
  const limits = new Map(streams.flatMap(({ limit }) => (limit ? [[limit.group, limit.per_second] as const] : [])));
  const named = [...limits].map(([group, most]) => `${apiNames[group]}: ${formatCount(most)} a second`);
  const again = sum('retries');
  const budget = runBudget({ streams });
  return html`<dl class="facts">${[
    fact('Time', formatDuration((report.seconds ?? 0) * 1000), report.resumed ? 'resumed an earlier run' : undefined),
    fact('Snapshot', report.sequence === null ? 'none yet' : formatCount(report.sequence)),
    fact(
      'Requests',
      formatCount(sum('requests')),
      again > 0 ? `${formatCount(again)} sent again, ${formatCount(sum('throttled'))} for 429` : undefined,
    ),
    fact('Received', formatBytes(sum('bytes')), formatCounted(sum('pages'), 'page')),
    fact(
      'Share of the limit',
      budget === undefined ? 'not known' : percent(budget),
      named.length === 0 ? undefined : named.join('; '),
    ),
  ]}</dl>`;
}
