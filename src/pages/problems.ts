import { type CommandPlace, completed } from '../core/command-hints.js';
import { type Deprecation, deprecationLine } from '../core/deprecation.js';
import { errorType } from '../core/error-codes.js';
import { causeOf } from '../core/failures.js';
import type { DestinationReport, JobReport, ReportedError, ReportedWarning, StreamReport } from '../core/run-report.js';
import { moment, oneLine, statusWords } from './format.js';
import { Html, html, name } from './html.js';

const maxBoxes = 100;
const maxCharacters = 2000;

function cut(text: string): string {
  return oneLine(text, maxCharacters);
}

/** A message on one line; text between backticks is code. */
function prose(text: string): Html {
  const parts = cut(text).split(/`([^`]+)`/);
  return html`${parts.map((part, index) => (index % 2 === 0 ? html`${part}` : html`<code>${part}</code>`))}`;
}

interface Problem {
  readonly who: readonly string[];
  readonly status: 'failed' | 'skipped';
  readonly error: ReportedError;
  /** It is about a destination: its rows are committed. */
  readonly isDelivery: boolean;
}

/** One cause may fail many streams or destinations: it is shown once, with all of them. */
function problems(
  all: readonly (Pick<StreamReport, 'name' | 'error'> & { readonly status: string })[],
  isDelivery: boolean,
): Problem[] {
  const causes = new Map<string, Omit<Problem, 'who'> & { readonly who: Set<string> }>();
  for (const { name: who, status, error } of all) {
    if (error === null || error === undefined) continue;
    // `failed` unless it was left out: a delivery may also have failed in part.
    const shown = status === 'skipped' || status === 'not_tried' ? 'skipped' : 'failed';
    const key = `${shown} ${isDelivery ? who : ''} ${causeOf(error)}`;
    const cause = causes.get(key) ?? { who: new Set(), status: shown, error, isDelivery };
    cause.who.add(who);
    causes.set(key, cause);
  }
  return [...causes.values()].map(({ who, ...cause }) => ({ ...cause, who: [...who] }));
}

function names(all: readonly string[]): Html {
  const shown = all.slice(0, 20).map((shownName, index) => html`${index === 0 ? '' : ', '}${name(shownName)}`);
  return html`${shown}${all.length > 20 ? ` and ${all.length - 20} more` : ''}`;
}

/** `cdsync …` in a text, up to the end of a clause. */
const commandPattern = /\bcdsync [a-z][^,;:()`\n]*/g;

function sentence(text: string): Html {
  return prose(`${text.slice(0, 1).toUpperCase()}${text.slice(1)}`);
}

/** What to do, in words, and its commands as they can be pasted. */
function action(text: string, place: CommandPlace): Html {
  const commands = [...new Set(text.match(commandPattern)?.map((command) => completed(command.trim(), place)) ?? [])];
  return html`<p><b>Do this:</b> ${sentence(text)}</p>${commands.length === 0 ? undefined : pasteable(commands)}`;
}

function pasteable(commands: readonly string[]): Html {
  return html`<pre><code>${new Html(commands.map((command) => html`${cut(command)}`.text).join('\n'))}</code></pre>`;
}

/** For errors without a hint and without an action of their own. */
const readAgain = 'run it again: cdsync run';
const deliverAgain = 'correct the destination, or wait until it is back, then: cdsync push';
const logInAgain = 'correct the login or the permissions, then: cdsync check';

/** What to do about an error whose hint has no command. */
function usualAction({ error: { code, hint }, isDelivery }: Problem): string | undefined {
  const { kind, next } = errorType(code);
  if (next !== undefined) return next;
  if (hint?.match(commandPattern)) return undefined;
  if (isDelivery) return deliverAgain;
  return kind === 'auth' ? logInAgain : undefined;
}

/** What to do about an error. A hint that has no command in common with the action of its code explains it, and follows. */
function remedy(problem: Problem, place: CommandPlace): Html | undefined {
  const { code, hint } = problem.error;
  // The stream that it needs has its own box.
  if (code === 'dependency') return undefined;
  const known = usualAction(problem);
  if (known === undefined || !hint) return action(hint ?? known ?? readAgain, place);
  const commands = known.match(commandPattern) ?? [];
  if (commands.some((command) => hint.includes(command.trim()))) return action(hint, place);
  return html`${action(known, place)}<p class="note">${sentence(completed(hint, place))}</p>`;
}

function errorBox(problem: Problem, place: CommandPlace): Html {
  const { who, status, error } = problem;
  const request = error.request_id === null || error.request_id === undefined ? '' : `, request ${error.request_id}`;
  return html`<div class="box ${status}"><h3>${names(who)}: ${statusWords(status)}</h3><p>${prose(String(error.message))} <code>[${error.code}${request}]</code></p>${remedy(problem, place)}</div>`;
}

function heldBox(stream: StreamReport, runId: string, place: CommandPlace, isStillHeld: boolean): Html {
  const commands = [
    `cdsync diff --held ${runId} ${stream.name}`,
    ...['approve', 'discard'].map((command) => `cdsync ${command} ${runId} --stream ${stream.name}`),
  ];
  const figures = (stream.findings ?? []).map(
    ({ guard, message }) => html`<li><code>${guard}</code>: ${cut(message)}</li>`,
  );
  const next = isStillHeld
    ? html`<p><b>Do this:</b> Look at it, then approve or discard it:</p>${pasteable(commands.map((command) => completed(command, place)))}`
    : html`<p>It is no longer held: it was approved, discarded, or a later run has replaced it.</p>`;
  return html`<div class="box held"><h3>${name(stream.name)}: ${statusWords('held')}</h3><ul>${figures}</ul>${next}</div>`;
}

/** What to do about a warning; undefined if there is nothing. */
function warningAction(code: string, stream: string | undefined): string | undefined {
  if (code === 'guard_column_unknown') return 'correct the name under `guards:`, then: cdsync check';
  if (code.startsWith('guard_') && stream !== undefined) return `look at the changes: cdsync diff ${stream}`;
  return errorType(code).next;
}

/** What needs attention although nothing was stopped. */
function warningBoxes({ warnings = [], streams = [] }: JobReport, place: CommandPlace): Html[] {
  const box = ({ code, message }: ReportedWarning, stream?: string) => {
    const known = warningAction(code, stream);
    const who = stream === undefined ? '' : html`${name(stream)}: `;
    return html`<div class="box held"><h3>${who}warning</h3><p>${prose(message)} <code>[${code}]</code></p>${
      known === undefined ? undefined : action(known, place)
    }</div>`;
  };
  const ofStreams = streams.flatMap((stream) => (stream.warnings ?? []).map((warning) => box(warning, stream.name)));
  return [...warnings.map((warning) => box(warning)), ...ofStreams];
}

function deprecationBox(deprecation: Deprecation, place: CommandPlace): Html {
  const next =
    deprecation.version === null
      ? 'ask the service what replaces it; then: cdsync check'
      : 'set a newer version under `service.api_versions`, then: cdsync check';
  const dated = (text: string | null) =>
    text !== null && /^\d{4}-\d\d-\d\dT[\d:.]+Z$/.test(text) ? `${moment(Date.parse(text))} UTC` : text;
  const { deprecated, sunset } = deprecation;
  const line = deprecationLine({ ...deprecation, deprecated: dated(deprecated), sunset: dated(sunset) });
  return html`<div class="box held"><h3>deprecated</h3><p>${prose(line)}</p>${action(next, place)}</div>`;
}

/** Whether a delivery was not tried because its stream has no rows for it: what keeps the stream is shown with the stream. */
function isForItsStream({ status, stream }: DestinationReport, streams: readonly StreamReport[]): boolean {
  return status === 'not_tried' && streams.some((report) => report.name === stream && report.status !== 'ok');
}

/** What went wrong, with what to do about it. Undefined if nothing did. */
export function problemBoxes(report: JobReport, place: CommandPlace, held: ReadonlySet<string>): Html | undefined {
  const streams = report.streams ?? [];
  const ofGuards = streams.filter(({ status }) => status === 'held');
  const others = [
    ...problems(
      streams.filter(({ status }) => status !== 'held'),
      false,
    ),
    ...problems(
      (report.destinations ?? []).filter((destination) => !isForItsStream(destination, streams)),
      true,
    ),
  ];
  const boxesOf = (wanted: Problem['status']) =>
    others.filter(({ status }) => status === wanted).map((problem) => errorBox(problem, place));
  const boxes = [
    ...boxesOf('failed'),
    ...ofGuards.map((stream) => heldBox(stream, report.run_id, place, held.has(stream.name))),
    // Their cause is above.
    ...boxesOf('skipped'),
    ...warningBoxes(report, place),
    ...(report.deprecations ?? []).map((deprecation) => deprecationBox(deprecation, place)),
  ];
  if (boxes.length === 0) return undefined;
  const more = boxes.length - maxBoxes;
  return html`<section><h2>Needs attention</h2>${boxes.slice(0, maxBoxes)}${more > 0 ? html`<p class="note">and ${more} more; the report of the run has all of them.</p>` : undefined}</section>`;
}
