import type { ComparedRow } from '../../../src/conformance/index.js';
import { held, isNull, isSameText, type Json, plain, shown } from './json-value.js';
import type { Target } from './targets.js';

/** A row of the stream by paths, after the stream's rules, and the types that its columns had then. */
export interface Image {
  readonly values: ReadonlyMap<string, Json>;
  readonly types: ReadonlyMap<string, string>;
}

/** The rows and changes that one run has committed. */
export interface Commit {
  readonly run: string;
  readonly rows: ReadonlyMap<string, Image>;
  readonly changes: readonly { readonly op: string; readonly key: string; readonly image: Image }[];
}

interface LogRow {
  readonly op: string;
  readonly run: string;
  readonly key: string;
  image: Image;
  /** The rule of each column when the row was written, and the columns that had a variant then. */
  readonly rules: ReadonlyMap<string, string>;
  variants: ReadonlySet<string> | undefined;
}

/** Where a column of the stream is in the table, as the record says. */
interface Entry {
  readonly target: string | null;
  readonly variant: string | null;
  readonly kind: string;
  readonly as: string;
}

export interface Recorded {
  readonly map: Readonly<Record<string, Entry>>;
  readonly retired: Readonly<Record<string, string>>;
}

/** The options of a delivery that decide which rows and columns the table has. */
export interface Wanted {
  readonly mode: 'mirror' | 'upsert' | 'replace' | 'append';
  readonly deletes: 'hard' | 'soft';
  /** For each path, all rules that concern it. */
  readonly rules: ReadonlyMap<string, string>;
  /** Paths that no delivery gives a column. */
  readonly dropped: ReadonlySet<string>;
  readonly untracked: ReadonlySet<string>;
}

interface Left {
  /** Images of the row: each of its values in the table may be from any of them. */
  images: Image[];
  /** Whether the row may be missing: it was added and removed between two deliveries. */
  readonly isOptional: boolean;
}

const own = new Set(['_synced_at', '_deleted_at', '_op', '_run_id']);

const nothing: Image = { values: new Map(), types: new Map() };

export class Difference extends Error {}

/** Whether values of a column's first type are as they were under the second. */
function mayWiden(from: string, to: string): boolean {
  if (from === 'BIGINT') return to === 'HUGEINT' || to === 'DOUBLE';
  // All JSON is one type for many databases.
  return (from.startsWith('STRUCT(') && to.startsWith('STRUCT(')) || (/\]$|^STRUCT/.test(from) && to === 'JSON');
}

function fail(what: string): never {
  throw new Difference(what);
}

function without(image: Image, path: string): Image {
  const values = new Map(image.values);
  values.delete(path);
  return { ...image, values };
}

/** The value in the stream, and its type: an empty text in a column whose type was inferred from texts is NULL. */
function inStream({ values, types }: Image, path: string): { readonly value: Json | undefined; readonly type: string } {
  const type = types.get(path) ?? 'VARCHAR';
  const value = values.get(path);
  return { value: value === '""' && type !== 'VARCHAR' && type !== 'JSON' ? undefined : value, type };
}

/**
 * The rows and columns that a table must have after each delivery, computed from the records of the source and the rules that
 * applied. Only the names of columns are taken from the record of the table, which may not contradict its earlier versions.
 */
export class ExpectedTable {
  covered: ReadonlyMap<string, Image> = new Map();
  left = new Map<string, Left>();
  log: LogRow[] = [];
  rules: ReadonlyMap<string, string> = new Map();
  recorded: Recorded | undefined;
  /** How many values of the present rows the destination cannot hold; undefined if that is not known. */
  refused: number | undefined;
  /**
   * Whether the table is an old copy that was put back. Values of rows that no delivery sends again may be missing in it: rules
   * that were added and removed since the copy have cleared them.
   */
  isOldCopy = false;
  /** Rows and columns that someone has removed since the last delivery. */
  readonly #missing = new Set<string>();
  readonly #lost = new Set<string>();
  readonly #target: Target;

  constructor(target: Target) {
    this.#target = target;
  }

  copy(): ExpectedTable {
    const copy = new ExpectedTable(this.#target);
    Object.assign(copy, {
      isOldCopy: this.isOldCopy,
      covered: this.covered,
      rules: this.rules,
      recorded: this.recorded,
      log: [...this.log],
    });
    for (const [key, each] of this.left) copy.left.set(key, { ...each, images: [...each.images] });
    return copy;
  }

  /** A user has removed rows. */
  removed(keys: readonly string[]): void {
    for (const key of keys) {
      this.left.delete(key);
      this.#missing.add(key);
    }
    this.log = this.log.filter(({ key }) => !keys.includes(key));
  }

  /** The table starts again, without rows and without a record. */
  emptied(): void {
    this.left.clear();
    this.log = [];
    this.covered = new Map();
    this.recorded = undefined;
    this.isOldCopy = false;
  }

  /** A user has removed a column: rows that no delivery sends again are NULL in it. */
  lostColumn(path: string): void {
    this.#lost.add(path);
    for (const each of this.left.values()) each.images = each.images.map((image) => without(image, path));
    for (const row of this.log) row.image = without(row.image, path);
  }

  erased(key: string): void {
    this.covered = new Map([...this.covered].filter(([each]) => each !== key));
    this.left.delete(key);
    this.log = this.log.filter((row) => row.key !== key);
  }

  delivered(commits: readonly Commit[], wanted: Wanted, isEverything = false): void {
    const current = commits.at(-1)?.rows ?? this.covered;
    if (wanted.mode === 'append') this.#appended(commits, wanted, isEverything);
    else this.#merged(commits, current, wanted);
    this.covered = current;
    this.rules = wanted.rules;
  }

  #merged(commits: readonly Commit[], current: ReadonlyMap<string, Image>, { mode, deletes, rules }: Wanted): void {
    const keeps = mode === 'upsert' || (mode === 'mirror' && deletes === 'soft');
    const before = new Map<string, Left>();
    for (const [key, image] of this.covered) before.set(key, { images: [image], isOptional: this.#missing.has(key) });
    for (const { rows } of commits)
      for (const [key, image] of rows) {
        const known = before.get(key) ?? this.left.get(key);
        before.set(key, { images: [...(known?.images ?? []), image], isOptional: known?.isOptional ?? true });
      }
    if (!keeps) this.left.clear();
    else for (const [key, each] of before) this.left.set(key, each);
    for (const key of current.keys()) this.left.delete(key);
    const changed = [...rules.keys()].filter(
      (path) => this.#lost.has(path) || (this.rules.has(path) && this.rules.get(path) !== rules.get(path)),
    );
    this.#missing.clear();
    this.#lost.clear();
    for (const [key, left] of this.left) {
      const cleared = left.images.map((image) => changed.reduce((rest, path) => without(rest, path), image));
      // What these commits have of it is by the rules of today: their notice of its end may have them.
      const sent = commits.flatMap(({ rows }) => rows.get(key) ?? []);
      left.images = [...cleared, ...sent];
    }
  }

  #appended(commits: readonly Commit[], { rules }: Wanted, isEverything: boolean): void {
    // A value that a rule has cleared stays NULL when the rule before it applies again.
    for (const row of this.log)
      for (const [path, rule] of rules)
        if (row.rules.has(path) && row.rules.get(path) !== rule) row.image = without(row.image, path);
    const last = commits.at(-1);
    const changes = isEverything
      ? [...(last?.rows ?? this.covered)].map(([key, image]) => ({ op: 'insert', key, image, run: last?.run ?? '' }))
      : commits.flatMap(({ run, changes }) => changes.map((change) => ({ ...change, run })));
    for (const change of changes) this.log.push({ ...change, rules, variants: undefined });
  }

  /** Compares the table, and takes the names of columns from its record. */
  check(recorded: Recorded, rows: readonly ComparedRow[], wanted: Wanted, context: CheckContext): void {
    this.#checkNames(recorded, rows, wanted, context);
    this.#checkHidden(rows, context);
    this.refused = undefined;
    if (wanted.mode === 'append') this.#checkLog(recorded, rows, context);
    else this.#checkRows(recorded, rows, wanted, context);
    this.recorded = recorded;
  }

  #checkNames(
    { map, retired }: Recorded,
    rows: readonly ComparedRow[],
    { dropped }: Wanted,
    context: CheckContext,
  ): void {
    for (const path of context.paths)
      if (!dropped.has(path) && !map[path]?.target) fail(`column ${path} has no place in the table`);
    for (const path of dropped) if (map[path]?.target) fail(`column ${path} is dropped, and is ${map[path]?.target}`);
    for (const [path, { target, kind, as }] of Object.entries(map)) {
      const before = this.recorded?.map[path];
      const isSame = before?.target === target && before?.as === as;
      if (before && isSame && before.kind !== kind && !mayWiden(before.kind, kind))
        fail(`column ${path} was declared ${before.kind}, and is ${kind}`);
    }
    const places = Object.values(map).flatMap(({ target, variant }) =>
      [target, variant].filter((name) => name !== null),
    );
    const known = [...places, ...Object.keys(retired)];
    if (new Set(known).size !== known.length) fail(`two columns are one: ${known}`);
    for (const name of context.columns)
      if (!known.includes(name) && !own.has(name) && !context.users.has(name))
        fail(`column ${name} belongs neither to cdsync nor to a user`);
    for (const name of known) if (!context.columns.includes(name)) fail(`column ${name} is not there`);
    for (const row of rows)
      for (const name of Object.keys(retired))
        if (row.get(name) !== null) fail(`retired column ${name} holds a value in row ${row.get('id')}`);
  }

  #checkHidden(rows: readonly ComparedRow[], { hidden, forgotten, users }: CheckContext): void {
    for (const row of rows) {
      if (forgotten.has(String(row.get('id')))) fail(`forgotten key ${row.get('id')} is there`);
      for (const [name, text] of row)
        if (text !== null && !users.has(name))
          for (const each of hidden)
            if (text.includes(`z${each}~`))
              fail(`column ${name} of row ${row.get('id')} shows a hidden value of ${each}`);
    }
  }

  #checkRows({ map }: Recorded, rows: readonly ComparedRow[], wanted: Wanted, context: CheckContext): void {
    const found = new Map(rows.map((row) => [String(row.get('id')), row]));
    this.refused = 0;
    if (found.size !== rows.length) fail(`${rows.length} rows with ${found.size} keys`);
    const isSoft = wanted.mode === 'mirror' && wanted.deletes === 'soft';
    for (const [key, image] of this.covered) {
      const row = found.get(key) ?? fail(`row ${key} is missing`);
      const marked = row.get('_deleted_at');
      if (marked !== null && marked !== undefined) fail(`row ${key} is marked as deleted`);
      for (const [path, entry] of Object.entries(map)) {
        const isExact = !wanted.untracked.has(path);
        this.#checkCell(row, path, entry, isExact ? [image] : context.past(key, path), isExact);
        // The newest value of an untracked column may never have been sent.
        if (isExact) this.refused += this.#refusedIn(path, entry, image);
      }
    }
    for (const [key, row] of found) {
      if (this.covered.has(key)) continue;
      const left = this.left.get(key) ?? fail(`row ${key} should not be there`);
      if (isSoft && row.get('_deleted_at') === null) fail(`row ${key} is not marked as deleted`);
      for (const [path, entry] of Object.entries(map)) {
        // A column that was ever untracked may have a value of any earlier run.
        const past = context.loose.has(path) ? context.past(key, path) : [];
        this.#checkCell(row, path, entry, [...left.images, ...past, ...(this.isOldCopy ? [nothing] : [])], false);
      }
    }
    for (const [key, { isOptional }] of this.left) {
      if (!isOptional && !found.has(key)) fail(`row ${key}, which the source has no more, has gone`);
      if (!found.has(key)) this.left.delete(key);
    }
  }

  #refusedIn(path: string, { target, variant, kind }: Entry, image: Image): number {
    if (target === null) return 0;
    const { value, type } = inStream(image, path);
    const { isRefused, isVariantRefused } = this.#texts(kind, value, type, variant !== null);
    return Number(isRefused) + Number(isVariantRefused);
  }

  /** @param isExact whether the snapshot covers the row; else it keeps what one of its images had */
  #checkCell(row: ComparedRow, path: string, entry: Entry, images: readonly Image[], isExact: boolean): void {
    const { target, variant, kind } = entry;
    if (target === null) return;
    const cell = shown(kind, row.get(target) ?? null);
    const other = variant === null ? null : shown('VARCHAR', row.get(variant) ?? null);
    const wanted = images.map((image) => {
      const { value, type } = inStream(image, path);
      return { value, ...this.#texts(kind, value, type, variant !== null) };
    });
    const isSet = (each: (typeof wanted)[number]) =>
      isSameText(cell, each.target) && (isSameText(other, each.variant) || (!isExact && other === null));
    const lost = wanted.find(
      ({ value, isRefused, isVariantRefused: _, ...each }) =>
        !isNull(value) && !isRefused && each.target === null && variant === null,
    );
    const words = () =>
      `row ${row.get('id')}, ${path} (${kind}): ${JSON.stringify([cell, other])}, not ${JSON.stringify(wanted)}`;
    if (isExact && lost !== undefined) fail(`a value is lost: ${words()}`);
    if (!wanted.some(isSet)) fail(words());
  }

  #texts(kind: string, value: Json | undefined, type: string, hasVariant: boolean) {
    const text = held(kind, value, type);
    const isRefused = text !== null && this.#target.refuses(kind, text);
    const whole = !hasVariant || isNull(value) ? null : shown('VARCHAR', plain(value));
    const isVariantRefused = whole !== null && this.#target.refuses('VARCHAR', whole);
    return { target: isRefused ? null : text, variant: isVariantRefused ? null : whole, isRefused, isVariantRefused };
  }

  /** Rows of the log that are new have the variants of this record. */
  logged({ map }: Recorded): void {
    const variants = new Set(Object.entries(map).flatMap(([path, { variant }]) => (variant === null ? [] : [path])));
    for (const row of this.log) row.variants ??= variants;
  }

  #checkLog(recorded: Recorded, rows: readonly ComparedRow[], context: CheckContext): void {
    this.logged(recorded);
    const { map } = recorded;
    const id = (op: unknown, run: unknown, key: unknown) => JSON.stringify([op, run, key]);
    const open = new Map<string, ComparedRow[]>();
    for (const row of rows) {
      const own = id(row.get('_op'), row.get('_run_id'), row.get('id'));
      open.set(own, [...(open.get(own) ?? []), row]);
    }
    for (const { op, run, key, image, variants: had } of this.log) {
      const own = id(op, run, key);
      const row = open.get(own)?.pop() ?? fail(`the log lacks ${own}`);
      for (const [path, entry] of Object.entries(map)) {
        const isLoose = context.loose.has(path);
        const images = [image, ...(isLoose && image.values.has(path) ? context.past(key, path) : [])];
        this.#checkCell(row, path, had?.has(path) ? entry : { ...entry, variant: null }, images, !isLoose);
        if (entry.variant !== null && !had?.has(path) && row.get(entry.variant) !== null)
          fail(`${own} has a value in ${entry.variant}`);
      }
    }
    const more = [...open].filter(([, each]) => each.length > 0).map(([own]) => own);
    if (more.length > 0) fail(`the log has ${more} too often`);
  }
}

/** Further input of {@link ExpectedTable.check}. */
export interface CheckContext {
  /** Paths that the stream has columns for. */
  readonly paths: readonly string[];
  readonly columns: readonly string[];
  /** Columns of users. */
  readonly users: ReadonlySet<string>;
  /** Attributes whose values no one may see. */
  readonly hidden: readonly string[];
  readonly forgotten: ReadonlySet<string>;
  /** Paths of columns that are, or were, not tracked. */
  readonly loose: ReadonlySet<string>;
  /** Images with each value that a key ever had in a column. */
  past(key: string, path: string): readonly Image[];
}
