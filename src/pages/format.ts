import type { DestinationReport, RunStatus, StreamStatus } from '../core/run-report.js';
import { type Html, html, Html as Raw } from './html.js';

type KnownStatus = RunStatus | StreamStatus | DestinationReport['status'];

const circle = '<circle cx="8" cy="8" r="7" fill="none" stroke="currentColor" stroke-width="1.6"/>';
const strokes: Record<KnownStatus, string> = {
  ok: 'M4.8 8.3l2.2 2.2 4.3-4.7',
  held: 'M6.2 5.2v5.6M9.8 5.2v5.6',
  partial: 'M8 4.2v4.6M8 11v.6',
  failed: 'M5.4 5.4l5.2 5.2M10.6 5.4l-5.2 5.2',
  interrupted: 'M5 8h6',
  locked: 'M5 8h6',
  skipped: 'M5 8h6',
  not_tried: 'M5 8h6',
};

/** A status, in the word that reports and commands have, with an own sign: the colour adds nothing. */
export function statusWords(status: KnownStatus, { pill = false }: { pill?: boolean } = {}): Html {
  // Reports are files: whatever is in them, the page shows no more than text.
  const strokeName = Object.hasOwn(strokes, status) ? status : 'skipped';
  const sign = new Raw(
    `<svg viewBox="0 0 16 16" aria-hidden="true">${circle}<path d="${strokes[strokeName]}" fill="none" stroke="currentColor" stroke-width="1.7" stroke-linecap="round"/></svg>`,
  );
  return html`<span class="status ${strokeName}${pill ? ' pill' : ''}">${sign}${strokeName}</span>`;
}

/** A message on one line, cut after `maxCharacters`. DuckDB's mark below a place in SQL is left out: it would point nowhere. */
export function oneLine(message: string, maxCharacters: number): string {
  const line = message.replaceAll(/(?<!\s)\s*\n\s*/g, ' ').replace(/ \^$/, '');
  return line.length <= maxCharacters ? line : `${line.slice(0, maxCharacters)}…`;
}

/** `4 Nov 2026, 02:15`, UTC; a text that says so if the time is not known. */
export function moment(ms: number): string {
  if (Number.isNaN(ms)) return 'not known';
  const [, day, month, year, time] = /^\w+, (\d+) (\w+) (\d+) (\d\d:\d\d)/.exec(new Date(ms).toUTCString()) ?? [];
  return `${Number(day)} ${month} ${year}, ${time}`;
}

/** `02:15`, UTC. */
export function clockTime(ms: number): string {
  return moment(ms).replace(/^.*, /, '');
}

/** `4 Nov` */
export function shortDay(ms: number): string {
  return Number.isNaN(ms) ? '?' : moment(ms).replace(/ \d{4}, .*/, '');
}

/** A share of 1 as a percentage, with as many digits as it needs; `0 %` only for none, `100 %` only for all. */
export function percent(share: number): string {
  const value = share * 100;
  if (value === 0 || value === 100) return `${value} %`;
  if (value < 0.1) return '< 0.1 %';
  if (value > 99.9 && value < 100) return '> 99.9 %';
  return `${value < 10 || (value > 99 && value < 100) ? value.toFixed(1) : Math.round(value)} %`;
}

/** A number for the end of an axis: `1.2 M`. */
export function brief(value: number): string {
  for (const [size, unit] of [
    [1e9, ' G'],
    [1e6, ' M'],
    [1e3, ' k'],
  ] as const)
    if (Math.abs(value) >= size) return `${Number((value / size).toPrecision(3))}${unit}`;
  return String(Number(value.toPrecision(3)));
}

/** Seconds in few characters: `100 s`, `2.5 min`, `3 h`. */
export function briefTime(seconds: number): string {
  if (seconds < 120) return `${Number(seconds.toPrecision(2))} s`;
  return seconds < 7200
    ? `${Number((seconds / 60).toPrecision(2))} min`
    : `${Number((seconds / 3600).toPrecision(2))} h`;
}
