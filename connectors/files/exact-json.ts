import { randomBytes } from 'node:crypto';
import { type ColumnType, quoteIdentifier, sqlText } from '../../src/sdk/index.js';

/*
 * DuckDB reads numbers with a fraction inside of JSON as doubles, and so loses digits of decimals and of JSON values. To read them
 * exactly, each such number becomes a string before DuckDB parses the text: a mark, and the number's digits.
 */

/** Whether a value of the type may have a number that a double does not hold. Decimals of 15 digits go through a double and back. */
export function needsExactJson(type: ColumnType): boolean {
  if (type.kind === 'list') return needsExactJson(type.element);
  if (type.kind === 'struct') return type.fields.some((field) => needsExactJson(field.type));
  return type.kind === 'json' || (type.kind === 'decimal' && type.precision > 15);
}

/** A string of JSON, or a number with a fraction or an exponent. */
const stringOrNumber = String.raw`("(?:[^"\\]|\\.)*")|(-?[0-9]+(?:[.][0-9]+(?:[eE][-+]?[0-9]+)?|[eE][-+]?[0-9]+))`;

/** Reads JSON texts with their numbers as written. */
export class ExactJson {
  /** No text has it by chance. */
  readonly #mark = randomBytes(12).toString('hex');

  /** SQL of a JSON text whose numbers with a fraction are marked strings. Valid JSON has no control characters. */
  marked(text: string): string {
    const all = `regexp_replace((${text})::VARCHAR, ${sqlText(stringOrNumber)}, '\\1' || chr(1) || '\\2' || chr(2), 'g')`;
    const numbers = `replace(${all}, chr(1) || chr(2), '')`;
    return `replace(replace(${numbers}, chr(1), ${sqlText(`"${this.#mark}`)}), chr(2), '"')`;
  }

  /** SQL of a value as text. @param marked SQL of the text of a number, or of another value */
  plain(marked: string): string {
    return `replace(${marked}, ${sqlText(this.#mark)}, '')`;
  }

  /** SQL of a value of the type. @param marked SQL of its marked JSON */
  value(marked: string, type: ColumnType, duckdbType: string): string {
    if (type.kind === 'json') return this.#json(marked);
    const isMixed = JSON.stringify(type).includes('"kind":"json"');
    if (!isMixed) return `${this.plain(`(${marked})::VARCHAR`)}::JSON::${duckdbType}`;
    return `(${this.#restored(`(${marked})::JSON::${shapeOf(type)}`, type, 0)})::${duckdbType}`;
  }

  #json(marked: string): string {
    return `regexp_replace((${marked})::VARCHAR, ${sqlText(`"${this.#mark}([^"]*)"`)}, '\\1', 'g')::JSON`;
  }

  #restored(value: string, type: ColumnType, depth: number): string {
    if (type.kind === 'json') return this.#json(value);
    if (type.kind === 'list') {
      const element = `e${depth}`;
      return `list_transform(${value}, lambda ${element}: ${this.#restored(element, type.element, depth + 1)})`;
    }
    if (type.kind !== 'struct') return this.plain(value);
    const fields = type.fields.map(
      ({ name, type: of }) => `${sqlText(name)}: ${this.#restored(`(${value}).${quoteIdentifier(name)}`, of, depth)}`,
    );
    return `CASE WHEN ${value} IS NOT NULL THEN {${fields.join(', ')}} END`;
  }
}

/** The type as DuckDB writes it, with texts in place of values. */
function shapeOf(type: ColumnType): string {
  if (type.kind === 'list') return `${shapeOf(type.element)}[]`;
  if (type.kind !== 'struct') return type.kind === 'json' ? 'JSON' : 'VARCHAR';
  return `STRUCT(${type.fields.map(({ name, type: of }) => `${quoteIdentifier(name)} ${shapeOf(of)}`).join(', ')})`;
}
