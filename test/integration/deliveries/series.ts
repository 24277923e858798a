import type { DestinationReport } from '../../../src/core/run-report.js';
import { Dice } from '../incremental-runs/dice.js';
import type { DuckdbProcess } from './duckdb-process.js';
import {
  type CheckContext,
  type Commit,
  Difference,
  ExpectedTable,
  type Image,
  type Recorded,
  type Wanted,
} from './expected-table.js';
import { hands } from './hands.js';
import { type Json, ruled } from './json-value.js';
import { changeOptions, firstOptions, type Options, pathOf } from './options.js';
import { type Flags, Product } from './product.js';
import { pushThrough } from './push-through.js';
import { Source } from './source.js';
import type { Place, Target } from './targets.js';

export interface SeriesTask {
  readonly seed: number;
  readonly runs: number;
  readonly target: Target;
  readonly place: Place;
  readonly process: DuckdbProcess;
  /** Counts events by their kind. */
  readonly tally: Map<string, number>;
}

interface TableProperties {
  readonly sequence: number;
  readonly generation: number;
  readonly rows: number;
  readonly store_id: string;
  readonly stores: readonly { readonly id: string }[];
}

/** A series of runs that one seed determines, with everything that happens to a table. */
export class Series {
  readonly target: Target;
  readonly place: Place;
  readonly dice: Dice;
  readonly source: Source;
  table = 'members';
  readonly options: Options;
  expected: ExpectedTable;
  readonly users = new Set<string>();
  readonly forgotten = new Set<string>();
  product!: Product;
  /** All commits. */
  history: Commit[] = [];
  /** Actions that hands of earlier runs have left for a later run. */
  readonly later: (() => Promise<void>)[] = [];
  /** Which hand is next. */
  turn: number;
  /** Whether no delivery has applied an erasure yet. */
  isForgetting = false;
  /** Whether changes that a log lacks were perhaps removed by a rule, or by forgetting. */
  #mayLackChanges = false;
  /** Commits that no delivery has sent yet. */
  waiting: Commit[] = [];
  last: Commit | undefined;
  readonly #task: SeriesTask;
  readonly trail: string[] = [];
  readonly loose = new Set<string>();
  /** The rules of the last run. */
  #before: ReadonlyMap<string, string> = new Map();
  types: ReadonlyMap<string, string> = new Map();

  constructor(task: SeriesTask) {
    this.#task = task;
    this.target = task.target;
    this.place = task.place;
    this.dice = new Dice(task.seed);
    this.source = new Source(this.dice.apart());
    this.turn = task.seed * 7;
    this.options = firstOptions(task.seed, this.dice);
    this.expected = new ExpectedTable(task.target);
  }

  readonly note = (what: string): void => {
    const { tally } = this.#task;
    const [kind = ''] = what.split(':');
    tally.set(kind, (tally.get(kind) ?? 0) + 1);
    this.trail.push(what);
  };

  async run(): Promise<void> {
    const { process, seed, runs } = this.#task;
    this.product = await Product.open((path, sql) => process.rows(path, sql), this.target.connectors);
    try {
      for (let run = 1; run <= runs; run += 1) {
        this.trail.push(`run ${run}`);
        await this.#runOnce(run);
      }
    } catch (error) {
      this.trail.push(...this.product.causes.map(String));
      const words = `seed ${seed} (${this.target.name}, ${JSON.stringify(this.options)}): ${(error as Error).message}`;
      throw new Error(`${words}\n  ${this.trail.slice(-60).join('\n  ')}`, { cause: error });
    } finally {
      await this.product.close();
    }
  }

  async #runOnce(run: number): Promise<void> {
    this.product.now += 86_400_000;
    this.source.change();
    if (run > 1) changeOptions(this);
    this.#mayLackChanges ||= this.options.mode === 'append' && this.waiting.length > 0;
    await this.commit();
    if (this.dice.once(8)) await this.forget();
    if (this.dice.once(4)) return this.note('push skipped');
    const isThere = this.expected.recorded !== undefined;
    if (isThere && !this.dice.once(4)) await hands(this);
    await this.deliver();
    if (this.dice.once(4)) await this.quiet();
  }

  configure(): Promise<void> {
    const { options, place } = this;
    return this.product.configure({
      stream: { strings: options.strings, columns: options.rules },
      destination: {
        ...place.options,
        mode: options.mode,
        deletes: options.deletes,
        columns: options.own,
        verify: options.verify,
        on_type_change: options.onTypeChange,
        on_reject: options.onReject,
        table: this.table,
      },
    });
  }

  /** Runs the job, and adds the commit that the run must have made to the history. */
  async commit(): Promise<void> {
    this.product.service.records = this.source.records();
    await this.configure();
    await this.product.run();
    const { run, types, keys } = await this.product.published();
    if (this.last?.run === run) return;
    this.types = types;
    const rows = new Map<string, Image>();
    for (const [key, values] of this.source.image()) {
      const attributes = [...values].map(
        ([name, value]) => [pathOf(name), ruled(this.options.rules[name], value)] as const,
      );
      const all = [['id', JSON.stringify(key)] as const, ['index_id', '"made"'] as const, ...attributes];
      rows.set(key, { types, values: new Map(all.filter((each): each is [string, Json] => each[1] !== undefined)) });
    }
    if (JSON.stringify([...keys].sort()) !== JSON.stringify([...rows.keys()].sort()))
      throw new Difference('the published file has other keys than the service');
    const commit = { run, rows, changes: await this.#changes(run, rows) };
    // A rule that hides values writes the changes of earlier runs again.
    const masked = (earlier: Commit): Commit => ({
      ...earlier,
      changes: earlier.changes.map((change) => ({
        ...change,
        image: { ...this.#hidden(change.image), types: change.image.types },
      })),
    });
    this.waiting = this.waiting.map(masked);
    this.history = this.history.map(masked);
    this.waiting.push(commit);
    this.history.push(commit);
    this.last = commit;
    this.#before = new Map(Object.entries(this.options.rules).map(([name, rule]) => [name, JSON.stringify(rule)]));
  }

  /**
   * A run with a storage folder whose changes do not continue the rows of the table.
   * @param isOlder whether another storage folder has taken the table over since
   */
  async recommit(isOlder = false): Promise<void> {
    this.waiting = [];
    this.product.now += 3_600_000;
    await this.commit();
    const code = await this.refusedWith({}, ['store_unknown', 'storage_new', 'changes_gone', 'erasures_gone']);
    if (code === undefined && isOlder) throw new Difference('two storage folders wrote a table by turns');
    if (code === undefined) return;
    this.note(`storage refused: ${code}`);
    if (code === 'erasures_gone') await this.recreate();
    else if (this.options.mode !== 'append') await this.deliver({ adopt: true });
    else if (this.dice.once(2)) await this.deliver({ full: true });
    else await this.adopt(false);
  }

  /** A delivery that must be refused, and leave the table as it is. @returns the code: also `changes_gone`, if changes may be missing */
  async refused(code: string): Promise<string> {
    const before = await this.rowTexts();
    const report = await this.product.push();
    const isGone = this.#mayLackChanges && report.error?.code === 'changes_gone';
    if ((report.error?.code !== code && !isGone) || report.action !== 'refused')
      throw new Difference(
        `not refused as ${code}: ${report.status} ${report.action} ${report.error?.code} ${report.why}`,
      );
    if ((await this.rowTexts()) !== before) throw new Difference('a delivery that was refused has changed rows');
    return isGone ? 'changes_gone' : code;
  }

  /** A delivery that may be refused. @returns the code; undefined if it was not, and the table is right */
  async refusedWith(flags: Flags, codes: readonly string[]): Promise<string | undefined> {
    const report = await this.push(flags);
    const code = report.error?.code;
    if (code !== undefined && codes.includes(code)) return code;
    await this.#took(report, flags, ['table_changed']);
    return undefined;
  }

  /** Continues a log from its present rows. @param sends whether the delivery still sends the changes since the record */
  async adopt(sends: boolean): Promise<void> {
    this.note('--adopt');
    if (!sends) this.waiting = [];
    await this.#took(await this.push({ adopt: true }), {}, []);
  }

  /** A new table with the rows of the snapshot. */
  async recreate(): Promise<void> {
    this.expected.emptied();
    this.users.clear();
    await this.deliver({ recreate: true });
  }

  async rowTexts(): Promise<string> {
    const rows = await this.place.rows(this.table);
    // A column that was added before the refusal is empty.
    return JSON.stringify(rows.map((row) => [...row].filter(([, text]) => text !== null)).sort());
  }

  async #changes(run: string, rows: ReadonlyMap<string, Image>): Promise<Commit['changes']> {
    const before = this.last?.rows ?? new Map<string, Image>();
    const notices = await this.product.operations(run);
    const operations = notices ?? new Map([...rows.keys()].map((key) => [key, 'insert']));
    if (notices === undefined && this.last !== undefined) return [];
    for (const key of new Set([...rows.keys(), ...before.keys()])) {
      const op = !before.has(key) ? 'insert' : rows.has(key) ? undefined : 'delete';
      if (op !== undefined && operations.get(key) !== op) throw new Difference(`run ${run} has no ${op} of ${key}`);
    }
    return [...operations].map(([key, op]) => ({
      op,
      key,
      image: rows.get(key) ?? this.#hidden(before.get(key) as Image),
    }));
  }

  /** The last image of a row that is gone, by the rules that apply now. */
  #hidden(image: Image): Image {
    const values = [...image.values].map(([path, value]): [string, Json | undefined] => {
      const name = path.replace(/^attributes\./, '');
      const rule = this.options.rules[name];
      return [path, JSON.stringify(rule) === this.#before.get(name) ? value : ruled(rule, value)];
    });
    return {
      types: this.types,
      values: new Map(values.filter((each): each is [string, Json] => each[1] !== undefined)),
    };
  }

  async forget(): Promise<void> {
    const { source, last } = this;
    if (last === undefined || last.rows.size < 4) return;
    const key = this.dice.pick([...last.rows.keys()]);
    this.note(`forget: ${key}`);
    await this.product.forget(key);
    this.isForgetting = true;
    this.#mayLackChanges ||= this.options.mode === 'append' && this.waiting.length > 0;
    source.remove(key, true);
    this.forgotten.add(key);
    this.expected.erased(key);
    const lacking = ({ run, rows, changes }: Commit): Commit => ({
      run,
      rows: new Map([...rows].filter(([each]) => each !== key)),
      changes: changes.filter((change) => change.key !== key),
    });
    this.waiting = this.waiting.map(lacking);
    this.history = this.history.map(lacking);
    this.last = lacking(last);
    // Forgetting is a commit, with its own snapshot.
    const { run } = await this.product.published();
    this.last = { ...this.last, run };
    this.waiting.push({ ...this.last, changes: [] });
    this.history.push({ ...this.last, changes: [] });
  }

  wanted(): Wanted {
    const { options, source } = this;
    const rules = new Map<string, string>();
    const dropped = new Set<string>();
    const untracked = new Set<string>();
    for (const { name } of source.columns) {
      const path = pathOf(name);
      const { track, ...rule } = options.rules[name] ?? {};
      rules.set(path, JSON.stringify([rule, options.own[name] ?? {}]));
      if (options.own[name]?.drop || rule.drop) dropped.add(path);
      if (track === false) untracked.add(path);
    }
    const { mode, deletes } = options;
    return { mode, deletes, rules, dropped, untracked };
  }

  /** A delivery that succeeds in the end, whatever happens on the way. Then checks the table. */
  async deliver(flags: Flags = {}, allowed: readonly string[] = []): Promise<DestinationReport> {
    const before = await this.record().catch(() => undefined);
    const report = await this.push(flags);
    if (report.error?.code === 'changes_gone' && this.#mayLackChanges) {
      this.#mayLackChanges = false;
      this.note('changes gone');
      if (this.dice.once(2)) return this.deliver({ full: true });
      await this.adopt(false);
      return report;
    }
    await this.#took(report, flags, allowed);
    const isWhole = report.action === 'reload' || report.action === 'create';
    if (before !== undefined && isWhole && (await this.record()).generation <= before.generation)
      throw new Difference(`all rows were sent, and the generation is still ${before.generation}`);
    return report;
  }

  async #took(report: DestinationReport, flags: Flags, allowed: readonly string[]): Promise<void> {
    const code = report.error?.code;
    if (report.status !== 'ok' && !['values_refused', ...allowed].includes(code ?? ''))
      throw new Difference(`the delivery ended with ${report.status} ${code}: ${report.error?.message}`);
    const isEverything = flags.full === true || this.expected.recorded === undefined;
    // A table that is made again has all rows, also if no commit was waiting.
    const isMadeAgain = isEverything && this.waiting.length === 0 && this.last !== undefined;
    const commits = isMadeAgain ? [{ ...(this.last as Commit), changes: [] }] : this.waiting;
    this.expected.delivered(commits, this.wanted(), isEverything);
    this.waiting = [];
    [this.isForgetting, this.#mayLackChanges] = [false, false];
    await this.compare();
    const { refused } = this.expected;
    const hasOthers = this.expected.left.size > 0 || this.loose.size > 0;
    if (refused !== undefined && (hasOthers ? report.refused < refused : report.refused !== refused))
      throw new Difference(`${report.refused} values are said to be refused, and ${refused} are`);
  }

  push(flags: Flags = {}): Promise<DestinationReport> {
    return pushThrough(this, flags);
  }

  async record(): Promise<Recorded & TableProperties> {
    const rows = await this.place.rows('_cdsync_state');
    const [own, more] = rows.filter((row) => row.get('table_name') === this.table);
    if (own === undefined || more !== undefined) throw new Difference(`${rows.length} records`);
    return JSON.parse(String(own.get('record'))) as never;
  }

  async compare(): Promise<void> {
    const [record, rows, types] = await Promise.all([
      this.record(),
      this.place.rows(this.table),
      this.place.types(this.table),
    ]);
    const { rules, own } = this.options;
    const isHidden = (name: string) => {
      const rule = rules[name];
      return rule?.drop || rule?.hash || rule?.mask || own[name]?.drop;
    };
    const context: CheckContext = {
      paths: [...this.types.keys()],
      columns: [...types.keys()],
      users: this.users,
      hidden: this.source.columns.map(({ name }) => name).filter(isHidden),
      forgotten: this.forgotten,
      loose: this.loose,
      past: (key, path) =>
        [...(this.source.past.get(JSON.stringify([key, path.replace(/^attributes\./, '')])) ?? []), 'null'].map(
          (value) => ({
            types: this.types,
            values: new Map([[path, ruled(rules[path.replace(/^attributes\./, '')], value) ?? 'null']]),
          }),
        ),
    };
    this.expected.check(record, rows, this.wanted(), context);
    if (record.rows !== rows.length) throw new Difference(`the record says ${record.rows} rows of ${rows.length}`);
  }

  /** A delivery without anything to send does nothing. */
  async quiet(): Promise<void> {
    const report = await this.product.push();
    if (report.action !== 'nothing' || report.status !== 'ok')
      throw new Difference(
        `nothing was to do, and it did ${report.action}: ${report.why} ${report.error?.message ?? ''}`,
      );
    await this.compare();
  }
}
