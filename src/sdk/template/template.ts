import type * as LiquidModule from 'liquidjs';
import type { OutgoingRecord } from '../destination.js';
import {
  evaluate,
  filtersAlone,
  liquidModule,
  type ParsedTemplate,
  parseTemplate,
  plainText,
  renderText,
  urlText,
} from './engine.js';
import { isTemplate, placeholderAt } from './faults.js';
import { unmarked } from './marks.js';
import { jsonOf, membersOf, parseExactly, type TemplateValue } from './values.js';

/** The names of a template for the change, besides the columns of its row. */
export const changeNames = ['_op', '_key', '_id', '_stream', '_synced_at'] as const;

/** A column that a template names. */
export interface NamedColumn {
  readonly name: string;
  /** Which `{{` or `{%` of its text, from 0. */
  readonly placeholder: number;
}

/** The values that a template is filled in with, each as its JSON text. Read once, however many templates use it. */
export class TemplateRow {
  readonly #read: () => ReadonlyMap<string, string>;
  #texts: ReadonlyMap<string, string> | undefined;
  readonly #change: Readonly<Partial<Record<string, string>>>;
  #values: Map<string, TemplateValue> | undefined;

  constructor(
    texts: ReadonlyMap<string, string> | (() => ReadonlyMap<string, string>),
    change: Partial<Record<(typeof changeNames)[number], string>> = {},
  ) {
    this.#read = typeof texts === 'function' ? texts : () => texts;
    this.#change = change;
  }

  /** A record of a delivery. @param columns those that templates name; default: all */
  static of({ json, op, key, id, stream, syncedAt }: OutgoingRecord, columns?: ReadonlySet<string>): TemplateRow {
    const change = { _op: op, _key: key, _id: id, _stream: stream, _synced_at: syncedAt };
    return new TemplateRow(() => membersOf(json, columns), change);
  }

  /** The columns of rows that templates name. */
  static columnsOf(templates: readonly { readonly columns: readonly NamedColumn[] }[]): ReadonlySet<string> {
    const names = templates.flatMap(({ columns }) => columns.map(({ name }) => name));
    return new Set(names.filter((name) => !(changeNames as readonly string[]).includes(name)));
  }

  /** A column's value as JSON text; `null` for one that it lacks. */
  json(name: string): string {
    const ofChange = this.#ofChange(name);
    return ofChange === undefined ? this.#text(name) : JSON.stringify(ofChange);
  }

  /** A column's value. */
  value(name: string): TemplateValue {
    return this.#ofChange(name) ?? parseExactly(this.#text(name));
  }

  #ofChange(name: string): string | undefined {
    return Object.hasOwn(this.#change, name) ? this.#change[name] : undefined;
  }

  #text(name: string): string {
    this.#texts ??= this.#read();
    return this.#texts.get(name) ?? 'null';
  }

  /** These columns for the engine. */
  scope(names: readonly string[]): object {
    this.#values ??= new Map();
    const scope = Object.create(null) as Record<string, TemplateValue>;
    for (const name of names) {
      if (!this.#values.has(name)) this.#values.set(name, this.value(name));
      scope[name] = this.#values.get(name);
    }
    return scope;
  }
}

const alone = /^\s*\{\{-?\s*(?:([A-Za-z_][\w-]*)|\[\s*"([^"\\]+)"\s*\])\s*-?\}\}\s*$/;
const words: ReadonlySet<string> = new Set(['true', 'false', 'nil', 'null', 'empty', 'blank']);

/** The column of a text that is one placeholder without filters. */
function columnAlone(text: string): string | undefined {
  const [, plain, quoted] = alone.exec(text) ?? [];
  return plain !== undefined && words.has(plain) ? undefined : (plain ?? quoted);
}

/** The columns that a parsed template uses, its own variables excepted. */
function columnsOf(text: string, parsed: ParsedTemplate): NamedColumn[] {
  const { globals } = liquidModule().analyzeSync(parsed, { partials: false });
  const lines = text.split('\n');
  const starts = lines.map((_, row) => lines.slice(0, row).reduce((length, line) => length + line.length + 1, 0));
  return Object.values(globals).flatMap((uses) =>
    uses.map(({ segments, location }) => ({
      name: String(segments[0]),
      placeholder: placeholderAt(text, (starts[location.row - 1] ?? 0) + location.col - 1),
    })),
  );
}

/** A compiled text: the names in it, and how it is filled in. */
interface Compiled {
  readonly columns: readonly NamedColumn[];
  /** @throws {TemplateFailure} */
  value(row: TemplateRow): TemplateValue;
  /** Its value as JSON. @throws {TemplateFailure} */
  json(row: TemplateRow): string;
}

function constant(value: TemplateValue): Compiled {
  const json = jsonOf(value);
  return { columns: [], value: () => value, json: () => json };
}

/** A text whose value keeps its type, if it is one placeholder alone. */
function compileTyped(text: string): Compiled {
  if (!isTemplate(text)) return constant(unmarked(text));
  const column = columnAlone(text);
  if (column !== undefined) {
    const columns = [{ name: column, placeholder: 0 }];
    return { columns, value: (row) => row.value(column), json: (row) => row.json(column) };
  }
  const typed = parseTemplate(text);
  const { Output } = liquidModule();
  const outputs = typed.filter((part): part is LiquidModule.Output => part instanceof Output);
  const isAlone = outputs.length === 1 && typed.every((part) => part instanceof Output || isBlankText(part));
  const [output] = outputs;
  if (!isAlone || output === undefined) return compileText(text, plainText);
  const columns = columnsOf(text, typed);
  const names = columns.map(({ name }) => name);
  const filtered = filtersAlone(output);
  const [name = ''] = names;
  const value =
    filtered === undefined
      ? (row: TemplateRow) => evaluate(output, row.scope(names))
      : (row: TemplateRow) => filtered(row.value(name));
  return { columns, value, json: (row) => jsonOf(value(row)) };
}

/** Whether a part of a template is white space between placeholders. */
function isBlankText(part: LiquidModule.Template): boolean {
  const { str } = part as { readonly str?: string };
  return str !== undefined && str.trim() === '';
}

const plainPlaceholder = /\{\{\s*([A-Za-z_][\w-]*)\s*\}\}/;

/** Fills in a text whose placeholders are columns without filters, without the engine, which takes several times as long. */
function joined(text: string, write: (value: TemplateValue) => string): ((row: TemplateRow) => string) | undefined {
  // Literals and names in turn.
  const parts = text.split(plainPlaceholder).map((part, at) => (at % 2 === 0 ? unmarked(part) : part));
  const isPlain = (part: string, at: number) =>
    at % 2 === 0 ? !isTemplate(part) && !part.endsWith('{') : !words.has(part);
  if (!parts.every(isPlain)) return undefined;
  return (row) => parts.map((part, at) => (at % 2 === 0 ? part : write(row.value(part)))).join('');
}

function compileText(
  text: string,
  write: (value: TemplateValue) => string,
): Compiled & { text(row: TemplateRow): string } {
  const plain = unmarked(text);
  if (!isTemplate(text)) return { ...constant(plain), text: () => plain };
  const parsed = parseTemplate(text, write);
  const columns = columnsOf(text, parsed);
  const names = columns.map(({ name }) => name);
  const rendered = joined(text, write) ?? ((row: TemplateRow) => renderText(parsed, row.scope(names), write));
  return { columns, text: rendered, value: rendered, json: (row) => JSON.stringify(rendered(row)) };
}

/** A text with placeholders, such as a header or a file name. */
export class TextTemplate {
  readonly columns: readonly NamedColumn[];
  readonly #text: (row: TemplateRow) => string;

  /** @param isUrl values are percent-encoded, so that each stays in its segment or parameter */
  constructor(text: string, { isUrl = false } = {}) {
    const { columns, text: rendered } = compileText(text, isUrl ? urlText : plainText);
    this.columns = columns;
    this.#text = rendered;
  }

  /** @throws {TemplateFailure} */
  render(row: TemplateRow): string {
    return this.#text(row);
  }
}

/** A column that a body names, and the path of its text in the body. */
export interface BodyColumn extends NamedColumn {
  readonly path: readonly (string | number)[];
}

/** A text, a list or a map of any depth whose texts have placeholders. */
export class BodyTemplate {
  readonly columns: readonly BodyColumn[];
  readonly #json: (row: TemplateRow) => string;
  readonly #lines: readonly Part[] | undefined;
  readonly #value: (row: TemplateRow) => TemplateValue;

  /** @param omitsNull members that are NULL are left out */
  constructor(body: unknown, { omitsNull = false } = {}) {
    const columns: BodyColumn[] = [];
    const { json, value } = compileBody(body, omitsNull, [], columns);
    this.columns = columns;
    this.#json = json;
    this.#value = value;
    this.#lines = Array.isArray(body) ? body.map((entry) => compileBody(entry, omitsNull, [], [])) : undefined;
  }

  /** The body for a row as JSON text, with all digits of its numbers. @throws {TemplateFailure} */
  json(row: TemplateRow): string {
    return this.#json(row);
  }

  /** The same for each entry of a list; of anything else, one. @throws {TemplateFailure} */
  lines(row: TemplateRow): string[] {
    return this.#lines?.map((part) => part.json(row)) ?? [this.#json(row)];
  }

  /** @throws {TemplateFailure} */
  value(row: TemplateRow): TemplateValue {
    return this.#value(row);
  }
}

type Part = Omit<Compiled, 'columns'>;

function compileBody(
  body: unknown,
  omitsNull: boolean,
  path: readonly (string | number)[],
  columns: BodyColumn[],
): Part {
  if (typeof body === 'string') {
    const compiled = compileTyped(body);
    columns.push(...compiled.columns.map((column) => ({ ...column, path })));
    return compiled;
  }
  if (Array.isArray(body)) {
    const parts = body.map((item, index) => compileBody(item, omitsNull, [...path, index], columns));
    return {
      json: (row) => `[${parts.map((part) => part.json(row)).join(',')}]`,
      value: (row) => parts.map((part) => part.value(row)),
    };
  }
  if (typeof body !== 'object' || body === null) return constant(body);
  const members = Object.entries(body).map(
    ([name, value]) => [JSON.stringify(name), compileBody(value, omitsNull, [...path, name], columns), name] as const,
  );
  return {
    json(row) {
      let text = '';
      for (const [name, part] of members) {
        const json = part.json(row);
        if (!(omitsNull && json === 'null')) text += `${text === '' ? '' : ','}${name}:${json}`;
      }
      return `{${text}}`;
    },
    value: (row) =>
      Object.fromEntries(
        members.map(([, part, name]) => [name, part.value(row)]).filter(([, value]) => !(omitsNull && value === null)),
      ),
  };
}
