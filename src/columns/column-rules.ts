import { Kind } from './column-shape.js';
import {
  type ColumnField,
  type ColumnMask,
  type ColumnOptions,
  type ColumnOrigin,
  ColumnSet,
  columnPath,
  type DeclaredColumn,
  type StoredColumn,
} from './columns.js';
import { plainText } from './text-code.js';

/** What the configuration says of one column. */
export interface ColumnRule {
  readonly drop?: boolean;
  readonly hash?: ColumnMask['hash'];
  readonly mask?: ColumnMask['mask'];
  /** DuckDB type. */
  readonly type?: string;
  readonly rename?: string;
  /** False: a new value alone is no change of the row, and history does not have the column. */
  readonly track?: boolean;
}

/** Two names that differ only in case: a service that changes the case of a name must not uncover its values. */
function folded(name: string): string {
  return name.toUpperCase().toLowerCase();
}

/**
 * The rule for a field, of rules by field or path; if none has exactly its name, one that hides values and whose name differs only in
 * case.
 */
export function ruleFor<R>(
  rules: ReadonlyMap<string, R>,
  column: Pick<StoredColumn, 'place' | 'field'>,
  hides: (rule: R) => boolean,
): R | undefined {
  const names = [columnPath(column), column.field];
  const exact = names.map((name) => rules.get(name)).find((rule) => rule !== undefined);
  if (exact !== undefined || rules.size === 0) return exact;
  const wanted = names.map(folded);
  return [...rules].find(([name, rule]) => hides(rule) && wanted.includes(folded(name)))?.[1];
}

/**
 * What happens to the columns of a stream before cdsync keeps anything of them. A rule names a column by its field
 * (`email`), or by its path (`attributes.email`) if an envelope field has the same name.
 */
export class ColumnRules implements ColumnOptions {
  readonly names: ReadonlySet<string>;
  readonly #rules: ReadonlyMap<string, ColumnRule>;
  readonly #known: ReadonlySet<string> | undefined;
  readonly #judges: ((column: Pick<StoredColumn, 'place' | 'field'>) => boolean) | undefined;

  /**
   * @param known the only columns to keep, if new ones are left out; undefined keeps all
   * @param judges the columns whose texts become values if they can be given back; undefined if texts stay texts
   */
  constructor(
    rules: ReadonlyMap<string, ColumnRule>,
    known?: readonly StoredColumn[],
    judges?: (column: Pick<StoredColumn, 'place' | 'field'>) => boolean,
  ) {
    this.#rules = rules;
    this.#judges = judges;
    this.#known = known === undefined ? undefined : new Set(known.map(columnPath));
    this.names = new Set([...rules.values()].flatMap(({ rename }) => (rename === undefined ? [] : [rename])));
  }

  /** Tells these rules from others. */
  get identity(): unknown {
    const told = [[...this.#rules].sort(([a], [b]) => (a < b ? -1 : 1)), this.#known && [...this.#known].sort()];
    return this.#judges === undefined ? told : [...told, 'infer'];
  }

  of(place: ColumnOrigin, field: string): ColumnRule | undefined {
    const rule = ruleFor(this.#rules, { place, field }, hidesValues);
    if (rule === undefined || this.#rules.get(columnPath({ place, field })) === rule || this.#rules.get(field) === rule)
      return rule;
    // Of a rule for a name in another case, only what hides values counts.
    const { drop, hash, mask } = rule;
    return { ...(drop === undefined ? {} : { drop }), ...(hash && { hash }), ...(mask && { mask }) };
  }

  name(place: ColumnOrigin, field: string): string | undefined {
    return this.of(place, field)?.rename;
  }

  type(place: ColumnOrigin, field: string): string | undefined {
    return this.of(place, field)?.type;
  }

  judges(place: ColumnOrigin, field: string): boolean {
    return this.#judges?.({ place, field }) === true;
  }

  /** The columns that a reading begins with: those of the last snapshot, or the declared ones. Their values are untreated. */
  begin(declared: readonly DeclaredColumn[], before: readonly StoredColumn[] | undefined): ColumnSet {
    const set = new ColumnSet(before === undefined ? declared : [], this);
    for (const column of before ?? []) set.remember(this.#untreated(column));
    return set;
  }

  /** The columns to keep, of those that were read, each with its treatment. */
  keep(read: readonly StoredColumn[]): StoredColumn[] {
    return read.flatMap((column) => (this.#leavesOut(column) ? [] : [kept(column, this.#ruleOf(column))]));
  }

  /** The other columns that were read: nothing of them is kept. */
  leaveOut(read: readonly StoredColumn[]): ColumnField[] {
    return read.flatMap((column) => (this.#leavesOut(column) ? [{ place: column.place, field: column.field }] : []));
  }

  /** The rules, by their names in the configuration, that concern none of these columns. */
  unmatched(columns: readonly ColumnField[]): string[] {
    const used = new Set(columns.map((column) => this.#ruleOf(column)));
    return [...this.#rules].flatMap(([name, rule]) => (used.has(rule) ? [] : [name]));
  }

  #ruleOf({ place, field }: ColumnField): ColumnRule | undefined {
    return this.of(place, field);
  }

  #leavesOut(column: StoredColumn): boolean {
    const isNew = this.#known !== undefined && !this.#known.has(columnPath(column));
    return isNew || this.#ruleOf(column)?.drop === true;
  }

  /** The shape of a hashed or masked column says nothing about the values that the service will send. */
  #untreated(column: StoredColumn): StoredColumn {
    const { place, field, name, shape, declared, former, text, treatment } = column;
    const type = this.type(place, field);
    if (treatment?.hash !== undefined || treatment?.mask !== undefined) {
      // Without its rule, history keeps the hashes or masks as texts beside the values.
      const isHidden = hidesValues(this.of(place, field) ?? {});
      const unknown = { place, field, name, shape: { k: isHidden ? 0 : Kind.string } };
      return this.judges(place, field) ? { ...unknown, text: plainText } : unknown;
    }
    // A type that came from a rule goes when the rule goes.
    const stands = treatment?.cast === undefined || treatment.cast === type;
    const given = type !== undefined && treatment?.cast !== type ? type : stands ? declared : undefined;
    const common = { place, field, name, shape, ...(text === undefined ? {} : { text }) };
    if (given === undefined) return common;
    const kept = given === declared && former !== undefined ? { former } : {};
    return { ...common, declared: given, ...kept };
  }
}

function hidesValues({ drop, hash, mask }: ColumnRule): boolean {
  return drop === true || hash !== undefined || mask !== undefined;
}

function kept(column: StoredColumn, rule: ColumnRule | undefined): StoredColumn {
  const { place, field, name, shape, declared, former, text } = column;
  const common = { place, field, name, ...(rule?.track === false ? { untracked: true as const } : {}) };
  const { hash, mask, type: cast } = rule ?? {};
  if (hash !== undefined) return { ...common, shape: { k: Kind.string }, treatment: { hash } };
  if (mask !== undefined) return { ...common, shape: { k: Kind.string }, treatment: { mask } };
  const known = Object.entries({ declared, former, text }).filter(([, value]) => value !== undefined);
  const plain = { ...common, shape, ...Object.fromEntries(known) };
  return cast === undefined ? plain : { ...plain, treatment: { cast } };
}
