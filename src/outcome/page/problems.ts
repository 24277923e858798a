import { type CommandPlace, completed } from '../../core/hinted-commands.js';
import type { JobReport, ReportedError, StreamReport } from '../../core/run.js';
import { Html, html, name } from './html.js';
import { statusWords } from './words.js';

const mostBoxes = 100;
const mostCharacters = 2000;

function cut(text: string): string {
  return text.length <= mostCharacters ? text : `${text.slice(0, mostCharacters)}…`;
}

interface Problem {
  readonly who: readonly string[];
  readonly status: 'failed' | 'skipped';
  readonly error: ReportedError;
}

/** One cause may fail many streams or destinations: it is shown once, with all of them. */
function problems(all: readonly (Pick<StreamReport, 'name' | 'error'> & { readonly status: string })[]): Problem[] {
  const causes = new Map<string, Omit<Problem, 'who'> & { readonly who: Set<string> }>();
  for (const { name: who, status, error } of all) {
    if (error === null || error === undefined) continue;
    // `failed` unless it was left out: a delivery may also have failed in part.
    const shown = status === 'skipped' ? status : 'failed';
    const key = `${shown} ${error.code} ${error.message}`;
    const cause = causes.get(key) ?? { who: new Set(), status: shown, error };
    cause.who.add(who);
    causes.set(key, cause);
  }
  return [...causes.values()].map(({ who, ...cause }) => ({ ...cause, who: [...who] }));
}

function names(all: readonly string[]): Html {
  const shown = all.slice(0, 20).map((each, index) => html`${index === 0 ? '' : ', '}${name(each)}`);
  return html`${shown}${all.length > 20 ? ` and ${all.length - 20} more` : ''}`;
}

function errorBox({ who, status, error }: Problem, place: CommandPlace): Html {
  const request = error.request_id === null || error.request_id === undefined ? '' : `, request ${error.request_id}`;
  return html`<div class="box ${status}"><h3>${names(who)}: ${statusWords(status)}</h3><p>${cut(String(error.message))} <code>[${error.code}${request}]</code></p>${
    error.hint ? html`<p><b>What to do:</b> ${cut(completed(error.hint, place))}</p>` : undefined
  }</div>`;
}

function heldBox(stream: StreamReport, runId: string, place: CommandPlace, isStillHeld: boolean): Html {
  const commands = [
    `cdsync diff --held ${runId} ${stream.name}`,
    ...['approve', 'discard'].map((command) => `cdsync ${command} ${runId} --stream ${stream.name}`),
  ];
  const findings = stream.findings ?? [];
  // Reports of an older cdsync have only a message that names keys of rows.
  const figures =
    findings.length === 0
      ? html`<p>The guard <code>${stream.error?.code.replace(/^guard_/, '') ?? 'not known'}</code> failed. The report of the run has its figures.</p>`
      : html`<ul>${findings.map(({ guard, message }) => html`<li><code>${guard}</code>: ${cut(message)}</li>`)}</ul>`;
  const next = isStillHeld
    ? html`<p>Look at it, then approve or discard it:</p><pre><code>${new Html(commands.map((command) => html`${completed(command, place)}`.text).join('\n'))}</code></pre>`
    : html`<p>It is no longer held: it was approved, discarded, or a later run has replaced it.</p>`;
  return html`<div class="box held"><h3>${name(stream.name)}: ${statusWords('held')}</h3>${figures}${next}</div>`;
}

/** What went wrong, with what to do about it. Undefined if nothing did. */
export function problemBoxes(report: JobReport, place: CommandPlace, held: ReadonlySet<string>): Html | undefined {
  const streams = report.streams ?? [];
  const ofGuards = streams.filter(({ status }) => status === 'held');
  const others = problems([...streams.filter(({ status }) => status !== 'held'), ...(report.destinations ?? [])]);
  const boxes = [
    ...others.map((problem) => errorBox(problem, place)),
    ...ofGuards.map((stream) => heldBox(stream, report.run_id, place, held.has(stream.name))),
  ];
  if (boxes.length === 0) return undefined;
  const more = boxes.length - mostBoxes;
  return html`<section><h2>What needs you</h2>${boxes.slice(0, mostBoxes)}${more > 0 ? html`<p class="note">and ${more} more; the report of the run has all of them.</p>` : undefined}</section>`;
}
