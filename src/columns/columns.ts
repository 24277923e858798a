import { createHash } from 'node:crypto';
import { z } from 'zod';
import { ownPrefix, rowNumberColumns } from '../core/sql.js';
import {
  emptyShape,
  fileType,
  hasNegativeZero,
  Kind,
  mergeShape,
  restoreShape,
  type Shape,
  type StoredShape,
  sqlType,
  storeShape,
} from './column-shape.js';
import { mergeTextFormats, plainText } from './text-code.js';
import { inferTextFormat, type TextFormat, textFormatOf } from './text-format.js';

const maxBytes = 63;

/** Columns that cdsync or DuckDB adds; no attribute may take their names. */
export const reservedColumns = [
  ...rowNumberColumns,
  '_op',
  '_run_id',
  '_synced_at',
  '_first_seen_at',
  '_deleted_at',
  '_valid_from',
  '_valid_to',
  // Of destinations.
  '_key',
  '_row',
  '_sequence',
];

function digits(exactName: string, count: number): string {
  return createHash('sha256').update(exactName, 'utf8').digest('hex').slice(0, count);
}

function firstBytes(text: string, bytes: number): string {
  let cut = '';
  let length = 0;
  for (const character of text) {
    length += Buffer.byteLength(character);
    if (length > bytes) break;
    cut += character;
  }
  return cut;
}

/**
 * The column name for a field of a record. `taken` lists the names in use, in lower case. A free name is kept. A name that
 * equals a taken one, whatever its case, gets `_` and 6 hex digits of its exact name's SHA-256; so does a name with a NUL
 * or a lone surrogate, or one that begins with {@link ownPrefix}. The empty name becomes `unnamed_` and those digits. A name longer than 63 bytes is cut to 54 bytes
 * and gets `_` and 8 digits. A name that is still taken gets more of them.
 */
export function columnName(exactName: string, taken: ReadonlySet<string>): string {
  // SQL text cannot carry NUL, UTF-8 no lone surrogate.
  const legible = exactName.toWellFormed().replaceAll('\0', '_');
  const suffixed = exactName === '' ? `unnamed_${digits(exactName, 6)}` : `${legible}_${digits(exactName, 6)}`;
  const lower = legible.toLowerCase();
  const isTaken = taken.has(lower) || lower.startsWith(ownPrefix);
  const plain = legible === exactName && exactName !== '' && !isTaken;
  const whole = plain ? legible : suffixed;
  const shortened = (count: number) => `${firstBytes(legible, maxBytes - 1 - count)}_${digits(exactName, count)}`;
  let name = Buffer.byteLength(whole) <= maxBytes ? whole : shortened(8);
  // Another field may be called just so.
  for (let count = 10; taken.has(name.toLowerCase()); count += 2) name = shortened(count);
  return name;
}

/** Where a field stands in a record: beside `id`, or inside `attributes`. */
export type ColumnOrigin = 'envelope' | 'attribute';

/** What was done to the values of a column before they were kept. */
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

/** One column of a stream, and what was seen of it. */
export interface Column {
  readonly place: ColumnOrigin;
  /** The field's exact name in the records. */
  readonly field: string;
  /** Its name in tables and files: unique, whatever the case. */
  readonly name: string;
  readonly shape: Shape;
  /**
   * The type that the service's specification or the configuration gives; values are cast to it. Once a value did not fit,
   * it is VARCHAR for good.
   */
  declared: string | undefined;
  /** The type that was declared until a value did not fit it: its texts are written as values of that type. */
  former: string | undefined;
  /**
   * With `strings: infer`, the code of the form that every text so far has ({@link TextFormat}); undefined: there was none, or the
   * texts were not judged.
   */
  text: string | undefined;
  /** Whether each text that comes is judged. */
  readonly isJudged: boolean;
  /** The form that decides the type; undefined: texts are kept as texts. Follows shape and {@link Column.text}. */
  form: TextFormat | undefined;
  /** DuckDB type in tables; follows shape and form. */
  type: string;
  /** DuckDB type in Parquet files. */
  fileType: string;
  treatment: ColumnMask | undefined;
  /** The column is kept up to date, but a new value alone is no change of the row, and history does not have it. */
  untracked: boolean;
}

/** A {@link Column} as journals, stores and manifests keep it. */
export interface StoredColumn {
  place: ColumnOrigin;
  field: string;
  name: string;
  shape: StoredShape;
  declared?: string;
  former?: string;
  text?: string;
  treatment?: ColumnMask;
  untracked?: true;
}

/** Which column: nothing but its place and its field. */
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

/** The text that tells a column's place in `cdsync.columns`: `id`, `attributes.email`. */
export function columnPath(column: Pick<Column, 'place' | 'field'>): string {
  return column.place === 'attribute' ? `attributes.${column.field}` : column.field;
}

/** The names and types that the configuration wants for columns that a set does not have yet. */
export interface ColumnOptions {
  /** Names that no other column may take. */
  readonly names: ReadonlySet<string>;
  name(place: ColumnOrigin, field: string): string | undefined;
  /** DuckDB type. */
  type(place: ColumnOrigin, field: string): string | undefined;
  /** Whether the column's texts are judged: {@link Column.isJudged}. */
  judges(place: ColumnOrigin, field: string): boolean;
}

/** The declared type of a column with two declarations: text if both give a type, for text holds every value. */
function commonType(one: string | undefined, other: string | undefined): string | undefined {
  if (one === other) return one;
  return one === undefined || other === undefined ? undefined : 'VARCHAR';
}

type Given = Pick<Column, 'shape' | 'declared' | 'text'> & Partial<Pick<Column, 'former'>>;

/** What is known of the texts of a column: a form, {@link plainText}, or undefined if it had none. */
function textsOf({ shape, declared, text }: Given): string | undefined {
  if (text !== undefined) return text;
  return (shape.kinds & Kind.string) !== 0 || declared !== undefined ? plainText : undefined;
}

function commonText(one: Given, other: Given): string | undefined {
  const isJudged = one.text !== undefined || other.text !== undefined;
  return isJudged ? mergeTextFormats(textsOf(one), textsOf(other)) : undefined;
}

function formIn({ shape, declared, text }: Given): TextFormat | undefined {
  const isText = declared === undefined ? shape.kinds === Kind.string : declared === 'VARCHAR';
  return isText ? textFormatOf(text) : undefined;
}

function typesOf(given: Given, form: TextFormat | undefined): Pick<Column, 'form' | 'type' | 'fileType'> {
  const { shape, declared } = given;
  return {
    form,
    type: form?.type ?? declared ?? sqlType(shape),
    fileType: form?.fileType ?? declared ?? fileType(shape),
  };
}

/** The columns of one stream. The set grows and its columns widen; nothing shrinks, and a column keeps its name. */
export class ColumnSet {
  readonly list: Column[] = [];
  /** Goes up whenever a column is added, or its shape or declared type changes. */
  version = 0;
  readonly #byField = { envelope: new Map<string, Column>(), attribute: new Map<string, Column>() };
  readonly #taken = new Set<string>(reservedColumns);
  readonly #wishes: ColumnOptions | undefined;

  constructor(declared: readonly DeclaredColumn[], wishes?: ColumnOptions) {
    this.#wishes = wishes;
    for (const name of wishes?.names ?? []) this.#taken.add(name.toLowerCase());
    for (const { field, type } of declared) {
      this.#push('envelope', field, field, { shape: emptyShape(), declared: type, text: undefined });
    }
  }

  static restore(stored: readonly StoredColumn[]): ColumnSet {
    const set = new ColumnSet([]);
    for (const { place, field, name, shape, declared, former, text, treatment, untracked } of stored) {
      const column = set.#push(place, field, name, { shape: restoreShape(shape), declared, former, text });
      column.treatment = treatment;
      column.untracked = untracked ?? false;
    }
    return set;
  }

  store(): StoredColumn[] {
    return this.list.map(({ place, field, name, shape, declared, former, text, treatment, untracked }) => ({
      place,
      field,
      name,
      shape: storeShape(shape),
      ...(declared === undefined ? {} : { declared }),
      ...(former === undefined ? {} : { former }),
      ...(text === undefined ? {} : { text }),
      ...(treatment === undefined ? {} : { treatment }),
      ...(untracked ? { untracked } : {}),
    }));
  }

  get(place: ColumnOrigin, field: string): Column | undefined {
    return this.#byField[place].get(field);
  }

  /** The column of a field; adds it if the set does not have it. */
  obtain(place: ColumnOrigin, field: string): Column {
    const known = this.get(place, field);
    if (known !== undefined) return known;
    const declared = this.#wishes?.type(place, field);
    return this.#push(place, field, this.#name(place, field), { shape: emptyShape(), declared, text: undefined });
  }

  /** Adds a column of the last snapshot. It keeps its name, unless the rules want another one or gave the old one. */
  remember({ place, field, name, shape, declared, former, text }: StoredColumn): void {
    const wanted = this.#wishes?.name(place, field);
    const isOwn = name === columnName(field, new Set()) || name === columnName(field, new Set([field.toLowerCase()]));
    const kept = wanted ?? (isOwn ? this.#free(name, place, field) : this.#name(place, field));
    const column = this.#push(place, field, kept, { shape: restoreShape(shape), declared, former, text: undefined });
    if (!column.isJudged) return;
    // Texts that nobody has judged may be anything.
    column.text = text ?? textsOf(column);
    this.reshaped(column);
  }

  /** Judges a text of a column, if the column is judged. */
  judge(column: Column, text: string): void {
    if (!column.isJudged || column.text === plainText) return;
    const common = mergeTextFormats(column.text, inferTextFormat(text));
    if (common === column.text) return;
    column.text = common;
    this.reshaped(column);
  }

  /** Makes a declared column text: a value does not fit its type. */
  undeclare(column: Column): void {
    column.former = column.declared;
    column.declared = 'VARCHAR';
    this.reshaped(column);
  }

  /** Updates a column's types. Must be called after its shape has grown, or what is known of its texts. */
  reshaped(column: Column): void {
    Object.assign(column, typesOf(column, formIn(column)));
    this.version += 1;
  }

  /** Adds what another set of the same stream has seen. Columns of this set keep their names. */
  merge(other: ColumnSet): void {
    for (const { place, field, name, shape, declared, former, text, treatment, untracked } of other.list) {
      const known = this.get(place, field);
      const nothing = { shape: emptyShape(), declared, former, text: undefined };
      const column = known ?? this.#push(place, field, this.#free(name, place, field), nothing);
      const together = known === undefined ? text : commonText(known, { shape, declared, text });
      const isWritten = together !== column.text;
      column.text = together;
      column.treatment ??= treatment;
      column.untracked ||= untracked;
      const common = commonType(column.declared, declared);
      const misfit = common !== column.declared;
      column.declared = common;
      column.former ??= former;
      if (mergeShape(column.shape, shape) || misfit || isWritten) this.reshaped(column);
    }
  }

  #name(place: ColumnOrigin, field: string): string {
    const wanted = this.#wishes?.name(place, field);
    if (wanted !== undefined) return wanted;
    const isContainer = place === 'envelope' && field === container;
    return columnName(field, isContainer || place === 'attribute' ? this.#taken : new Set([...this.#taken, container]));
  }

  #free(name: string, place: ColumnOrigin, field: string): string {
    return this.#taken.has(name.toLowerCase()) ? this.#name(place, field) : name;
  }

  #push(place: ColumnOrigin, field: string, name: string, given: Given): Column {
    const column: Column = {
      place,
      field,
      name,
      shape: given.shape,
      declared: given.declared,
      former: given.former,
      text: given.text,
      isJudged: given.declared === undefined && this.#wishes?.judges(place, field) === true,
      ...typesOf(given, formIn(given)),
      treatment: undefined,
      untracked: false,
    };
    this.list.push(column);
    this.#byField[place].set(field, column);
    this.#taken.add(name.toLowerCase());
    this.version += 1;
    return column;
  }
}

const shapeSchema: z.ZodType<StoredShape> = z.lazy(() =>
  z.object({ k: z.number(), e: shapeSchema.optional(), f: z.array(z.tuple([z.string(), shapeSchema])).optional() }),
) as z.ZodType<StoredShape>;

/** Columns as journals, stores and manifests keep them. */
export const columnsSchema = z.array(
  z.object({
    place: z.enum(['envelope', 'attribute']),
    field: z.string(),
    name: z.string(),
    shape: shapeSchema,
    declared: z.string().optional(),
    former: z.string().optional(),
    text: z.string().optional(),
    treatment: z
      .object({
        hash: z.object({ salt: z.string(), normalize: z.enum(['email', 'phone']).optional() }).optional(),
        mask: z.enum(['last4', 'email', 'all']).optional(),
        cast: z.string().optional(),
      })
      .optional(),
    untracked: z.literal(true).optional(),
  }),
) as unknown as z.ZodType<StoredColumn[]>;

/** Columns by place and field alone. */
export const columnFieldsSchema: z.ZodType<ColumnField[]> = z.array(
  z.object({ place: z.enum(['envelope', 'attribute']), field: z.string() }),
);
