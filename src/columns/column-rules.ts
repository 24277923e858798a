import { Kind } from './column-shape.js';
import {
  type ColumnField,
  type ColumnMask,
  type ColumnOptions,
  type ColumnOrigin,
  ColumnSet,
  columnPath,
  type DeclaredColumn,
  isMasked,
  maskingActions,
  maskOf,
  type StoredColumn,
} from './columns.js';
import { plainText } from './text-code.js';

/** The configuration of one column. */
export interface ColumnRule extends Pick<ColumnMask, (typeof maskingActions)[number]> {
  readonly drop?: boolean;
  /** DuckDB type. */
  readonly type?: string;
  readonly rename?: string;
  /** False: a new value alone does not count as a change of the row, and history does not have the column. */
  readonly track?: boolean;
}

/** The actions of a rule, as the configuration calls them: messages name the first of them that a rule has. */
const actions = ['drop', ...maskingActions, 'type', 'rename', 'track'] as const;

/** A rule as the configuration has it, or as it is applied. */
type AnyRule = Readonly<Partial<Record<(typeof actions)[number], unknown>>>;

/** Whether a rule keeps values from readers. */
export function hidesValues(rule: AnyRule | undefined): boolean {
  return rule?.drop === true || isMasked(rule);
}

/** The action of a rule: `hash`, `drop`. */
export function actionOf(rule: AnyRule | undefined): string {
  return actions.find((action) => rule?.[action] !== undefined && rule[action] !== false) ?? 'track';
}

/** The columns that a stream keeps, if it names them; its key and its envelope stay. */
export interface Selection {
  /** Fields, or paths. */
  readonly names: readonly string[];
  leavesOut(column: ColumnField): boolean;
}

/** A name without its case. If a service changes the case of a name, a rule must still hide the values. */
function folded(name: string): string {
  return name.toUpperCase().toLowerCase();
}

/**
 * The rule for a field, among rules by field or path. If no rule has exactly its name, a rule counts that hides values and whose name
 * differs only in case.
 */
export function ruleFor<R extends AnyRule>(
  rules: ReadonlyMap<string, R>,
  column: Pick<StoredColumn, 'place' | 'field'>,
): R | undefined {
  const names = [columnPath(column), column.field];
  const exact = names.map((name) => rules.get(name)).find((rule) => rule !== undefined);
  if (exact !== undefined || rules.size === 0) return exact;
  const wanted = names.map(folded);
  return [...rules].find(([name, rule]) => hidesValues(rule) && wanted.includes(folded(name)))?.[1];
}

/**
 * The rules for the columns of a stream, applied before anything is stored. A rule names a column by its field (`email`), or by its
 * path (`attributes.email`) if an envelope field has the same name.
 */
export class ColumnRules implements ColumnOptions {
  readonly names: ReadonlySet<string>;
  readonly #rules: ReadonlyMap<string, ColumnRule>;
  readonly #known: ReadonlySet<string> | undefined;
  readonly #infers: ((column: Pick<StoredColumn, 'place' | 'field'>) => boolean) | undefined;
  readonly #selection: Selection | undefined;

  /**
   * @param storedColumns the only columns to keep, if new ones are left out; undefined keeps all
   * @param infers the columns whose texts become typed values if these give the texts back; undefined if all texts stay texts
   * @param selection undefined keeps all columns
   */
  constructor(
    rules: ReadonlyMap<string, ColumnRule>,
    storedColumns?: readonly StoredColumn[],
    infers?: (column: Pick<StoredColumn, 'place' | 'field'>) => boolean,
    selection?: Selection,
  ) {
    this.#rules = rules;
    this.#selection = selection;
    this.#infers = infers;
    this.#known = storedColumns === undefined ? undefined : new Set(storedColumns.map(columnPath));
    this.names = new Set([...rules.values()].flatMap(({ rename }) => (rename === undefined ? [] : [rename])));
  }

  /** Equal for equal rules. */
  get identity(): unknown {
    const identity = [[...this.#rules].sort(([a], [b]) => (a < b ? -1 : 1)), this.#known && [...this.#known].sort()];
    const selected = this.#selection === undefined ? [] : [{ select: [...this.#selection.names].sort() }];
    return [...identity, ...(this.#infers === undefined ? [] : ['infer']), ...selected];
  }

  of(place: ColumnOrigin, field: string): ColumnRule | undefined {
    return this.isUnselected({ place, field }) ? { drop: true } : this.#named(place, field);
  }

  /** Whether the stream names the columns that it keeps, and not this one. */
  isUnselected(column: ColumnField): boolean {
    return this.#selection?.leavesOut(column) === true;
  }

  #named(place: ColumnOrigin, field: string): ColumnRule | undefined {
    const rule = ruleFor(this.#rules, { place, field });
    if (rule === undefined || this.#rules.get(columnPath({ place, field })) === rule || this.#rules.get(field) === rule)
      return rule;
    // If the name differs in case, only the members of the rule that hide values apply.
    return { ...(rule.drop === undefined ? {} : { drop: rule.drop }), ...maskOf(rule) };
  }

  name(place: ColumnOrigin, field: string): string | undefined {
    return this.of(place, field)?.rename;
  }

  type(place: ColumnOrigin, field: string): string | undefined {
    return this.of(place, field)?.type;
  }

  infersFormat(place: ColumnOrigin, field: string): boolean {
    return this.#infers?.({ place, field }) === true;
  }

  /** The columns at the start of a reading, before masks: those of the last snapshot, or the declared ones. */
  begin(declared: readonly DeclaredColumn[], before: readonly StoredColumn[] | undefined): ColumnSet {
    const set = new ColumnSet(before === undefined ? declared : [], this);
    for (const column of before ?? []) set.restore(this.#unmasked(column));
    return set;
  }

  /** The columns to store, among those that were read, each with its mask. */
  keep(read: readonly StoredColumn[]): StoredColumn[] {
    return read.flatMap((column) => (this.#leavesOut(column) ? [] : [kept(column, this.#ruleOf(column))]));
  }

  /** The columns that were read and are not stored. */
  leaveOut(read: readonly StoredColumn[]): ColumnField[] {
    return read.flatMap((column) => (this.#leavesOut(column) ? [{ place: column.place, field: column.field }] : []));
  }

  /** The configured names of the rules, and of the selection, that match no column. */
  unmatched(columns: readonly ColumnField[]): string[] {
    const used = new Set(columns.map(({ place, field }) => this.#named(place, field)));
    const names = new Set(columns.flatMap((column) => [column.field, columnPath(column)]));
    const unused = [...this.#rules].flatMap(([name, rule]) => (used.has(rule) ? [] : [name]));
    const selected = this.#selection?.names.filter((name) => !this.#rules.has(name) && !names.has(name)) ?? [];
    return [...unused, ...selected];
  }

  #ruleOf({ place, field }: ColumnField): ColumnRule | undefined {
    return this.of(place, field);
  }

  #leavesOut(column: StoredColumn): boolean {
    const isNew = this.#known !== undefined && !this.#known.has(columnPath(column));
    return isNew || this.#ruleOf(column)?.drop === true;
  }

  /** A column as the service sends it. The shape of a hashed or masked column does not describe the values of the service. */
  #unmasked(column: StoredColumn): StoredColumn {
    const { place, field, name, shape, declared, former, text, rule } = column;
    const type = this.type(place, field);
    if (isMasked(rule)) {
      // If the rule was removed, history has hashes or masks beside values, so the column must hold texts.
      const isHidden = hidesValues(this.of(place, field));
      const unknown = { place, field, name, shape: { k: isHidden ? 0 : Kind.string } };
      return this.infersFormat(place, field) ? { ...unknown, text: plainText } : unknown;
    }
    // A type that a rule gave is removed with the rule.
    const isCurrent = rule?.cast === undefined || rule.cast === type;
    const wanted = type !== undefined && rule?.cast !== type ? type : isCurrent ? declared : undefined;
    const common = { place, field, name, shape, ...(text === undefined ? {} : { text }) };
    if (wanted === undefined) return common;
    const kept = wanted === declared && former !== undefined ? { former } : {};
    return { ...common, declared: wanted, ...kept };
  }
}

function kept(column: StoredColumn, rule: ColumnRule | undefined): StoredColumn {
  const { place, field, name, shape, declared, former, text } = column;
  const common = { place, field, name, ...(rule?.track === false ? { untracked: true as const } : {}) };
  const mask = maskOf(rule);
  if (mask !== undefined) return { ...common, shape: { k: Kind.string }, rule: mask };
  const cast = rule?.type;
  const properties = Object.entries({ declared, former, text }).filter(([, value]) => value !== undefined);
  const plain = { ...common, shape, ...Object.fromEntries(properties) };
  return cast === undefined ? plain : { ...plain, rule: { cast } };
}
