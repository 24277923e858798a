import { CdsyncError, type OutgoingRecord } from '../../src/sdk/index.js';

const token = /"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/g;

/** The members of a JSON object, each value as its JSON text: no digit of a number is lost. */
export function membersOf(json: string): ReadonlyMap<string, string> {
  const members = new Map<string, string>();
  let depth = 0;
  let name: string | undefined;
  let from = -1;
  for (const { 0: found, index } of json.matchAll(token)) {
    if (depth === 1 && name !== undefined && from >= 0 && (found === ',' || found === '}')) {
      members.set(name, json.slice(from, index).trim());
      [name, from] = [undefined, -1];
    } else if (depth === 1 && name === undefined && found.startsWith('"')) name = JSON.parse(found) as string;
    else if (depth === 1 && from < 0 && found === ':') from = index + 1;
    if (found === '{' || found === '[') depth += 1;
    else if (found === '}' || found === ']') depth -= 1;
  }
  return members;
}

const placeholder = /\{\{\s*([^{}]*?)\s*\}\}/g;
const whole = /^\{\{\s*([^{}]+?)\s*\}\}$/;

/** The value of a record for a placeholder's name, as JSON text. */
type Values = (name: string) => string;

/** Placeholders that describe the change, besides its columns. */
const own: Readonly<Record<string, (record: OutgoingRecord) => string>> = {
  _op: ({ op }) => op,
  _key: ({ key }) => key,
  _id: ({ id }) => id,
  _stream: ({ stream }) => stream,
  _synced_at: ({ syncedAt }) => syncedAt,
};

function valuesOf(record: OutgoingRecord): Values {
  const members = membersOf(record.json);
  return (name) => {
    const known = Object.hasOwn(own, name) ? own[name] : undefined;
    if (known !== undefined) return JSON.stringify(known(record));
    const value = members.get(name);
    if (value !== undefined) return value;
    throw new CdsyncError(`\`body\` names "${name}", and stream "${record.stream}" has no such column`, {
      code: 'event_body',
      stream: record.stream,
      hint: 'a column that `columns` drops for this destination cannot be used; a renamed one has its new name',
    });
  };
}

/** A value inside a longer text: strings without quotes, null as nothing, all else as JSON. */
function inText(json: string): string {
  if (json === 'null') return '';
  return json.startsWith('"') ? (JSON.parse(json) as string) : json;
}

function filled(template: unknown, values: Values): string {
  if (typeof template === 'string') {
    const [, name] = whole.exec(template) ?? [];
    if (name !== undefined) return values(name);
    return JSON.stringify(template.replace(placeholder, (_, each: string) => inText(values(each))));
  }
  if (Array.isArray(template)) return `[${template.map((item) => filled(item, values)).join(',')}]`;
  if (typeof template !== 'object' || template === null) return JSON.stringify(template);
  const members = Object.entries(template).map(([name, value]) => `${JSON.stringify(name)}:${filled(value, values)}`);
  return `{${members.join(',')}}`;
}

/**
 * The event that a record becomes, as JSON text.
 * @throws {CdsyncError} `event_body`
 */
export function eventOf(record: OutgoingRecord, template: Readonly<Record<string, unknown>> | undefined): string {
  return template === undefined ? record.json : filled(template, valuesOf(record));
}

/** The faults of a template, each with its path in it. */
export function templateFaults(
  template: unknown,
  path: readonly (string | number)[] = [],
): { path: readonly (string | number)[]; message: string }[] {
  if (typeof template === 'string') {
    const isEmpty = [...template.matchAll(placeholder)].some(([, name]) => name === '');
    return isEmpty ? [{ path, message: 'a placeholder must name a column: {{column}}' }] : [];
  }
  if (typeof template !== 'object' || template === null) return [];
  return Object.entries(template).flatMap(([name, value]) => {
    const here = [...path, Array.isArray(template) ? Number(name) : name];
    const inKey = !Array.isArray(template) && /\{\{.*\}\}/.test(name);
    const fault = inKey ? [{ path: here, message: 'placeholders do not work in keys' }] : [];
    return [...fault, ...templateFaults(value, here)];
  });
}
