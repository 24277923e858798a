import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { JobReport } from '../../../src/core/run-report.js';
import { Dice } from './dice.js';
import { CacheFiles, damages } from './known-damage.js';
import { ListModel } from './list-model.js';
import { describePlan, planList } from './list-plan.js';
import { type ListPlan, partitionValues } from './list-service.js';
import { destinationPrint, differences, type Print, printOf, type Reader } from './print.js';
import { type Cut, type RunResult, type Setup, Side } from './side.js';

const hour = 3_600_000;
const began = Date.parse('2026-01-01T02:00:00Z');

type Row = Record<string, unknown>;

export interface SeasonOptions {
  readonly seed: number;
  readonly runs: number;
  /** An empty folder. */
  readonly folder: string;
  readonly reader: Reader;
  /** One day in that many has a run that is killed, which costs seconds; undefined for none. */
  readonly killsOnceIn: number | undefined;
  /** Counts what happened: the names are for people. */
  readonly tally: Map<string, number>;
  /** Breaks something on the side with the record cache, to show that the comparison sees it. */
  readonly spoil?: (copies: ListPlan) => ListPlan;
}

/** Two storage folders that read the same lists run after run, one with the record cache and one without. */
export class Scenario {
  readonly #options: SeasonOptions;
  readonly #dice: Dice;
  readonly #lists: ListModel[];
  readonly #streams: string[];
  readonly #isOrdered: boolean;
  readonly #isStrict: boolean;
  readonly #delivers: boolean;
  readonly #recognition: Row;
  #sides: [with_: Side, without: Side] | undefined;
  #cacheFiles: CacheFiles | undefined;
  #member: Row;
  #now = began;
  #requests = 12;
  /** Whether the filter is not that of the last snapshot: the run must accept that. */
  #isRedefined = false;
  /** Runs and streams of {@link Scenario.#rememberWiped} and {@link Scenario.#rememberChance}. */
  readonly #wiped = new Set<string>();
  readonly #moments: string[] = [];
  /** What happened, one line a run; for the message of a failure. */
  readonly #diary: string[] = [];

  constructor(options: SeasonOptions) {
    const dice = new Dice(options.seed);
    this.#options = options;
    this.#dice = dice;
    this.#isOrdered = !dice.once(3);
    this.#isStrict = dice.once(5);
    this.#delivers = dice.once(8);
    this.#recognition = dice.once(3) ? { verify_every: '2d' } : {};
    const indexes = dice.once(3) ? ['members', 'others'] : ['members'];
    this.#lists = indexes.map((index) => new ListModel(index, dice.pick([0, 1, 6, 20, 40, 60]), dice.apart()));
    this.#streams = [...indexes, ...(dice.once(4) ? ['by_country'] : [])];
    this.#member = { page_size: dice.pick([1, 3, 7, 10, 25, 100]), confirm_deletes: dice.pick([0, 2, 10_000, 10_000]) };
    if (dice.once(2)) this.#member = { ...this.#member, strings: 'infer' };
  }

  /** @throws {Error} that says in which run which things differ, and what led there */
  async run(): Promise<void> {
    const { folder, runs } = this.#options;
    this.#sides = [await Side.open(join(folder, 'with'), true), await Side.open(join(folder, 'without'), false)];
    this.#cacheFiles = new CacheFiles(this.#sides[0].jobFolder, join(folder, 'kept'));
    try {
      for (let run = 1; run <= runs; run += 1) await this.#runOnce(run);
      for (const side of this.#sides) {
        const found = await side
          .mismatches()
          .catch((error: Error & { code?: string }) => (error.code === 'not_published' ? [] : [error.message]));
        if (found.length > 0) throw this.#failure(['verify finds', JSON.stringify(found)]);
      }
    } finally {
      for (const side of this.#sides) await side.close();
    }
    await rm(folder, { recursive: true, force: true });
  }

  get #pair(): [Side, Side] {
    if (this.#sides === undefined) throw new Error('the scenario has not begun');
    return this.#sides;
  }

  #failure(lines: readonly string[]): Error {
    const { seed, folder, killsOnceIn } = this.#options;
    // The long form has other dice, and begins above 50 runs.
    const runs = killsOnceIn === undefined ? 5 : 60;
    const again = `CDSYNC_TEST_SEED=${seed} CDSYNC_TEST_NIGHTS=${runs} npx vitest run test/integration/incremental-runs/incremental-runs.test.ts -t 'scenario ${seed}'`;
    return new Error([...lines, `scenario ${seed} (${folder}); again: ${again}`, ...this.#diary].join('\n'));
  }

  async #runOnce(run: number): Promise<void> {
    const dice = this.#dice.apart();
    const kind =
      run === 1 ? 'nothing' : dice.pick(['nothing', 'nothing', 'order', 'little', 'little', 'little', 'much'] as const);
    for (const list of this.#lists) list.evolve(kind);
    const mended = run === 1 ? [] : await this.#meddle(dice);
    const cut = run > 1 || dice.once(3) ? this.#cut(dice) : undefined;
    const shape = {
      isSteady: cut !== undefined && !(cut.how === 'signal' && this.#isOrdered),
      isOrdered: this.#isOrdered,
    };
    const plans = this.#lists.map((list) => planList(list, shape, dice));
    const choices = {
      full: dice.once(12),
      accept: dice.once(this.#isStrict ? 3 : 12) || this.#isRedefined,
    };
    for (const each of [...mended, ...this.#happenings(plans)]) this.#count(each.split(':')[0] ?? each);
    this.#diary.push(
      `run ${run}, ${new Date(this.#now).toISOString()}: ${kind}${mended.map((each) => `, ${each}`).join('')}`,
      `  ${JSON.stringify({ ...choices, cut, member: this.#member, ordered: this.#isOrdered, strict: this.#isStrict })}`,
      ...plans.map((plan) => `  ${describePlan(plan)}`),
    );
    const results: RunResult[] = [];
    for (const [at, side] of this.#pair.entries()) {
      const { spoil } = this.#options;
      side.now = this.#now;
      await side.configure(this.#setup());
      side.service.begin(at === 0 && spoil !== undefined ? plans.map(spoil) : plans);
      results.push(await this.#runSide(side, choices, cut));
    }
    this.#requests = this.#pair[1].service.requests;
    if (cut !== undefined) this.#rememberChance(results, plans);
    await this.#compare(results as [RunResult, RunResult], plans);
    this.#now += dice.pick([1, 1, 24, 24, 24, 72, 24 * 20]) * hour;
  }

  #happenings(plans: readonly ListPlan[]): string[] {
    return plans.flatMap(({ list, copies, moves, deadFrom, mishaps, ignoresFilter, lie }) => [
      ...(copies.length > list.copies.length ? ['duplicates'] : []),
      ...(moves.length > 0 ? ['moves'] : []),
      ...(deadFrom === undefined ? [] : ['dead token']),
      ...(mishaps.size > 0 ? ['mishaps'] : []),
      ...(ignoresFilter ? ['ignored filter'] : []),
      ...(lie === 0 ? [] : ['wrong total']),
    ]);
  }

  #count(what: string): void {
    const { tally } = this.#options;
    tally.set(what, (tally.get(what) ?? 0) + 1);
  }

  /** A run that was cut short is run again. */
  async #runSide(side: Side, choices: { full: boolean; accept: boolean }, cut: Cut | undefined): Promise<RunResult> {
    const result = await side.run(choices, cut);
    if (cut === undefined) return result;
    const isCut =
      result === 'killed' ||
      ('report' in result ? result.report.status === 'interrupted' : result.failure.startsWith('interrupted'));
    if (!isCut) return result;
    this.#count(`run cut short by a ${cut.how}`);
    return side.run({ ...choices, full: false }, undefined);
  }

  #cut(dice: Dice): Cut | undefined {
    const atRequest = 1 + dice.whole(this.#requests + 2);
    const { killsOnceIn } = this.#options;
    if (killsOnceIn !== undefined && dice.once(killsOnceIn))
      return { how: 'kill', atRequest, afterCheckpoint: dice.once(2) && atRequest > 3 };
    return dice.once(6) ? { how: 'signal', atRequest, afterCheckpoint: false } : undefined;
  }

  /** Makes the changes that people make between two runs. @returns the changes */
  async #meddle(dice: Dice): Promise<string[]> {
    const done: string[] = [];
    const set = (name: string, value: unknown) => {
      this.#member = { ...this.#member, [name]: value };
      done.push(name);
    };
    if (dice.once(5)) set('page_size', dice.pick([1, 3, 7, 10, 25, 100]));
    if (dice.once(8)) set('confirm_deletes', dice.pick([0, 2, 10_000]));
    if (dice.once(7))
      set(
        'partition_by',
        dice.pick([
          undefined,
          undefined,
          { attribute: 'country', values: [...partitionValues] },
          { attribute: 'country' },
          'auto',
        ]),
      );
    if (dice.once(12)) set('check_total', dice.once(2));
    if (dice.once(9))
      set(
        'contract',
        dice.pick([
          undefined,
          undefined,
          { columns: 'freeze', types: 'freeze' },
          { columns: 'discard_value', types: 'discard_value' },
          { columns: 'discard_row', types: 'discard_row' },
        ]),
      );
    if (dice.once(9)) set('columns', this.#rules(dice));
    if (dice.once(6)) set('strings', dice.pick(['keep', 'infer', 'infer']));
    const before = this.#member.filter;
    if (dice.once(30)) {
      set('partition_by', undefined);
      set('filter', dice.pick([undefined, { country: 'DE' }]));
    } else if (this.#member.partition_by !== undefined) this.#member = { ...this.#member, filter: undefined };
    if (this.#member.filter !== before) this.#isRedefined = true;
    if (dice.once(6)) done.push(await this.#forget(dice));
    if (dice.once(4)) {
      const how = dice.pick(damages);
      if (await this.#cacheFiles?.damage(how, dice)) done.push(`cache file ${how}`);
    } else if (dice.once(3)) await this.#cacheFiles?.keep();
    return done;
  }

  #rules(dice: Dice): Row {
    const all: Row = {
      name: dice.pick([
        { drop: true },
        { mask: 'last4' },
        { hash: true, salt: 'not a secret at all, but long enough' },
      ]),
      note: dice.pick([{ drop: true }, { mask: 'last4' }]),
      score: dice.pick([{ track: false }, { drop: true }]),
      tags: { drop: true },
    };
    return Object.fromEntries(Object.entries(all).filter(() => dice.once(2)));
  }

  async #forget(dice: Dice): Promise<string> {
    const list = dice.pick(this.#lists);
    const key = list.keys.length === 0 ? 'absent' : dice.pick(list.keys);
    const ended: string[] = [];
    for (const side of this.#pair) {
      side.now = this.#now - hour / 2;
      ended.push(await side.forget(list.index, key));
    }
    const said = `forgotten: ${key} of ${list.index}, ${ended[0]}`;
    if (ended[0] !== ended[1]) throw this.#failure([said, `without: ${ended[1]}`]);
    return said;
  }

  #setup(): Setup {
    const open = { max_deleted: '100%', max_changed: '100%', max_rejected: '100%', min_rows: 0 };
    const strict = { max_rejected: 2, max_null: { name: '50%' }, expect: ['select * from members where id is null'] };
    const [members, ...others] = this.#lists.map(({ index }) => ({ name: index, source: 'index_profiles', index }));
    const made = { name: 'by_country', source: 'sql', key: ['id'], query: 'select id, index_id from members' };
    const delivery = { mode: 'mirror', verify: 'rows' };
    return {
      service: { concurrency: this.#isOrdered ? 1 : 4, page_size: 8 },
      job: { guards: this.#isStrict ? strict : open, recognition: this.#recognition },
      streams: [{ ...members, ...this.#member }, ...others, ...(this.#streams.includes('by_country') ? [made] : [])],
      destinations: this.#delivers
        ? [
            { name: 'warehouse', connector: 'duckdb', path: './warehouse.duckdb', ...delivery },
            { name: 'exports', connector: 'files', path: './exports', ...delivery },
          ]
        : [],
    };
  }

  async #compare(results: [RunResult, RunResult], plans: readonly ListPlan[]): Promise<void> {
    this.#countCacheHits(results[0]);
    this.#rememberWiped(results[0]);
    const [withCache, without] = results.map((result) => this.#withoutWiped(shownResult(result))) as [Print, Print];
    const found = differences(withCache, without);
    const isCommitted = (name: string) =>
      'report' in (results[1] as object) &&
      (results[1] as { report: JobReport }).report.streams.some(
        (stream) => stream.name === name && stream.status === 'ok',
      );
    const at = new Date(this.#now + 30_000).toISOString();
    const past = this.#moments.length === 0 ? [] : [this.#dice.apart().pick(this.#moments)];
    const prints: Print[] = [];
    for (const side of this.#pair) {
      const print = new Map(await printOf(this.#options.reader, side.jobFolder, this.#streams, past));
      if (this.#delivers)
        for (const [name, lines] of await destinationPrint(this.#options.reader, side.folder, this.#streams))
          print.set(name, lines);
      prints.push(this.#withoutWiped(print));
    }
    found.push(...differences(prints[0] as Print, prints[1] as Print));
    found.push(...((await this.#cacheFiles?.contradictions(this.#options.reader)) ?? []));
    for (const { list } of plans)
      if (isCommitted(list.index)) found.push(...(await this.#againstTruth(list.index, prints)));
    this.#diary.push(`  ${JSON.stringify([...withCache.values()].flat())}`);
    if (found.length > 0) throw this.#failure(found);
    for (const line of withCache.get('streams') ?? []) {
      const { name, status, error } = JSON.parse(line) as { name: string; status: string; error: [string] | null };
      if (name === 'members' && status === 'ok') this.#isRedefined = false;
      this.#count(`stream ${error === null ? status : error[0]}`);
    }
    this.#moments.push(at);
  }

  #countCacheHits(result: RunResult): void {
    if (result === 'killed' || 'failure' in result) return;
    for (const { recognised: cacheHits, unrecognised: reason } of result.report.streams)
      this.#count(`cache hits: ${cacheHits > 0 ? 'some' : (reason ?? 'none, for no reason')}`);
  }

  /**
   * A reading that begins again, because a column got another type, forgets its first attempt. If that one met the refused
   * token, the second does not, so its counters lack the records that the other side's first attempt has read.
   */
  #rememberWiped(result: RunResult): void {
    if (result === 'killed' || 'failure' in result) return;
    for (const { name, unrecognised: reason } of result.report.streams) {
      if (reason !== 'a column got another type' || !this.#pair[0].service.hasRefused(name)) continue;
      this.#wiped.add(`${result.report.run_id.slice(0, 16)} ${name}`);
    }
  }

  /**
   * Whether the page before a signal counts is chance. If its token dies, its chain begins again, and its records are counted twice or
   * once.
   */
  #rememberChance(results: readonly RunResult[], plans: readonly ListPlan[]): void {
    const dying = plans.filter(({ deadFrom }) => deadFrom !== undefined).map(({ list }) => list.index);
    for (const result of results) {
      if (result === 'killed' || 'failure' in result) continue;
      for (const name of dying) this.#wiped.add(`${result.report.run_id.slice(0, 16)} ${name}`);
    }
  }

  #withoutWiped(print: Print): Print {
    const shown = new Map(print);
    for (const name of ['streams', 'cdsync.streams', 'cdsync.rejects']) {
      const lines = (print.get(name) ?? []).map((line) => {
        const row = JSON.parse(line) as Row;
        if (!this.#wiped.has(`${row.run_id} ${row.stream ?? row.name}`)) return line;
        return JSON.stringify({ ...row, duplicates: 'any', rejected: 'any', replaced: 'any' });
      });
      if (print.has(name))
        shown.set(
          name,
          lines.filter((line, at) => !line.includes('"any"') || lines.indexOf(line) === at),
        );
    }
    return shown;
  }

  /** Compares keys and versions with the copies that the service returned last. */
  async #againstTruth(index: string, prints: readonly Print[]): Promise<string[]> {
    const { contract, filter } = this.#member as { contract?: { columns: string }; filter?: object };
    if (index === 'members' && (filter !== undefined || contract?.columns.startsWith('discard'))) return [];
    return this.#pair.flatMap((side, at) => {
      const sent = [...side.service.lastNotices(index)].map(([id, { version }]) => `${id} ${version}`).sort();
      const rows = (prints[at]?.get(index) ?? []).map((line) => JSON.parse(line) as { id: string; v?: unknown });
      const seen = rows
        .filter(({ id }) => !id.startsWith('odd-'))
        .map(({ id, v }) => `${id} ${v}`)
        .sort();
      const name = `${at === 0 ? 'with' : 'without'} recognition, ${index}`;
      return differences(
        new Map([[`${name}: (with: rows, without: the copies that the service returned last)`, seen]]),
        new Map([[`${name}: (with: rows, without: the copies that the service returned last)`, sent]]),
      );
    });
  }
}

/** The values of a report that must be equal on both sides. */
function shownResult(result: RunResult): Print {
  if (result === 'killed') return new Map([['result', ['killed']]]);
  if ('failure' in result) return new Map([['result', [result.failure]]]);
  const { status, sequence, streams, destinations } = result.report;
  const run_id = result.report.run_id.slice(0, 16);
  const shown = streams.map(({ requests, retries, throttled, pages, bytes, seconds, error, ...same }) => {
    const { recognised, unrecognised, process: ofThisProcess, ...counters } = same;
    return JSON.stringify({ run_id, ...counters, error: error && [error.code, error.message] });
  });
  const loads = destinations.map(({ name, stream, status, action, rows, refused, error }) =>
    JSON.stringify({ name, stream, status, action, rows, refused, error: error?.code }),
  );
  return new Map([
    ['result', [`${status}, sequence ${sequence}`]],
    ['streams', shown],
    ['destinations', loads],
  ]);
}
