import { Kind } from './column-shape.js';
import {
  ColumnSet,
  type ColumnTreatment,
  type ColumnWishes,
  columnPath,
  type DeclaredColumn,
  type Place,
  type StoredColumn,
} from './columns.js';
import { plainText } from './text-form.js';

/** What the configuration says of one column. */
export interface ColumnRule {
  readonly drop?: boolean;
  readonly hash?: ColumnTreatment['hash'];
  readonly mask?: ColumnTreatment['mask'];
  /** DuckDB type. */
  readonly type?: string;
  readonly rename?: string;
  /** False: a new value alone is no change of the row, and history does not have the column. */
  readonly track?: boolean;
}

/**
 * What happens to the columns of a stream before cdsync keeps anything of them. A rule names a column by its field
 * (`email`), or by its path (`attributes.email`) if an envelope field has the same name.
 */
export class ColumnRules implements ColumnWishes {
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

  of(place: Place, field: string): ColumnRule | undefined {
    return this.#rules.get(columnPath({ place, field })) ?? this.#rules.get(field);
  }

  name(place: Place, field: string): string | undefined {
    return this.of(place, field)?.rename;
  }

  type(place: Place, field: string): string | undefined {
    return this.of(place, field)?.type;
  }

  judges(place: Place, field: string): boolean {
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
    return read.flatMap((column) => {
      const rule = this.of(column.place, column.field);
      const isNew = this.#known !== undefined && !this.#known.has(columnPath(column));
      return rule?.drop === true || isNew ? [] : [kept(column, rule)];
    });
  }

  /** A hashed or masked column forgets its shape: that says nothing about the values that the service will send. */
  #untreated(column: StoredColumn): StoredColumn {
    const { place, field, name, shape, declared, text, treatment } = column;
    const type = this.type(place, field);
    const unknown = { place, field, name, shape: { k: 0 } };
    const isTreated = treatment?.hash !== undefined || treatment?.mask !== undefined;
    // History keeps hashes and masks: beside them the column can only be text.
    if (isTreated) return this.judges(place, field) ? { ...unknown, text: plainText } : unknown;
    // A type that came from a rule goes when the rule goes.
    const stands = treatment?.cast === undefined || treatment.cast === type;
    const given = type !== undefined && treatment?.cast !== type ? type : stands ? declared : undefined;
    const common = { place, field, name, shape, ...(text === undefined ? {} : { text }) };
    return given === undefined ? common : { ...common, declared: given };
  }
}

function kept(column: StoredColumn, rule: ColumnRule | undefined): StoredColumn {
  const { place, field, name, shape, declared, text } = column;
  const common = { place, field, name, ...(rule?.track === false ? { untracked: true as const } : {}) };
  const { hash, mask, type: cast } = rule ?? {};
  if (hash !== undefined) return { ...common, shape: { k: Kind.string }, treatment: { hash } };
  if (mask !== undefined) return { ...common, shape: { k: Kind.string }, treatment: { mask } };
  const told = { ...(declared === undefined ? {} : { declared }), ...(text === undefined ? {} : { text }) };
  const plain = { ...common, shape, ...told };
  return cast === undefined ? plain : { ...plain, treatment: { cast } };
}
