import { columnName, reservedColumns } from './column-name.js';
import {
  emptyShape,
  fileType,
  mergeShape,
  restoreShape,
  type Shape,
  type StoredShape,
  sqlType,
  storeShape,
} from './column-shape.js';

/** Where a field stands in a record: beside `id`, or inside `attributes`. */
export type Place = 'envelope' | 'attribute';

/** One column of a stream, and what was seen of it. */
export interface Column {
  readonly place: Place;
  /** The field's exact name in the records. */
  readonly field: string;
  /** Its name in tables and files: unique, whatever the case. */
  readonly name: string;
  readonly shape: Shape;
  /** A type the service's specification gives, which values are cast to; gone for good once a value did not fit it. */
  declared: string | undefined;
  /** DuckDB type in tables; follows the shape. */
  type: string;
  /** DuckDB type in Parquet files. */
  fileType: string;
}

export interface StoredColumn {
  place: Place;
  field: string;
  name: string;
  shape: StoredShape;
  declared?: string;
}

/** A column that a stream has from the start, seen or not. */
export interface DeclaredColumn {
  readonly field: string;
  /** Where left out, the type is inferred like any other's. */
  readonly type?: 'VARCHAR' | 'BIGINT' | 'TIMESTAMP WITH TIME ZONE';
}

/** The member whose members are columns of their own; a name that differs from it in case only would clash with it in a batch. */
const container = 'attributes';

/** The text that tells a column's place in `cdsync.columns`: `id`, `attributes.email`. */
export function columnPath(column: Pick<Column, 'place' | 'field'>): string {
  return column.place === 'attribute' ? `attributes.${column.field}` : column.field;
}

/** The columns of one stream: grow and widen, never shrink; names once given are kept. */
export class ColumnSet {
  readonly list: Column[] = [];
  /** Moves whenever a column is added or something new was seen of one. */
  version = 0;
  readonly #byField = { envelope: new Map<string, Column>(), attribute: new Map<string, Column>() };
  readonly #taken = new Set<string>(reservedColumns);

  constructor(declared: readonly DeclaredColumn[]) {
    for (const { field, type } of declared) this.#push('envelope', field, field, emptyShape(), type);
  }

  static restore(stored: readonly StoredColumn[]): ColumnSet {
    const set = new ColumnSet([]);
    for (const { place, field, name, shape, declared } of stored) {
      set.#push(place, field, name, restoreShape(shape), declared);
    }
    return set;
  }

  store(): StoredColumn[] {
    return this.list.map(({ place, field, name, shape, declared }) => ({
      place,
      field,
      name,
      shape: storeShape(shape),
      ...(declared === undefined ? {} : { declared }),
    }));
  }

  get(place: Place, field: string): Column | undefined {
    return this.#byField[place].get(field);
  }

  /** The column of a field, made where it is not there yet. */
  obtain(place: Place, field: string): Column {
    return this.get(place, field) ?? this.#push(place, field, this.#name(place, field), emptyShape(), undefined);
  }

  /** To be called after a column's shape has grown. */
  reshaped(column: Column): void {
    column.type = column.declared ?? sqlType(column.shape);
    column.fileType = column.declared ?? fileType(column.shape);
    this.version += 1;
  }

  /** Adds what another set of the same stream has seen; names that this set has given stand. */
  merge(other: ColumnSet): void {
    for (const { place, field, name, shape, declared } of other.list) {
      const column =
        this.get(place, field) ?? this.#push(place, field, this.#free(name, place, field), emptyShape(), declared);
      const misfit = declared === undefined && column.declared !== undefined;
      if (misfit) column.declared = undefined;
      if (mergeShape(column.shape, shape) || misfit) this.reshaped(column);
    }
  }

  #name(place: Place, field: string): string {
    const isContainer = place === 'envelope' && field === container;
    return columnName(field, isContainer || place === 'attribute' ? this.#taken : new Set([...this.#taken, container]));
  }

  #free(name: string, place: Place, field: string): string {
    return this.#taken.has(name.toLowerCase()) ? this.#name(place, field) : name;
  }

  #push(place: Place, field: string, name: string, shape: Shape, declared: string | undefined): Column {
    const column: Column = {
      place,
      field,
      name,
      shape,
      declared,
      type: declared ?? sqlType(shape),
      fileType: declared ?? fileType(shape),
    };
    this.list.push(column);
    this.#byField[place].set(field, column);
    this.#taken.add(name.toLowerCase());
    this.version += 1;
    return column;
  }
}
