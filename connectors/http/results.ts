import type { HttpResponse } from '../../src/sdk/index.js';
import type { ResponseRules } from './form.js';
import { valuesAt } from './values-at.js';

/** One record's part of a response. */
interface Entry {
  /** Which record of the request, from 0. */
  readonly index: number;
  readonly value: unknown;
}

/** The response names records that were not sent, or too many or too few of them. */
export class ResultsMisfit extends Error {}

type ResultRules = NonNullable<ResponseRules['results']>;

function listOf(body: unknown, { path, entry }: ResultRules): unknown[] | undefined {
  const lists = (typeof path === 'string' ? [path] : path).flatMap((part) => valuesAt(body, part));
  const present = lists.filter((list) => list !== undefined && list !== null);
  if (present.length === 0) return undefined;
  const entries = present.flatMap((list): unknown[] =>
    Array.isArray(list) ? list : typeof list === 'object' ? Object.values(list) : [list],
  );
  return entry === undefined ? entries : entries.map((value) => valuesAt(value, entry)[0]);
}

/** The record that each entry is about; undefined if the response has no results. @throws {ResultsMisfit} */
export function entriesIn(body: unknown, rules: ResultRules, sent: readonly string[]): Entry[] | undefined {
  const list = listOf(body, rules);
  if (list === undefined) return undefined;
  const { index, key } = rules;
  if (index !== undefined) return list.map((value) => ({ index: indexOf(value, index, sent.length), value }));
  if (key !== undefined) {
    const find = finder(sent);
    return list.flatMap((value) => {
      const names = valuesAt(value, key).flatMap((named) => (Array.isArray(named) ? named : [named]));
      if (names.length === 0) throw new ResultsMisfit('an entry of the results names no record');
      return names.map((named) => ({ index: find(String(named)), value }));
    });
  }
  if (list.length !== sent.length)
    throw new ResultsMisfit('the answer has another number of results than records were sent');
  return list.map((value, at) => ({ index: at, value }));
}

function indexOf(value: unknown, path: string, count: number): number {
  const [first] = valuesAt(value, path);
  const index = typeof first === 'string' && /^\d+$/.test(first) ? Number(first) : first;
  if (typeof index === 'number' && Number.isInteger(index) && index >= 0 && index < count) return index;
  throw new ResultsMisfit('an entry of the results names a record that was not sent');
}

function finder(sent: readonly string[]): (name: string) => number {
  const exact = new Map(sent.map((name, index) => [name, index]));
  const folded = new Map<string, number>();
  for (const [index, name] of sent.entries()) {
    const small = name.toLowerCase();
    folded.set(small, folded.has(small) ? -1 : index);
  }
  return (name) => {
    const index = exact.get(name) ?? folded.get(name.toLowerCase());
    if (index === undefined || index < 0)
      throw new ResultsMisfit('an entry of the results names a record that was not sent');
    return index;
  };
}

/** A page for people, such as that of a login. Some APIs say `ok` as text/html. */
export function isPage({ headers, body }: Pick<HttpResponse, 'headers' | 'body'>): boolean {
  const text = body.replace(/^\s*(?:(?:<!--[\s\S]*?-->|<\?xml[^>]*>)\s*)*/, '');
  return (
    /^<(?:!doctype html|html|head|body)\b/i.test(text) ||
    (/^text\/html/i.test(String(headers['content-type'])) && text.startsWith('<'))
  );
}
