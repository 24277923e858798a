import { median } from '../core/quantities.js';
import { brief } from './format.js';
import { type Html, html } from './html.js';

/** A run in a plot. */
export interface Point {
  /** Undefined if the run has no such figure. */
  readonly value: number | undefined;
  /** When it was, and how it ended if not well: `4 Nov 2026, 02:15 (failed)`. */
  readonly label: string;
  /** The day for the axis, and the time for runs of one day. */
  readonly day: string;
  readonly time: string;
  readonly isBad: boolean;
}

export interface Plot {
  readonly title: Html;
  /** The counted things, for people who hear the page: `rows of the snapshot`. */
  readonly what: string;
  /** Lines show a state, such as rows; bars the changes of a run. */
  readonly as: 'line' | 'bars';
  /** Oldest first; the last one is the run that the page is about. */
  readonly points: readonly Point[];
  readonly format: (value: number) => string;
  /** In few characters, for the axis. Default: thousands as `k`. */
  readonly formatAxis?: (value: number) => string;
}

const area = { left: 46, right: 268, top: 12, bottom: 78, width: 270, height: 94 };
/** Fewer runs leave space at the left, so that one run is not one fat bar. */
const minPlaces = 5;
/** A bar that is this many times as high as the next one is cut, so that it does not flatten the others. */
const cutFrom = 4;

/** The next number upwards that reads well: 1, 2 or 5, and zeros. Most are counts, so 2.5 is none of them. */
function roundUp(value: number): number {
  if (value <= 0) return 1;
  const size = 10 ** Math.floor(Math.log10(value));
  const steps = size === 1 ? [1, 2, 5, 10] : [1, 2, 2.5, 5, 10];
  return (steps.find((step) => step * size >= value * 0.999) ?? 10) * size;
}

/** The highest value that the axis must hold: the second one, if the first is far above it. */
function highestShown(values: readonly number[]): number {
  const [first = 0, second = first] = [...values].sort((a, b) => b - a);
  return second > 0 && values.length > 2 && first > cutFrom * second ? second * 1.2 : first;
}

interface Scale {
  readonly low: number;
  readonly high: number;
  x(index: number): number;
  y(value: number): number;
  readonly step: number;
}

function scaleOf({ points, as }: Plot): Scale {
  const values = points.flatMap(({ value }) => value ?? []);
  const most = Math.max(0, ...values);
  const least = Math.min(...values, most);
  // A line need not begin at zero: what matters is how it moves. A level one is drawn in the middle.
  const margin = Math.max((most - least) * 0.15, most * 0.002, 0.5);
  const [low, high] = as === 'bars' ? [0, roundUp(highestShown(values))] : [Math.max(0, least - margin), most + margin];
  const places = Math.max(points.length, minPlaces);
  const step = (area.right - area.left) / places;
  return {
    low,
    high,
    step,
    x: (index) => area.left + (index + places - points.length + 0.5) * step,
    y: (value) => area.bottom - ((Math.min(value, high) - low) / (high - low)) * (area.bottom - area.top),
  };
}

const at = (place: number): string => String(Math.round(place * 10) / 10);

function pointText({ what, format }: Plot, { label, value }: Point): string {
  // A label that says why there is no value needs no more.
  if (value === undefined) return label.endsWith(')') ? label : `${label}: not known`;
  return `${label}: ${format(value)} (${what})`;
}

function bars(plot: Plot, scale: Scale): Html[] {
  const width = Math.max(2, scale.step * 0.68);
  return plot.points.map((point, index) => {
    const { value } = point;
    if (value === undefined)
      return html`<circle class="dot" cx="${at(scale.x(index))}" cy="${area.bottom - 3}" r="1.6"><title>${pointText(plot, point)}</title></circle>`;
    const isNow = index === plot.points.length - 1;
    // Next to nothing is still something to see.
    const height = value === 0 ? 0.6 : Math.max(1.6, area.bottom - scale.y(value));
    return html`<rect class="${isNow ? 'now' : 'bar'}" x="${at(scale.x(index) - width / 2)}" y="${at(area.bottom - height)}" width="${at(width)}" height="${at(height)}"><title>${pointText(plot, point)}</title></rect>${value > scale.high ? cutMark(scale.x(index), width) : undefined}`;
  });
}

/** Two strokes through a bar that is cut. */
function cutMark(x: number, width: number): Html {
  const [left, y] = [x - width / 2 - 1, area.top + 7];
  return html`<path class="cut" d="M${at(left)} ${at(y + 3)}l${at(width + 2)} -4m${at(-width - 2)} 8l${at(width + 2)} -4"/>`;
}

function line(plot: Plot, scale: Scale): Html[] {
  const shown = plot.points.flatMap((point, index) =>
    point.value === undefined ? [] : [{ point, index, value: point.value }],
  );
  const path = shown.map(({ index, value }) => `${at(scale.x(index))},${at(scale.y(value))}`).join(' ');
  return [
    html`<polyline class="trend" points="${path}"/>`,
    ...shown.map(({ point, index, value }) => {
      const isNow = index === plot.points.length - 1;
      return html`<circle class="${isNow ? 'now' : 'dot'}" cx="${at(scale.x(index))}" cy="${at(scale.y(value))}" r="${isNow ? 4 : 1.8}"><title>${pointText(plot, point)}</title></circle>`;
    }),
  ];
}

/** A cross above each run that did not end well. */
function crosses(plot: Plot, scale: Scale): Html[] {
  return plot.points.map((point, index) => {
    if (!point.isBad) return html``;
    const x = scale.x(index);
    const y =
      point.value === undefined ? area.bottom - 6 : Math.max(3, scale.y(point.value) - (plot.as === 'line' ? 9 : 5));
    return html`<path class="cross" d="M${at(x - 2.5)} ${at(y - 2.5)}l5 5m0-5l-5 5"><title>${pointText(plot, point)}</title></path>`;
  });
}

/** A small triangle above the run that the page is about, unless it has a cross: colour alone would not show it. */
function pointer({ points, as }: Plot, scale: Scale): Html {
  const last = points.at(-1);
  if (last?.value === undefined || last.isBad) return html``;
  const top = Math.max(0.5, scale.y(last.value) - (as === 'line' ? 12 : 8));
  return html`<path class="now" d="M${at(scale.x(points.length - 1) - 3.5)} ${at(top)}h7l-3.5 5z"/>`;
}

/** The space between the texts of two days, and between the right end and the text before the last one. */
const dayWidth = { between: 36, beforeLast: 55 };

/** The days below a plot, from the newest run backwards as many as fit; of runs of one day their times. */
function shownDays(points: readonly Point[], step: number): { index: number; text: string }[] {
  const isOneDay = new Set(points.map(({ day }) => day)).size === 1;
  const { between, beforeLast } = dayWidth;
  const every = Math.max(1, Math.ceil(between / step), Math.ceil((beforeLast - step / 2) / step - 0.01));
  const shown: { index: number; text: string }[] = [];
  for (let index = points.length - 1; index >= 0; index -= every) {
    const { day, time } = points[index] as Point;
    const text = isOneDay ? time : day;
    if (shown.at(-1)?.text !== text) shown.push({ index, text });
  }
  return shown;
}

function axes(plot: Plot, scale: Scale, middle: number | undefined): Html {
  const { left, right, top, bottom, height } = area;
  const { formatAxis = brief, points } = plot;
  const foot = height - 3;
  const days = shownDays(points, scale.step).map(({ index, text }) =>
    index === points.length - 1
      ? html`<text x="${right}" y="${foot}" text-anchor="end">${text}</text>`
      : html`<text x="${at(scale.x(index))}" y="${foot}" text-anchor="middle">${text}</text>`,
  );
  return html`<path class="grid" d="M${left} ${top}H${right}M${left} ${bottom}H${right}"/>${
    middle === undefined || points.length < 3
      ? undefined
      : html`<path class="median" d="M${left} ${at(scale.y(middle))}H${right}"/>`
  }<text x="${left - 5}" y="${top + 4}" text-anchor="end">${formatAxis(scale.high)}</text><text x="${left - 5}" y="${bottom + 3}" text-anchor="end">${formatAxis(scale.low)}</text>${days}`;
}

function summaryOf({ format }: Plot, before: readonly number[]): string {
  if (before.length === 0) return 'no earlier run to compare with';
  const [least, most] = [Math.min(...before), Math.max(...before)].map(format);
  if (before.length === 1) return `the run before: ${most}`;
  return least === most ? `always ${most} before` : `median ${format(median(before))}, ${least} to ${most}`;
}

/** A figure of the last runs as a small plot. Its values are in its label too. */
export function plotFigure(plot: Plot): Html {
  const { title, what, points, format } = plot;
  const last = points.at(-1)?.value;
  const before = points.slice(0, -1).flatMap(({ value }) => value ?? []);
  const middle = before.length === 0 ? undefined : median(before);
  const value = last === undefined ? 'not known' : format(last);
  const summary = summaryOf(plot, before);
  const isEmpty = points.every((point) => point.value === undefined);
  const scale = scaleOf(plot);
  const marks = plot.as === 'bars' ? bars(plot, scale) : line(plot, scale);
  const drawing = html`<svg viewBox="0 0 ${area.width} ${area.height}" role="img" aria-label="${`${what}, ${points.length === 1 ? 'one run' : `the last ${points.length} runs, oldest first`}; this run: ${value}; ${summary}`}">${axes(plot, scale, middle)}${marks}${crosses(plot, scale)}${pointer(plot, scale)}</svg>`;
  return html`<figure><figcaption><h3>${title}</h3><b>${last === undefined ? '–' : value}</b></figcaption><p>${summary}</p>${isEmpty ? undefined : drawing}</figure>`;
}
