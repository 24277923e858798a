import { CdsyncError } from '../../core/errors.js';
import type { SchemaChange } from '../../core/schema-change.js';
import { type ColumnType, isNested, parseColumnType } from '../../sdk/column-type.js';
import { variantName } from './name-clashes.js';
import type { MapEntry, Pending, TableRecord } from './record.js';

/** A column of the stream as the destination wants it. */
export interface WantedColumn {
  /** Its path in the stream's records. */
  readonly path: string;
  /** Its name in the stream's table. */
  readonly name: string;
  /** The wanted name in the destination. */
  readonly as: string;
  /** As DuckDB spells it. */
  readonly type: string;
  /** Whether all of its integers, also those in lists and structs, are at most 2^53 from zero, so that doubles hold them. */
  readonly isSafe: boolean;
  /** The name of the format that its texts have, if they are values of {@link WantedColumn.type}; else null. */
  readonly form: string | null;
  /** Fingerprint of all its rules. */
  readonly rule: string;
  readonly isDropped: boolean;
  readonly isTracked: boolean;
  readonly isKey: boolean;
}

/** The rules of a destination about types. */
interface TypeRules {
  /** Whether a column that was declared with a type holds every value of another, exactly. */
  holds(declared: ColumnType, current: ColumnType): boolean;
  /** Whether DDL changes a column from one type to the other without losing or changing a value. */
  widens(declared: ColumnType, current: ColumnType): boolean;
}

export interface MapTask {
  /** The record of the table; undefined for a table that begins. */
  readonly before: Pick<TableRecord, 'map' | 'retired' | 'retired_forms' | 'generation' | 'pending'> | undefined;
  readonly columns: readonly WantedColumn[];
  readonly types: TypeRules;
  readonly onTypeChange: 'variant_column' | 'fail';
  /** Columns of the table whose types the destination has refused to change. */
  readonly fixed?: ReadonlySet<string>;
  /** Gives a free name of the destination, like the wanted one. */
  readonly give: (wanted: string) => string;
  /** Whether a table that is taken over has a column of a name and a type, which is then used. A key's column has any type. */
  readonly claims: (name: string, type: ColumnType, isKey: boolean) => boolean;
  readonly stream: string;
}

/** A column with the type that it is declared with, as DuckDB spells it. */
export interface DeclaredColumn {
  readonly name: string;
  readonly kind: string;
}

/** The next column map, and the changes of the table for it. */
export interface NextMap {
  readonly map: ReadonlyMap<string, MapEntry>;
  readonly retired: ReadonlyMap<string, string>;
  readonly retiredForms: ReadonlyMap<string, string>;
  readonly add: readonly DeclaredColumn[];
  readonly widen: readonly DeclaredColumn[];
  /** Columns whose old values must go from rows that the snapshot does not cover. */
  readonly clear: readonly string[];
  /** Why unchanged rows need other values; empty if an increment is enough. */
  readonly why: readonly string[];
}

/** The types with those columns widened that a delivery has widened before it was cut short. */
function unfinished(map: ReadonlyMap<string, MapEntry>, pending: Pending | null) {
  const widened = new Map(pending?.widened);
  return [...map].map(([path, entry]): [string, MapEntry] => [
    path,
    { ...entry, kind: (entry.target !== null ? widened.get(entry.target) : undefined) ?? entry.kind },
  ]);
}

class Mapping {
  readonly map = new Map<string, MapEntry>();
  readonly retired: Map<string, string>;
  readonly #forms: Map<string, string>;
  readonly add: DeclaredColumn[] = [];
  readonly widen: DeclaredColumn[] = [];
  readonly clear = new Set<string>();
  readonly why: string[] = [];
  readonly #task: MapTask;
  readonly #before: Map<string, MapEntry>;
  readonly #generation: number;

  constructor(task: MapTask) {
    const { before } = task;
    this.#task = task;
    this.#before = new Map(unfinished(before?.map ?? new Map(), before?.pending ?? null));
    // Columns that a delivery added before it was cut short are ours, and empty.
    this.retired = new Map([...(before?.retired ?? []), ...(before?.pending?.added ?? [])]);
    this.#forms = new Map(before?.retired_forms);
    this.#generation = (before?.generation ?? 0) + 1;
  }

  get retiredForms(): Map<string, string> {
    return new Map([...this.#forms].filter(([name]) => this.retired.has(name)));
  }

  take(): void {
    const { columns } = this.#task;
    const paths = new Set(columns.map(({ path }) => path));
    for (const [path, entry] of this.#before) {
      if (paths.has(path)) continue;
      this.#retire(entry);
      if (entry.target !== null) this.why.push(`column "${entry.as}" is no longer in the stream`);
    }
    // First, all columns give up names; then new ones get names.
    const kept = columns.map((column) => ({ column, entry: this.#kept(column) }));
    for (const { column, entry } of kept) {
      const next = entry ?? this.#begin(column);
      // Texts that fit the declared type only count as its values if they are written as its texts were.
      const form = column.form !== null && next.kind === column.type ? column.form : next.form;
      this.map.set(column.path, { ...next, form });
    }
  }

  /** The entry of a column that stays in its place; undefined if it begins. */
  #kept(column: WantedColumn): MapEntry | undefined {
    const entry = this.#before.get(column.path);
    if (entry === undefined) return undefined;
    if (entry.target === null && column.isDropped) return { ...entry, rule: column.rule, stream_type: column.type };
    if (entry.rule !== column.rule) this.why.push(`rule of "${column.name}"`);
    else if (column.isDropped) this.why.push(`"${column.name}" is one column too many`);
    else if (entry.target === null) this.why.push(`"${column.name}" was one column too many`);
    else if (entry.stream_type !== column.type)
      this.why.push(`type of "${column.name}" (${entry.stream_type} to ${column.type})`);
    else if (entry.tracked !== column.isTracked) this.why.push(`\`track\` of "${column.name}"`);
    else if (entry.as !== column.as) this.why.push(`name of "${column.name}"`);
    const leaves = column.isDropped || entry.as !== column.as;
    if (leaves) this.#retire(entry);
    return entry.target === null || leaves ? undefined : this.#continued(column, entry);
  }

  /** The entry of a column that keeps its target. */
  #continued(column: WantedColumn, entry: MapEntry): MapEntry {
    const target = entry.target as string;
    const next = this.#underRule(column, entry);
    switch (this.#placeOf(column, entry)) {
      case 'held':
        return { ...next, kind: heldKind(entry, parseColumnType(column.type)) };
      case 'widened':
        this.widen.push({ name: target, kind: column.type });
        return { ...next, kind: column.type };
      case 'beside':
        return { ...next, variant: entry.variant ?? this.#variantOf(column, target) };
    }
  }

  /** The entry with the stream's present column. Under a new rule, older values must go. */
  #underRule(column: WantedColumn, entry: MapEntry): MapEntry {
    const { rule, type: stream_type, isTracked: tracked } = column;
    const next = { ...entry, rule, stream_type, tracked, safe: entry.safe && column.isSafe };
    if (entry.rule === rule) return next;
    for (const name of [entry.target, entry.variant]) if (name !== null) this.clear.add(name);
    return { ...next, since: this.#generation };
  }

  /**
   * Where the values of a column go:
   * - `held`: into its target as it is.
   * - `widened`: into its target, once that has the stream's type.
   * - `beside`: those that fit into its target, and the texts of all into a column beside it.
   * @throws {CdsyncError} `key_changed`, `type_changed`
   */
  #placeOf(column: WantedColumn, entry: MapEntry): 'held' | 'widened' | 'beside' {
    const { types, onTypeChange, fixed, stream } = this.#task;
    const [declared, current] = [parseColumnType(entry.kind), parseColumnType(column.type)];
    if (types.holds(declared, current) || holdsSafely(declared, current, column)) return 'held';
    if (column.isKey)
      throw keyChanged(`key column "${column.name}" was ${entry.kind}, and is ${column.type} now`, stream);
    if (entry.variant !== null) return 'beside';
    const isNewRule = entry.rule !== column.rule;
    const isExact = (entry.safe && column.isSafe) || !makesDoubles(declared, current);
    const mayWiden = !isNewRule && fixed?.has(entry.target as string) !== true;
    if (mayWiden && isExact && types.widens(declared, current)) return 'widened';
    if (!isNewRule && onTypeChange === 'fail') throw this.#typeChanged(column, entry);
    return 'beside';
  }

  #variantOf(column: WantedColumn, target: string): string {
    return this.#named(this.#task.give, { ...column, as: variantName(target), type: 'VARCHAR', isKey: false });
  }

  #begin(column: WantedColumn): MapEntry {
    const { as, type, rule, isDropped, isTracked, isSafe: safe } = column;
    const since = this.#generation;
    const entry = {
      as,
      rule,
      since,
      variant: null,
      stream_type: type,
      tracked: isTracked,
      kind: type,
      safe,
      form: null,
    };
    if (isDropped) return { ...entry, target: null };
    const retired = this.retired.get(as);
    const form = this.#forms.get(as) ?? null;
    if (retired === undefined || retired === type || column.isKey)
      return { ...entry, form: retired === type ? form : null, target: this.#named(this.#task.give, column) };
    // Its former column, which is empty now, has another type: values are placed as after a change of the type.
    this.retired.delete(as);
    return this.#continued(column, { ...entry, target: as, kind: retired, safe: true, form });
  }

  /** A retired column of the same name and type serves again; so does one of a table that is taken over. */
  #named(give: (wanted: string) => string, { as, type, isKey }: Pick<WantedColumn, 'as' | 'type' | 'isKey'>): string {
    if (this.retired.get(as) === type) {
      this.retired.delete(as);
      return as;
    }
    const isThere = this.#task.claims(as, parseColumnType(type), isKey);
    const name = isThere ? as : give(as);
    const served = this.retired.get(name) === type || isThere;
    this.retired.delete(name);
    if (!served) this.add.push({ name, kind: type });
    return name;
  }

  #retire({ target, kind, variant, form }: MapEntry): void {
    if (target !== null) {
      this.retired.set(target, kind);
      this.#forms.delete(target);
      if (form !== null) this.#forms.set(target, form);
      this.clear.add(target);
    }
    if (variant !== null) {
      this.retired.set(variant, 'VARCHAR');
      this.clear.add(variant);
    }
  }

  #typeChanged(column: WantedColumn, { target, kind }: MapEntry): CdsyncError {
    return new CdsyncError(`column "${target}" holds ${kind}, and values of "${column.name}" are ${column.type} now`, {
      code: 'type_changed',
      stream: this.#task.stream,
      hint: 'let cdsync add a column with the text of every value (on_type_change: variant_column), or begin again: cdsync push --recreate',
    });
  }
}

/** The hint where only another table, or a new one, helps. */
export const beginAgain =
  'give the stream another table with `table:`, or begin again: cdsync push --recreate drops the table and loads it';

/** The error for a table whose rows are under keys that the stream no longer has. */
export function keyChanged(message: string, stream: string): CdsyncError {
  return new CdsyncError(message, { code: 'key_changed', stream, hint: beginAgain });
}

/** The columns whose texts go into a column of their own by the next map, and by the map before did not. */
export function newVariants(
  before: ReadonlyMap<string, MapEntry> | undefined,
  next: ReadonlyMap<string, MapEntry>,
  destination: string,
): SchemaChange[] {
  return [...next].flatMap(([column, { variant, kind: from }]): SchemaChange[] =>
    variant === null || before?.get(column)?.variant === variant
      ? []
      : [{ column, change: 'variant_column', from, to: 'VARCHAR', destination, variant }],
  );
}

/** Where lists and objects of all types are kept as JSON, values of another type are JSON of any kind. */
function heldKind({ kind }: MapEntry, current: ColumnType): string {
  const declared = parseColumnType(kind);
  return isNested(declared) && JSON.stringify(declared) !== JSON.stringify(current) ? 'JSON' : kind;
}

/** Whether integers become doubles, also those in lists and structs. */
function makesDoubles(declared: ColumnType, current: ColumnType): boolean {
  if (declared.kind === 'list' && current.kind === 'list') return makesDoubles(declared.element, current.element);
  if (declared.kind === 'struct' && current.kind === 'struct')
    return declared.fields.some(({ name, type }) => {
      const member = current.fields.find((field) => field.name.toLowerCase() === name.toLowerCase());
      return member !== undefined && makesDoubles(type, member.type);
    });
  return current.kind === 'double' && (declared.kind === 'int64' || declared.kind === 'int128');
}

/** Doubles hold the integers of a stream in which none was beyond 2^53. */
function holdsSafely(declared: ColumnType, current: ColumnType, { isSafe }: WantedColumn): boolean {
  return declared.kind === 'double' && current.kind === 'int64' && isSafe;
}

/**
 * The next column map: a pure function of the record, the stream's columns, and the rules. A column keeps its place and its declared
 * type. DDL that follows only creates, adds nullable columns, and widens.
 * @throws {CdsyncError} `type_changed`, `key_changed`
 */
export function nextMap(task: MapTask): NextMap {
  const mapping = new Mapping(task);
  mapping.take();
  const { map, retired, retiredForms, add, widen, why } = mapping;
  const clear = [...mapping.clear].filter((name) => !add.some((column) => column.name === name));
  return { map, retired, retiredForms, add, widen, clear, why };
}
