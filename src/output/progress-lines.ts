import { apiNames } from '../core/deprecation.js';
import { formatCount, formatCounted, formatDuration } from '../core/quantities.js';
import type { StreamReport } from '../core/run-report.js';
import type { DeliveryProgress } from '../delivery/delivery.js';
import type { StreamFigures } from '../engine/progress.js';
import type { LimitShare } from '../rate-limit/budget.js';

/** After this many milliseconds a figure counts for about a third. */
const memoryMs = 10_000;

/**
 * How fast counters grow: a mean in which recent growth counts more. It is the plain mean at first, so that it is right from
 * the first seconds on, and follows a change within some ten seconds.
 */
export class RateEstimate {
  #at: number;
  #counts: readonly number[];
  #weight = 0;
  readonly #sums: number[];

  /** @param at in milliseconds of a clock that never goes back @param counts the counters then */
  constructor(at: number, counts: readonly number[]) {
    this.#at = at;
    this.#counts = counts;
    this.#sums = counts.map(() => 0);
  }

  /** Takes the counters in. */
  observe(at: number, counts: readonly number[]): void {
    const passed = at - this.#at;
    if (passed <= 0) return;
    const kept = Math.exp(-passed / memoryMs);
    this.#weight = this.#weight * kept + passed;
    for (const [which, count] of counts.entries())
      this.#sums[which] = (this.#sums[which] ?? 0) * kept + (count - (this.#counts[which] ?? 0));
    this.#at = at;
    this.#counts = counts;
  }

  /** Growth of a counter in a second. */
  perSecond(which: number): number {
    return this.#weight === 0 ? 0 : Math.max(0, ((this.#sums[which] ?? 0) / this.#weight) * 1000);
  }
}

/** The state of one stream that a progress line shows. */
export interface StreamView {
  readonly name: string;
  readonly phase: string;
  readonly rows: number;
  readonly requests: number;
  /** All rows, by the service's total or the last snapshot; undefined if unknown. */
  readonly expectedRows: number | undefined;
  /** What `rows` counts; left out: rows. */
  readonly unit?: 'rows' | 'answers';
  /** The limit that its requests count against; left out: that of the Profile API. */
  readonly limit?: StreamReport['limit'] | undefined;
  readonly figures?: StreamFigures | undefined;
}

/** Everything that is shown of a run at one moment. */
export interface RunView {
  /** The phase of the run as a whole: reading, committing, publishing, delivering. */
  readonly phase: string;
  readonly streams: readonly StreamView[];
  readonly deliveries: readonly DeliveryProgress[];
  readonly share: LimitShare | undefined;
}

/** One line about the limit, if this process does not have all of it. */
export function shareLines(share: LimitShare | undefined): string[] {
  if (share === undefined || (share.otherProcesses === 0 && share.part >= 1)) return [];
  return [shareLine(share)];
}

export function shareLine({ part, otherProcesses: others }: LimitShare): string {
  const shared = others === 0 ? '' : `, shared with ${others === 1 ? '1 other process' : `${others} other processes`}`;
  const why = others === 0 && part < 1 ? ', because the service answered 429' : '';
  return `share of the Profile API's limit: ${Math.round(part * 100)} %${shared}${why}`;
}

const over = new Set(['done', 'held', 'failed']);
/** Lines of streams in a log, each time. */
const maxLogged = 20;
const barWidth = 20;

/** How much of something is done, in a terminal of any character set. */
function bar(part: number): string {
  const filled = Math.floor(Math.min(1, Math.max(0, part)) * barWidth);
  const tip = filled < barWidth ? '>' : '';
  return `[${'='.repeat(filled)}${tip}${' '.repeat(barWidth - filled - tip.length)}]`;
}

const percent = (part: number) => `${Math.min(100, Math.floor(part * 100))} %`;

/** A line of parts that fits: those that matter least are left out first, then the name is cut. */
function fitted(name: string, parts: readonly (readonly [text: string, matters: number])[], width: number): string {
  const shown = parts.filter(([text]) => text !== '');
  const most = Math.max(...shown.map(([, matters]) => matters));
  const rest = (least: number) =>
    shown
      .filter(([, matters]) => matters >= least)
      .map(([text]) => text)
      .join('  ');
  for (let least = 0; least <= most; least += 1) {
    const line = `${name}  ${rest(least)}`;
    if (line.length <= width) return line;
  }
  const end = rest(most);
  return `${name.trimEnd().slice(0, Math.max(4, width - end.length - 2))}  ${end}`.slice(0, Math.max(0, width));
}

function resultText(phase: string, { rows, inserted, updated, deleted }: StreamFigures): string {
  const changes = (
    [
      ['inserted', inserted],
      ['updated', updated],
      ['deleted', deleted],
    ] as const
  )
    .filter(([, count]) => count > 0)
    .map(([what, count]) => `${formatCount(count)} ${what}`);
  const said = changes.length === 0 ? 'nothing changed' : changes.join(', ');
  return `${phase}: ${formatCounted(rows, 'row')}, ${said}`;
}

const deliveryWords: Readonly<Record<string, string>> = { waiting: 'waits', done: 'done', failed: 'failed' };

/** Turns the counters of a run into lines for people, and into members for machines. */
export class ProgressLines {
  readonly #limitPerSecond: number;
  readonly #startedAt: number;
  readonly #paces = new Map<string, RateEstimate>();

  /** @param startedAt in the milliseconds of the other methods */
  constructor(limitPerSecond: number, startedAt: number) {
    this.#limitPerSecond = limitPerSecond;
    this.#startedAt = startedAt;
  }

  /**
   * The lines of a terminal, none longer than it is wide, and not more than it is high. If there is more to show, finished
   * and waiting streams are counted instead.
   */
  block(view: RunView, at: number, { columns, rows }: { columns: number; rows: number }): string[] {
    const width = Math.max(1, columns - 1);
    // The line below the block stays free for the cursor.
    const height = Math.max(1, rows - 1);
    const foot = [...shareLines(view.share), this.#foot(view, at)].map((line) => line.slice(0, width));
    const deliveries = view.deliveries
      .filter(({ phase }) => phase !== 'waiting')
      .map((delivery) => this.delivery(delivery));
    const space = Math.max(0, height - foot.length);
    const names = Math.max(0, ...view.streams.map(({ name }) => name.length));
    const streams = view.phase === 'delivering' ? [] : view.streams;
    const lines = [
      ...shownStreams(streams, space - Math.min(space, deliveries.length)).map((shown) =>
        typeof shown === 'string' ? shown : this.stream(shown, at, { width, names }),
      ),
      ...deliveries,
    ].map((line) => line.slice(0, width));
    return [...lines.slice(0, space), ...foot.slice(-height)];
  }

  /** The lines of a log: streams under way, without those that wait. */
  log(view: RunView, at: number): string[] {
    const active = view.streams.filter(({ phase }) => phase !== 'waiting' && !over.has(phase));
    const shown = [
      ...shownStreams(active, maxLogged).map((stream) =>
        typeof stream === 'string' ? stream : this.stream(stream, at, { width: Number.POSITIVE_INFINITY, names: 0 }),
      ),
      ...view.deliveries
        .filter(({ phase }) => !['waiting', 'done', 'failed'].includes(phase))
        .map((delivery) => this.delivery(delivery)),
      ...(view.phase === 'reading' ? shareLines(view.share) : []),
    ];
    return [...shown, this.#foot(view, at)];
  }

  /** One line for a stream. */
  stream(view: StreamView, at: number, { width, names }: { width: number; names: number }): string {
    const { phase, rows, expectedRows, figures } = view;
    const name = view.name.padEnd(Math.min(names, Math.floor(width / 3)));
    if (figures !== undefined && over.has(phase)) {
      const result = resultText(phase, figures);
      const fits = name.length + 2 + result.length <= width;
      return fitted(name, [[fits ? result : `${phase}: ${formatCounted(figures.rows, 'row')}`, 9]], width);
    }
    if (phase === 'waiting') return fitted(name, [['waits', 9]], width);
    if (phase !== 'reading') {
      const read = `${formatCounted(rows, 'row')} read`;
      return fitted(
        name,
        phase === 'read'
          ? [[read, 9]]
          : [
              [phase, 9],
              [read, 5],
            ],
        width,
      );
    }
    const { rate, share, leftMs } = this.#figures(view, at);
    const part = expectedRows === undefined || expectedRows === 0 ? undefined : rows / expectedRows;
    const of = expectedRows === undefined ? '' : ` of ${formatCount(expectedRows)}`;
    const parts: [string, number][] = [
      [part === undefined ? '' : bar(part), 3],
      [part === undefined ? '' : percent(part).padStart(5), 8],
      [`${formatCount(rows)}${of} ${view.unit ?? 'rows'}`, 6],
      [`${formatCount(Math.round(rate))}/s`, 4],
      [`${Math.round(share * 100)} % of the ${apiNames[view.limit?.group ?? 'profile']}`, 2],
      [leftMs === undefined ? '' : `${formatDuration(leftMs)} left`, 7],
    ];
    return fitted(name, parts, width);
  }

  /** One line for a stream on its way to a destination. */
  delivery({ destination, stream, phase, rows, total }: DeliveryProgress): string {
    const part = total === undefined || total === 0 ? '' : ` (${percent(rows / total)})`;
    const of = total === undefined ? '' : ` of ${formatCount(total)}`;
    const counted = rows === 0 && total === undefined ? '' : `, ${formatCount(rows)}${of} rows${part}`;
    return `${stream} to ${destination}: ${deliveryWords[phase] ?? phase}${counted}`;
  }

  /** A stream's members for machines. */
  details(view: StreamView, at: number): Readonly<Record<string, unknown>> {
    const { name, phase, rows, requests } = view;
    const { rate, share, leftMs } = this.#figures(view, at);
    const details = { stream: name, phase, rows, requests };
    if (phase !== 'reading') return details;
    const seconds = leftMs === undefined ? null : Math.round(leftMs / 1000);
    return {
      ...details,
      rows_per_second: Math.round(rate),
      share_of_budget: Number(share.toFixed(3)),
      seconds_left: seconds,
    };
  }

  #foot({ phase, streams, deliveries }: RunView, at: number): string {
    const elapsed = formatDuration(at - this.#startedAt);
    const left = this.#left(streams, at);
    if (phase === 'reading')
      return left === 0 ? `${elapsed}: reading` : `${elapsed}: reading, about ${formatDuration(left)} left`;
    if (phase !== 'delivering') return `${elapsed}: ${phase}`;
    const open = deliveries.filter((delivery) => !over.has(delivery.phase)).map(({ destination }) => destination);
    return `${elapsed}: delivering${open.length === 0 ? '' : ` to ${[...new Set(open)].join(', ')}`}`;
  }

  /** Milliseconds until all streams are read: those that wait are read as fast as those under way. */
  #left(streams: readonly StreamView[], at: number): number {
    let longest = 0;
    // Responses to single requests are slower than rows of pages: neither says how long the other takes.
    for (const unit of ['rows', 'answers'] as const) {
      let [rest, together] = [0, 0];
      for (const stream of streams.filter((view) => (view.unit ?? 'rows') === unit)) {
        const { phase, rows, expectedRows = 0 } = stream;
        if (phase !== 'reading' && phase !== 'waiting') continue;
        const { rate, leftMs = 0 } = this.#figures(stream, at);
        rest += Math.max(0, expectedRows - rows);
        together += phase === 'reading' ? rate : 0;
        longest = Math.max(longest, leftMs);
      }
      if (together > 0) longest = Math.max(longest, (rest / together) * 1000);
    }
    return longest;
  }

  #figures({ name, rows, requests, expectedRows, phase, limit }: StreamView, at: number) {
    const pace = this.#paces.get(name) ?? new RateEstimate(this.#startedAt, [0, 0]);
    this.#paces.set(name, pace);
    pace.observe(at, [rows, requests]);
    const rate = pace.perSecond(0);
    const isLeft = phase === 'reading' && expectedRows !== undefined && rate > 0 && expectedRows > rows;
    return {
      rate,
      share: pace.perSecond(1) / (limit?.per_second ?? this.#limitPerSecond),
      leftMs: isLeft ? ((expectedRows - rows) / rate) * 1000 : undefined,
    };
  }
}

/** The streams to show in that many lines: those under way come first. The last line counts those without a line. */
function shownStreams(streams: readonly StreamView[], space: number): (StreamView | string)[] {
  if (streams.length <= space) return [...streams];
  if (space === 0) return [];
  const urgent = ({ phase, requests }: StreamView) => {
    if (phase === 'failed') return 0;
    if (phase === 'waiting') return 4;
    if (over.has(phase)) return 3;
    return phase === 'read' || requests === 0 ? 2 : 1;
  };
  const chosen = new Set([...streams].sort((a, b) => urgent(a) - urgent(b)).slice(0, space - 1));
  const hidden = streams.filter((stream) => !chosen.has(stream));
  const counts = new Map<string, number>();
  for (const { phase } of hidden) {
    const what = phase === 'waiting' ? 'waiting' : over.has(phase) ? phase : 'under way';
    counts.set(what, (counts.get(what) ?? 0) + 1);
  }
  const counted = [...counts].map(([what, count]) => `${count} ${what}`).join(', ');
  return [
    ...streams.filter((stream) => chosen.has(stream)),
    `and ${formatCounted(hidden.length, 'stream')}: ${counted}`,
  ];
}
