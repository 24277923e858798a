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

/** What the configuration says of one column. */
export interface ColumnRule {
  readonly drop?: boolean;
  readonly hash?: ColumnTreatment['hash'];
  readonly mask?: ColumnTreatment['mask'];
  /** DuckDB type. */
  readonly type?: string;
  readonly rename?: string;
  /** False where what it holds is no part of what makes a row differ, nor of history. */
  readonly track?: boolean;
}

/**
 * What is to be done to the columns of a stream before anything of them is kept. A rule names a column by its field
 * (`email`) or by its path (`attributes.email`), where an envelope field has the same name.
 */
export class ColumnRules implements ColumnWishes {
  readonly names: ReadonlySet<string>;
  readonly #rules: ReadonlyMap<string, ColumnRule>;
  readonly #known: ReadonlySet<string> | undefined;

  /** @param known where columns that are new are left out: those that are not */
  constructor(rules: ReadonlyMap<string, ColumnRule>, known?: readonly StoredColumn[]) {
    this.#rules = rules;
    this.#known = known === undefined ? undefined : new Set(known.map(columnPath));
    this.names = new Set([...rules.values()].flatMap(({ rename }) => (rename === undefined ? [] : [rename])));
  }

  /** Tells these rules from others. */
  get identity(): unknown {
    return [[...this.#rules].sort(([a], [b]) => (a < b ? -1 : 1)), this.#known && [...this.#known].sort()];
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

  /** The columns as a reading begins with them, from what the last snapshot has; their values are as they come. */
  begin(declared: readonly DeclaredColumn[], before: readonly StoredColumn[] | undefined): ColumnSet {
    const set = new ColumnSet(before === undefined ? declared : [], this);
    for (const column of before ?? []) set.remember(this.#untreated(column));
    return set;
  }

  /** The columns as they are kept, of those that were read. */
  keep(read: readonly StoredColumn[]): StoredColumn[] {
    return read.flatMap((column) => {
      const rule = this.of(column.place, column.field);
      const isNew = this.#known !== undefined && !this.#known.has(columnPath(column));
      return rule?.drop === true || isNew ? [] : [kept(column, rule)];
    });
  }

  /** What was seen of a column whose values were changed says nothing of those that will come. */
  #untreated(column: StoredColumn): StoredColumn {
    const { place, field, name, shape, declared, treatment } = column;
    const type = this.type(place, field);
    if (treatment?.hash !== undefined || treatment?.mask !== undefined) return { place, field, name, shape: { k: 0 } };
    // A type that was asked for and is not any more.
    const stands = treatment?.cast === undefined || treatment.cast === type;
    const given = type !== undefined && treatment?.cast !== type ? type : stands ? declared : undefined;
    return { place, field, name, shape, ...(given === undefined ? {} : { declared: given }) };
  }
}

function kept(column: StoredColumn, rule: ColumnRule | undefined): StoredColumn {
  const { place, field, name, shape, declared } = column;
  const common = { place, field, name, ...(rule?.track === false ? { untracked: true as const } : {}) };
  const { hash, mask, type: cast } = rule ?? {};
  if (hash !== undefined) return { ...common, shape: { k: Kind.string }, treatment: { hash } };
  if (mask !== undefined) return { ...common, shape: { k: Kind.string }, treatment: { mask } };
  const plain = { ...common, shape, ...(declared === undefined ? {} : { declared }) };
  return cast === undefined ? plain : { ...plain, treatment: { cast } };
}
