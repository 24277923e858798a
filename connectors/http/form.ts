import {
  BodyTemplate,
  type OptionProblem,
  type OptionValues,
  type OutgoingRecord,
  type Secret,
  type StreamColumns,
  TemplateFailure,
  TemplateRow,
  TextTemplate,
  unknownColumns,
} from '../../src/sdk/index.js';
import { targetOf } from './exchange.js';
import type { HttpShape } from './options.js';
import { envelopeBytes, recordText } from './signed-batch.js';
import { valuesAt } from './values-at.js';

export type HttpOptions = OptionValues<HttpShape>;
export type ResponseRules = NonNullable<HttpOptions['response']>;
export type Op = OutgoingRecord['op'];
type Variant = Exclude<NonNullable<HttpOptions['insert']>, 'skip'>;
type Batch = NonNullable<HttpOptions['batch']>;
/** The options of one kind of change: its own, and for the rest those of all. */
type Merged = HttpOptions & Partial<Variant>;

/** The requests of one kind of change. */
export interface Form {
  readonly op: Op;
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  readonly format: 'json' | 'form' | 'ndjson' | 'text';
  /** Whether the body is cdsync's own format. */
  readonly isOwn: boolean;
  readonly batch: { readonly records: number; readonly bytes: number; readonly body: BodyTemplate | undefined };
  readonly response: ResponseRules;
  /** Whether `accepted` is about this kind of change alone: then it has all statuses, also of deletes. */
  readonly namesAccepted: boolean;
  /** Whether the URL may differ from record to record. */
  readonly hasUrlTemplate: boolean;
  /** The columns that its templates name. */
  readonly names: ReadonlySet<string>;
  /** @throws {TemplateFailure} */
  render(record: OutgoingRecord): Rendered;
  columns(stream: StreamColumns): OptionProblem[];
}

/** What one record becomes. */
export interface Rendered {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  /** What results are compared with. */
  readonly equals: string;
  /** Every text that was made of the record's values: none may be in a message. Few records need them. */
  values(): readonly unknown[];
}

const contentTypes: Readonly<Record<Form['format'], string>> = {
  json: 'application/json',
  form: 'application/x-www-form-urlencoded',
  ndjson: 'application/x-ndjson',
  text: 'text/plain; charset=utf-8',
};

/** The forms for each kind of change; `skip` sends nothing. */
export function compileForms(options: HttpOptions): Record<Op, Form | 'skip'> {
  const compiled = (op: Op) => (options[op] === 'skip' ? ('skip' as const) : compileForm(op, options, options[op]));
  return { insert: compiled('insert'), update: compiled('update'), delete: compiled('delete') };
}

/** The columns that requests are made of; undefined: all. */
export function usedColumns(options: HttpOptions): string[] | undefined {
  const forms = Object.values(compileForms(options)).filter((form): form is Form => form !== 'skip');
  return forms.some(({ isOwn }) => isOwn) ? undefined : forms.flatMap(({ names }) => [...names]);
}

function compileForm(op: Op, options: HttpOptions, variant: Exclude<HttpOptions['insert'], 'skip'>): Form {
  const changed: Partial<Variant> = variant ?? {};
  const merged: Merged = { ...options, ...definedOf(changed), url: changed.url ?? options.url };
  const parts = compileParts(options, changed, merged);
  const batch = compileBatch(merged, parts.isOwn);
  /** Where the file has the option that counts: at this kind of change, or for all. */
  const pathOf = (option: keyof Variant, ...rest: string[]) =>
    changed[option] === undefined ? [option, ...rest] : [op, option, ...rest];
  return {
    ...{ op, format: parts.format, isOwn: parts.isOwn, batch },
    method: (merged.method ?? 'post').toUpperCase() as Form['method'],
    response: responseOf(options, changed),
    namesAccepted: changed.response?.accepted !== undefined,
    hasUrlTemplate: parts.url.columns.length > 0,
    names: parts.columns,
    render: (record) => rendered(record, parts),
    columns: (stream) => [
      ...unknownColumns(parts.url, stream, pathOf('url')),
      ...parts.headers.flatMap(([name, value]) => unknownColumns(value, stream, pathOf('headers', name))),
      ...(parts.body === undefined ? [] : unknownColumns(parts.body, stream, pathOf('body'))),
      ...(batch.body === undefined
        ? []
        : unknownColumns(batch.body, { name: stream.name, columns: ['records'] }, pathOf('batch', 'body'))),
      ...unknownColumns(parts.equals, stream, pathOf('response', 'results', 'equals')),
    ],
  };
}

/** The templates of a request, and the checks of its rendered texts. */
function compileParts(options: HttpOptions, changed: Partial<Variant>, merged: Merged): Parts {
  const isWithoutBody = merged.method === 'get' || merged.body === 'none';
  const isOwn = merged.body === undefined && merged.method !== 'get' && merged.method !== 'delete';
  // Of a forgotten person there is only the key: a DELETE does not send the body of upserts.
  const dropsBody = changed.method === 'delete' && changed.body === undefined && merged.batch === undefined;
  const written = merged.url.reveal();
  const url = new TextTemplate(written, { isUrl: true });
  const headers = Object.entries(merged.headers ?? {}).map(
    ([name, value]) => [name.toLowerCase(), new TextTemplate((value as Secret).reveal())] as const,
  );
  const body =
    merged.body === undefined || isWithoutBody || dropsBody
      ? undefined
      : new BodyTemplate(merged.body, { omitsNull: options.omitNull });
  const { results } = responseOf(options, changed);
  const equals = new BodyTemplate(results?.equals ?? '{{ _key }}');
  // Members of the body: another body has others.
  const inherited = changed.body === undefined && !dropsBody ? options.required : undefined;
  const sent = TemplateRow.columnsOf([
    url,
    ...headers.map(([, value]) => value),
    ...(body === undefined ? [] : [body]),
  ]);
  return {
    ...{ url, headers, body, equals, isOwn, sent },
    format: merged.format ?? 'json',
    filled: filledSegments(written),
    besideText: filledBesideText(written),
    required: changed.required ?? inherited ?? [],
    isCompared: results?.key !== undefined && results.equals !== undefined,
    columns: new Set([...sent, ...TemplateRow.columnsOf([equals])]),
  };
}

function compileBatch(merged: Merged, isOwn: boolean): Form['batch'] {
  const batch: Partial<Batch> = definedOf(merged.batch ?? {});
  const records = batch.records ?? (isOwn || merged.batch !== undefined ? 100 : 1);
  // More than a limit allows in its whole span could never be sent.
  const limits = [merged.rate ?? []].flat().map((limit) => limit.records ?? Number.POSITIVE_INFINITY);
  return {
    records: Math.min(records, ...limits),
    bytes: batch.bytes ?? (isOwn ? 262_144 : 16_000_000),
    body: batch.body === undefined ? undefined : new BodyTemplate(batch.body),
  };
}

function responseOf(options: HttpOptions, changed: Partial<Variant>): ResponseRules {
  return { ...options.response, ...definedOf(changed.response ?? {}) } as ResponseRules;
}

function definedOf<T extends object>(part: T): Partial<T> {
  return Object.fromEntries(Object.entries(part).filter(([, value]) => value !== undefined)) as Partial<T>;
}

interface Parts {
  readonly url: TextTemplate;
  readonly filled: readonly boolean[];
  readonly besideText: readonly TextTemplate[];
  readonly headers: readonly (readonly [string, TextTemplate])[];
  readonly body: BodyTemplate | undefined;
  readonly equals: BodyTemplate;
  readonly format: Form['format'];
  readonly isOwn: boolean;
  readonly required: readonly string[];
  readonly isCompared: boolean;
  /** The columns that requests are made of, and all that templates name. */
  readonly sent: ReadonlySet<string>;
  readonly columns: ReadonlySet<string>;
}

function rendered(record: OutgoingRecord, parts: Parts): Rendered {
  const row = TemplateRow.of(record, parts.columns);
  if (record.isErasure)
    for (const name of parts.sent)
      if (row.json(name) === 'null') throw new TemplateFailure(`it cannot be erased there: column "${name}" is gone`);
  const url = urlOf(parts.url.render(row), parts.filled);
  if (parts.besideText.some((placeholders) => placeholders.render(row) === ''))
    throw new TemplateFailure('the placeholders of a segment of the path are empty');
  const headers: Record<string, string> = {};
  for (const [name, template] of parts.headers) {
    const value = template.render(row);
    if (/[\r\n\0]/.test(value) || /[^\t\x20-\x7e\x80-\xff]/.test(value))
      throw new TemplateFailure(`the header "${name}" would have a line end, or a character that HTTP does not allow`);
    headers[name] = value;
  }
  const content = parts.required.length === 0 ? undefined : parts.body?.value(row);
  for (const name of parts.required) {
    const members = memberValues(content, name);
    if (members.length === 0 || members.some((member) => member === null || member === ''))
      throw new TemplateFailure(`"${name}" is required, and is empty`);
  }
  const compared = parts.equals.value(row);
  if (parts.isCompared && (compared === null || compared === ''))
    throw new TemplateFailure('the value that answers name the record by is empty');
  const body = parts.isOwn
    ? recordText(record)
    : parts.body === undefined
      ? ''
      : bodyText(parts.body, row, parts.format);
  // Not of the same row: its values would stay until the response.
  const values = () => [
    parts.body?.value(TemplateRow.of(record, parts.columns)),
    ...[url, ...Object.values(headers), compared],
  ];
  return { url, headers, body, equals: String(compared), values };
}

/** A member of a body by its name or path; of a body that is a list, of its entries. */
function memberValues(content: unknown, name: string): unknown[] {
  return [content].flat().flatMap((entry) => {
    const isMember = typeof entry === 'object' && entry !== null && Object.hasOwn(entry, name);
    return isMember ? [(entry as Record<string, unknown>)[name]] : valuesAt(entry, name);
  });
}

const origin = /^https?:\/\/[^/?#]*/;

const placeholder = /\{\{[\s\S]*?\}\}|\{%[\s\S]*?%\}/g;

/** The segments of a URL's path, with `\0` for placeholders. */
function markedSegments(text: string): string[] {
  const marked = text.replace(origin, '').replace(placeholder, '\0');
  return (marked.split(/[?#]/, 1)[0] ?? '').split('/');
}

/** Which segments of a URL's path have a placeholder. */
function filledSegments(text: string): boolean[] {
  return markedSegments(text).map((segment) => segment.includes('\0'));
}

/**
 * The placeholders of segments that have text beside them. Without a value, `users/{{ id }}.json` may be the whole list, too.
 * Tags may leave a value out on purpose.
 */
function filledBesideText(text: string): TextTemplate[] {
  if (text.includes('{%')) return [];
  const all = text.match(placeholder) ?? [];
  let at = 0;
  return markedSegments(text).flatMap((segment) => {
    const count = segment.split('\0').length - 1;
    const placeholders = all.slice(at, at + count).join('');
    at += count;
    return count > 0 && segment.length > count ? [new TextTemplate(placeholders, { isUrl: true })] : [];
  });
}

/** A URL whose segments are all there: an empty one would mean another resource, such as the whole list. */
function urlOf(url: string, filled: readonly boolean[]): string {
  if (!filled.includes(true)) return url;
  // As parsers of URLs read it: without tabs and line ends, and with \ as /.
  const path =
    url
      .replace(/[\t\r\n]/g, '')
      .replace(origin, '')
      .split(/[?#]/, 1)[0] ?? '';
  const segments = path.replaceAll('\\', '/').split('/');
  const isShifted = segments.length !== filled.length;
  for (const [at, segment] of segments.entries()) {
    if (/^(?:\.|%2e){1,2}$/i.test(segment)) throw new TemplateFailure('a segment of the path would be . or ..');
    if (segment === '' && at > 0 && (isShifted || filled[at]))
      throw new TemplateFailure('a segment of the path would be empty');
  }
  targetOf(url);
  return url;
}

function bodyText(body: BodyTemplate, row: TemplateRow, format: Form['format']): string {
  if (format === 'json') return body.json(row);
  if (format === 'form') return formText(body.value(row));
  if (format === 'text') {
    const value = body.value(row);
    return value === null ? '' : typeof value === 'string' ? value : body.json(row);
  }
  return body
    .lines(row)
    .map((line) => `${line}\n`)
    .join('');
}

/** Form fields: members of maps as `a[b]`, items of lists as fields of one name, NULL as an empty field. */
function formText(value: unknown): string {
  const fields: [string, string][] = [];
  const add = (name: string, part: unknown): void => {
    if (Array.isArray(part)) for (const item of part) add(name, item);
    else if (typeof part === 'object' && part !== null && !('compare' in part))
      for (const [key, member] of Object.entries(part)) add(name === '' ? key : `${name}[${key}]`, member);
    else fields.push([name, part === null || part === undefined ? '' : String(part)]);
  };
  add('', value);
  return new URLSearchParams(fields).toString();
}

/** The body of a request for several records. */
export function batchBody(form: Form, bodies: readonly string[], stream: string): string {
  if (form.batch.records === 1 && form.batch.body === undefined) return bodies.join('');
  if (form.format === 'ndjson' || form.format === 'text') return bodies.join('');
  const list = `[${bodies.join(',')}]`;
  if (form.batch.body === undefined) return form.format === 'form' ? bodies.join('&') : list;
  return form.batch.body.json(
    new TemplateRow(
      new Map([
        ['records', list],
        ['_stream', JSON.stringify(stream)],
      ]),
    ),
  );
}

/** The bytes that a request has besides its records. */
export function envelopeBytesOf(form: Form, stream: string): number {
  return form.isOwn ? envelopeBytes : Buffer.byteLength(batchBody(form, [], stream)) + 1;
}

export function contentTypeOf({ format }: Form): string {
  return contentTypes[format];
}
