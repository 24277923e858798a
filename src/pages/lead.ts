import { formatCount, formatCounted } from '../core/quantities.js';
import type { JobReport, StreamReport } from '../core/run-report.js';
import { previousRowCount } from '../notify/run-figures.js';
import { changedStreams, changeWords, type EarlierReports, isFirstLoad, isFirstRun } from './changes.js';
import { type Html, html } from './html.js';

/** The most streams that the first sentences name. */
const namedStreams = 3;

function listed(words: readonly string[]): string {
  return words.length < 2 ? words.join('') : `${words.slice(0, -1).join(', ')} and ${words.at(-1)}`;
}

function firstRunSentence(streams: readonly StreamReport[]): string {
  const byRows = [...streams].sort((a, b) => b.rows - a.rows);
  const named = byRows.slice(0, namedStreams).map(({ name, rows }) => `${formatCounted(rows, 'row')} of ${name}`);
  const more = byRows.length - named.length;
  return `First run: loaded ${listed(more > 0 ? [...named, formatCounted(more, 'more stream')] : named)}. There is nothing to compare with yet.`;
}

function changeSentences(report: JobReport, before: EarlierReports): string[] {
  const ok = (report.streams ?? []).filter(({ status }) => status === 'ok');
  if (ok.length === 0) return [];
  if (isFirstRun(report, before)) return [firstRunSentence(ok)];
  const changed = changedStreams(report, before);
  const loaded = ok.filter((stream) => isFirstLoad(stream, before));
  const sentences = changed
    .slice(0, namedStreams)
    .map((stream) => `${stream.name}: ${changeWords(stream)}, now ${formatCounted(stream.rows, 'row')}.`);
  if (changed.length > namedStreams)
    sentences.push(`${formatCounted(changed.length - namedStreams, 'more stream')} changed.`);
  for (const { name, rows } of loaded) sentences.push(`${name}: first load, ${formatCounted(rows, 'row')}.`);
  return sentences.length === 0 ? [`Nothing changed in ${formatCounted(ok.length, 'stream')}.`] : sentences;
}

function failedSentence(failed: readonly StreamReport[], all: number, before: EarlierReports): string {
  const unchanged = failed.filter(({ name }) => previousRowCount(name, { streams: [] }, before) !== undefined);
  const kept =
    unchanged.length === failed.length
      ? failed.length === 1
        ? 'its last snapshot is unchanged'
        : 'their last snapshots are unchanged'
      : unchanged.length === 0
        ? failed.length === 1
          ? 'it has no snapshot yet'
          : 'they have no snapshot yet'
        : 'their last snapshots are unchanged, where they had one';
  return `${formatCount(failed.length)} of ${formatCounted(all, 'stream')} failed; ${kept}.`;
}

/** The failures of a run, then its changes: a sentence on each line. */
export function lead(report: JobReport, before: EarlierReports): Html {
  const streams = report.streams ?? [];
  const of = (status: string) => streams.filter((stream) => stream.status === status);
  const parts: string[] = [];
  const [held, failed] = [of('held'), of('failed')];
  if (failed.length > 0) parts.push(failedSentence(failed, streams.length, before));
  if (held.length > 0) {
    const who = held.length === 1 ? `Stream ${held[0]?.name} is` : `${formatCount(held.length)} streams are`;
    parts.push(`${who} held by a guard: nothing of ${held.length === 1 ? 'it' : 'them'} was published.`);
  }
  const undelivered = (report.destinations ?? []).filter(({ status }) => status === 'failed' || status === 'partial');
  const late = [...new Set(undelivered.map((destination) => destination.name))];
  if (late.length > 0)
    parts.push(
      `${late.length === 1 ? `Destination ${late[0]}` : `${formatCount(late.length)} destinations`} did not get everything.`,
    );
  if (report.status === 'interrupted') parts.push('The run was interrupted; the next one resumes.');
  const lines = [...parts, ...changeSentences(report, before)];
  return html`<p class="lead">${lines.map((line, index) => html`${index === 0 ? undefined : html`<br>`}${line}`)}</p>`;
}
