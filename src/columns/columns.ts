import { storedDigest, storedType } from '../core/stored-texts.js';
import { z } from '../core/zod.js';
import { columnName, reservedColumns } from './column-name.js';
import {
  emptyShape,
  fileType,
  hasNegativeZero,
  Kind,
  leavesOf,
  limitShape,
  mergeShape,
  restoreShape,
  type Shape,
  type StoredShape,
  sqlType,
  storeShape,
} from './column-shape.js';
import { mergeTextFormats, plainText } from './text-code.js';
import { inferTextFormat, type TextFormat, textFormatOf } from './text-format.js';

/** Where a record has a field: beside `id`, or inside `attributes`. */
export type ColumnOrigin = 'envelope' | 'attribute';

/** How a column's values are changed before they are stored. */
export interface ColumnMask {
  /** HMAC-SHA-256 of the value's text, in hexadecimal digits. */
  readonly hash?: {
    /** Identifies the salt without revealing it. */
    readonly salt: string;
    readonly normalize?: 'email' | 'phone';
  };
  readonly mask?: 'last4' | 'email' | 'all';
  /** The type that a rule asks for. The column has it unless a value did not fit. */
  readonly cast?: string;
}

/** The parts of a mask that replace values, as the configuration calls them. A column has one of them at most. */
export const maskingActions = ['hash', 'mask'] as const;

/** Whether values are stored in another form, which does not show them. */
export function isMasked(
  rule: Readonly<Partial<Record<(typeof maskingActions)[number], unknown>>> | undefined,
): boolean {
  return maskingActions.some((action) => rule?.[action] !== undefined && rule[action] !== false);
}

/** The part of a rule that replaces values; undefined if there is none. */
export function maskOf(rule: Pick<ColumnMask, (typeof maskingActions)[number]> | undefined): ColumnMask | undefined {
  const action = maskingActions.find((action) => rule?.[action] !== undefined);
  return action && { [action]: rule?.[action] };
}

/** One column of a stream, with the types of the values read so far. */
export interface Column {
  readonly place: ColumnOrigin;
  /** The field's exact name in the records. */
  readonly field: string;
  /** Its name in tables and files: unique, whatever the case. */
  readonly name: string;
  readonly shape: Shape;
  /**
   * The type that the service's specification or the configuration gives. Values are cast to it; after a value that does not fit,
   * it stays VARCHAR.
   */
  declared: string | undefined;
  /** The type that was declared until a value did not fit it: its texts are written as values of that type. */
  former: string | undefined;
  /**
   * With `strings: infer`, the code of the format that all texts so far have ({@link TextFormat}). Undefined if there was no text, or
   * if formats are not inferred.
   */
  text: string | undefined;
  /** Whether each text is checked for a format. */
  readonly infersFormat: boolean;
  /** The format that decides the type; undefined: texts stay texts. Depends on shape and {@link Column.text}. */
  form: TextFormat | undefined;
  /** DuckDB type in tables; depends on shape and format. */
  type: string;
  /** DuckDB type in Parquet files. */
  fileType: string;
  /** The configured rule that hides its values, or gives them a type. */
  rule: ColumnMask | undefined;
  /** The column is updated, but a new value alone does not count as a change of the row, and history does not have the column. */
  untracked: boolean;
}

/** A {@link Column} as it is stored in journals, stores and manifests. */
export interface StoredColumn {
  place: ColumnOrigin;
  field: string;
  name: string;
  shape: StoredShape;
  declared?: string;
  former?: string;
  text?: string;
  rule?: ColumnMask;
  untracked?: true;
}

/** Identifies a column by its place and its field. */
export type ColumnField = Pick<StoredColumn, 'place' | 'field'>;

/** Whether -0.0 was among the values of any of the columns. */
export function holdNegativeZero(columns: readonly StoredColumn[]): boolean {
  return columns.some(({ shape }) => hasNegativeZero(shape));
}

/** A column that a stream has from the start, whether or not a record has the field. */
export interface DeclaredColumn {
  readonly field: string;
  /** Left out: the type is inferred from the values. */
  readonly type?: 'VARCHAR' | 'BIGINT' | 'TIMESTAMP WITH TIME ZONE';
}

/** The member whose own members become columns. In a batch, a name that differs from it only in case would clash with it. */
const container = 'attributes';

/** A column's path, as `cdsync.columns` has it: `id`, `attributes.email`. */
export function columnPath(column: Pick<Column, 'place' | 'field'>): string {
  return column.place === 'attribute' ? `attributes.${column.field}` : column.field;
}

/** Names and types for new columns, from the configuration. */
export interface ColumnOptions {
  /** Names that no other column may take. */
  readonly names: ReadonlySet<string>;
  name(place: ColumnOrigin, field: string): string | undefined;
  /** DuckDB type. */
  type(place: ColumnOrigin, field: string): string | undefined;
  /** {@link Column.infersFormat} of a new column. */
  infersFormat(place: ColumnOrigin, field: string): boolean;
}

/** The declared type of a column with two declarations: text if they differ, because text holds every value. */
function commonType(one: string | undefined, other: string | undefined): string | undefined {
  if (one === other) return one;
  return one === undefined || other === undefined ? undefined : 'VARCHAR';
}

type ColumnState = Pick<Column, 'shape' | 'declared' | 'text'> & Partial<Pick<Column, 'former'>>;

/** The code of a column's texts: a format, {@link plainText}, or undefined if it had no text. */
function textCodeOf({ shape, declared, text }: ColumnState): string | undefined {
  if (text !== undefined) return text;
  return (shape.kinds & Kind.string) !== 0 || declared !== undefined ? plainText : undefined;
}

function commonTextCode(one: ColumnState, other: ColumnState): string | undefined {
  const isInferred = one.text !== undefined || other.text !== undefined;
  return isInferred ? mergeTextFormats(textCodeOf(one), textCodeOf(other)) : undefined;
}

function formatIn({ shape, declared, text }: ColumnState): TextFormat | undefined {
  const isText = declared === undefined ? shape.kinds === Kind.string : declared === 'VARCHAR';
  return isText ? textFormatOf(text) : undefined;
}

function typesOf(state: ColumnState, form: TextFormat | undefined): Pick<Column, 'form' | 'type' | 'fileType'> {
  const { shape, declared } = state;
  return {
    form,
    type: form?.type ?? declared ?? sqlType(shape),
    fileType: form?.fileType ?? declared ?? fileType(shape),
  };
}

/** The columns of one stream. Columns are added and widened, never removed, narrowed or renamed. */
export class ColumnSet {
  readonly list: Column[] = [];
  /** Incremented when a column is added, or when its shape or declared type changes. */
  version = 0;
  readonly #byField = { envelope: new Map<string, Column>(), attribute: new Map<string, Column>() };
  readonly #taken = new Set<string>(reservedColumns);
  readonly #options: ColumnOptions | undefined;

  constructor(declared: readonly DeclaredColumn[], options?: ColumnOptions) {
    this.#options = options;
    for (const name of options?.names ?? []) this.#taken.add(name.toLowerCase());
    for (const { field, type } of declared) {
      this.#push('envelope', field, field, { shape: emptyShape(), declared: type, text: undefined });
    }
  }

  static restore(stored: readonly StoredColumn[]): ColumnSet {
    const set = new ColumnSet([]);
    for (const { place, field, name, shape, declared, former, text, rule, untracked } of stored) {
      const column = set.#push(place, field, name, { shape: restoreShape(shape), declared, former, text });
      column.rule = rule;
      column.untracked = untracked ?? false;
    }
    return set;
  }

  store(): StoredColumn[] {
    return this.list.map(({ place, field, name, shape, declared, former, text, rule, untracked }) => ({
      place,
      field,
      name,
      shape: storeShape(shape),
      ...(declared === undefined ? {} : { declared }),
      ...(former === undefined ? {} : { former }),
      ...(text === undefined ? {} : { text }),
      ...(rule === undefined ? {} : { rule }),
      ...(untracked ? { untracked } : {}),
    }));
  }

  get(place: ColumnOrigin, field: string): Column | undefined {
    return this.#byField[place].get(field);
  }

  /** The column of a field; adds it if the set does not have it. */
  columnFor(place: ColumnOrigin, field: string): Column {
    const knownColumn = this.get(place, field);
    if (knownColumn !== undefined) return knownColumn;
    const declared = this.#options?.type(place, field);
    return this.#push(place, field, this.#name(place, field), { shape: emptyShape(), declared, text: undefined });
  }

  /** Adds a column of the last snapshot. It keeps its name, unless a rule renames it, or its old name was given by a rule. */
  restore({ place, field, name, shape, declared, former, text }: StoredColumn): void {
    const wanted = this.#options?.name(place, field);
    const isOwn = name === columnName(field, new Set()) || name === columnName(field, new Set([field.toLowerCase()]));
    const kept = wanted ?? (isOwn ? this.#free(name, place, field) : this.#name(place, field));
    const column = this.#push(place, field, kept, { shape: restoreShape(shape), declared, former, text: undefined });
    if (!column.infersFormat) return;
    // Texts that were never checked may have any format.
    column.text = text ?? textCodeOf(column);
    this.#retyped(column);
  }

  /** Widens the text format of a column so that it covers this text, if the column's format is inferred. */
  addText(column: Column, text: string): void {
    if (!column.infersFormat || column.text === plainText) return;
    const common = mergeTextFormats(column.text, inferTextFormat(text));
    if (common === column.text) return;
    column.text = common;
    this.reshaped(column);
  }

  /** Makes a declared column text, because a value does not fit its type. */
  undeclare(column: Column): void {
    column.former = column.declared;
    column.declared = 'VARCHAR';
    this.reshaped(column);
  }

  /** Updates a column's types. Must be called after a change of its shape or of its text code. */
  reshaped(column: Column): void {
    limitShape(column.shape);
    this.#retyped(column);
  }

  #retyped(column: Column): void {
    Object.assign(column, typesOf(column, formatIn(column)));
    this.version += 1;
  }

  /** Adds the columns, shapes and text codes of another set of the same stream. Columns of this set keep their names. */
  merge(other: ColumnSet): void {
    for (const { place, field, name, shape, declared, former, text, rule, untracked } of other.list) {
      const knownColumn = this.get(place, field);
      const nothing = { shape: emptyShape(), declared, former, text: undefined };
      const column = knownColumn ?? this.#push(place, field, this.#free(name, place, field), nothing);
      const together = knownColumn === undefined ? text : commonTextCode(knownColumn, { shape, declared, text });
      const isWritten = together !== column.text;
      column.text = together;
      column.rule ??= rule;
      column.untracked ||= untracked;
      const common = commonType(column.declared, declared);
      const misfit = common !== column.declared;
      column.declared = common;
      column.former ??= former;
      if (mergeShape(column.shape, shape) || misfit || isWritten) this.reshaped(column);
    }
  }

  #name(place: ColumnOrigin, field: string): string {
    const wanted = this.#options?.name(place, field);
    if (wanted !== undefined) return wanted;
    const isContainer = place === 'envelope' && field === container;
    return columnName(field, isContainer || place === 'attribute' ? this.#taken : new Set([...this.#taken, container]));
  }

  #free(name: string, place: ColumnOrigin, field: string): string {
    return this.#taken.has(name.toLowerCase()) ? this.#name(place, field) : name;
  }

  #push(place: ColumnOrigin, field: string, name: string, state: ColumnState): Column {
    const column: Column = {
      place,
      field,
      name,
      shape: state.shape,
      declared: state.declared,
      former: state.former,
      text: state.text,
      infersFormat: state.declared === undefined && this.#options?.infersFormat(place, field) === true,
      ...typesOf(state, formatIn(state)),
      rule: undefined,
      untracked: false,
    };
    this.list.push(column);
    this.#byField[place].set(field, column);
    this.#taken.add(name.toLowerCase());
    this.version += 1;
    return column;
  }
}

/**
 * How many values of a row of these columns DuckDB holds beside each other. A struct costs what its fields would cost as columns, so
 * code that reckons with the number of columns takes this.
 */
export function countLeaves(columns: readonly StoredColumn[]): number {
  let leaves = 0;
  for (const { shape, declared, type } of ColumnSet.restore(columns).list) {
    // A declared type has a comma between two fields of a struct, or between the two numbers of a DECIMAL: that is one too many.
    if (declared !== undefined) leaves += declared.split(',').length;
    else leaves += type === 'JSON' ? 1 : leavesOf(shape);
  }
  return leaves;
}

/** Values of records are nested no deeper than a thousand levels. */
const maxStoredDepth = 1_024;

/** Whether a value is a {@link StoredShape}. It may be nested so deeply that a schema within a schema would overflow the stack. */
function isStoredShape(value: unknown): value is StoredShape {
  let level = [value];
  for (let depth = 0; level.length > 0; depth += 1) {
    if (depth > maxStoredDepth) return false;
    const inside: unknown[] = [];
    for (const shape of level) {
      if (typeof shape !== 'object' || shape === null) return false;
      const { k, e, f } = shape as Partial<Record<keyof StoredShape, unknown>>;
      if (typeof k !== 'number') return false;
      if (e !== undefined) inside.push(e);
      if (f === undefined) continue;
      if (!Array.isArray(f)) return false;
      for (const field of f as unknown[]) {
        if (!Array.isArray(field) || field.length !== 2 || typeof field[0] !== 'string') return false;
        inside.push(field[1]);
      }
    }
    level = inside;
  }
  return true;
}

const shapeSchema = z.custom<StoredShape>(isStoredShape, 'not the shape of a column');

const ruleSchema = z
  .object({
    hash: z.object({ salt: storedDigest, normalize: z.enum(['email', 'phone']).optional() }).optional(),
    mask: z.enum(['last4', 'email', 'all']).optional(),
    cast: storedType.optional(),
  })
  .optional();

/** Columns as they are stored in journals, stores and manifests. */
export const columnsSchema = z.array(
  z.object({
    place: z.enum(['envelope', 'attribute']),
    field: z.string(),
    name: z.string(),
    shape: shapeSchema,
    declared: storedType.optional(),
    former: storedType.optional(),
    text: z.string().optional(),
    rule: ruleSchema,
    untracked: z.literal(true).optional(),
  }),
) as unknown as z.ZodType<StoredColumn[]>;

/** Columns by place and field alone. */
export const columnFieldsSchema: z.ZodType<ColumnField[]> = z.array(
  z.object({ place: z.enum(['envelope', 'attribute']), field: z.string() }),
);
