import { countOf, errorMembers, namesNextPage, statedError } from '../../api/paging.js';
import { jsonBytes } from './bytes.js';
import { skipSpace, skipString, skipValue } from './json-bytes.js';
import { MalformedPageError } from './scanned-page.js';

export { MalformedPageError } from './scanned-page.js';

const {
  backslash,
  carriageReturn,
  closeBrace,
  closeBracket,
  colon,
  comma,
  lineFeed,
  openBrace,
  openBracket,
  quote,
  space,
  tab,
} = jsonBytes;

/** Where the records of a page are, and the token of the next page (specification, section 2.5). */
export interface PageCut {
  /** First byte inside the brackets of `data`. */
  readonly start: number;
  /** Position after the last such byte. */
  readonly end: number;
  /** Null at the end of the list: the token is then absent, empty or null. */
  readonly nextToken: string | null;
  /** Null if the service gave none. */
  readonly total: number | null;
  /** The `scale` of the buckets in a history, as the service states it. */
  readonly scale?: string;
}

const malformed = 'complete JSON';

function skipSpaceBack(bytes: Uint8Array, at: number): number {
  let position = at;
  for (;;) {
    const byte = bytes[position];
    if (byte !== space && byte !== lineFeed && byte !== carriageReturn && byte !== tab) return position;
    position -= 1;
  }
}

/** Position of the opening quote of the string that ends at `at`; negative if no string without escapes ends there. */
function plainStringBack(bytes: Uint8Array, at: number): number {
  if (bytes[at] !== quote) return -1;
  let position = at - 1;
  while (position >= 0 && bytes[position] !== quote) {
    if (bytes[position] === backslash) return -1;
    position -= 1;
  }
  return position;
}

function scalarBack(bytes: Uint8Array, at: number): number {
  if (bytes[at] === quote) return plainStringBack(bytes, at);
  let position = at;
  while (position > 0 && /[\w.+-]/.test(String.fromCharCode(bytes[position] as number))) position -= 1;
  return position === at ? -1 : position + 1;
}

interface Tail {
  end: number;
  members: Map<string, unknown>;
}

/** Reads the members after `data`, backwards from the end of the body; undefined if anything is unusual. */
function readTail(body: Buffer): Tail | undefined {
  const members = new Map<string, unknown>();
  let at = skipSpaceBack(body, body.length - 1);
  if (body[at] !== closeBrace) return undefined;
  at = skipSpaceBack(body, at - 1);
  while (body[at] !== closeBracket) {
    const valueFrom = scalarBack(body, at);
    if (valueFrom < 0) return undefined;
    const colonAt = skipSpaceBack(body, valueFrom - 1);
    const nameEnd = skipSpaceBack(body, colonAt - 1);
    const nameFrom = plainStringBack(body, nameEnd);
    const commaAt = skipSpaceBack(body, nameFrom - 1);
    if (body[colonAt] !== colon || nameFrom < 0 || body[commaAt] !== comma) return undefined;
    try {
      const name = JSON.parse(body.toString('utf8', nameFrom, nameEnd + 1)) as string;
      if (members.has(name) || name === 'data') return undefined;
      members.set(name, JSON.parse(body.toString('utf8', valueFrom, at + 1)));
    } catch {
      return undefined;
    }
    at = skipSpaceBack(body, commaAt - 1);
  }
  return { end: at, members };
}

/** The members of the envelope before `data`, and the position of the first record. */
interface Head {
  start: number;
  members: Map<string, unknown>;
}

function memberAt(body: Buffer, at: number) {
  const nameEnd = body[at] === quote ? skipString(body, at + 1) : -1;
  const colonAt = nameEnd < 0 ? -1 : skipSpace(body, nameEnd);
  if (colonAt < 0 || body[colonAt] !== colon) throw new MalformedPageError(malformed);
  return { name: JSON.parse(body.toString('utf8', at, nameEnd)) as string, from: skipSpace(body, colonAt + 1) };
}

function skipMember(body: Buffer, from: number): number {
  const { end } = skipValue(body, from);
  if (end < 0) throw new MalformedPageError(malformed);
  return end;
}

/** Reads the members before `data`; undefined if `data` is missing or not a list. */
function readHead(body: Buffer): Head | undefined {
  const members = new Map<string, unknown>();
  let at = skipSpace(body, 0);
  if (body[at] !== openBrace) return undefined;
  at = skipSpace(body, at + 1);
  while (body[at] === quote) {
    const { name, from } = memberAt(body, at);
    if (name === 'data') return body[from] === openBracket ? { start: from + 1, members } : undefined;
    const end = skipMember(body, from);
    // Which of two counts is not for a quick look to say.
    if (members.has(name)) return undefined;
    if (readMembers.has(name)) members.set(name, scalar(body, from, end));
    at = skipSpace(body, end);
    if (body[at] !== comma) return undefined;
    at = skipSpace(body, at + 1);
  }
  return undefined;
}

/** Members of the envelope that are read, wherever they are. */
const readMembers: ReadonlySet<string> = new Set(['next_token', 'total', 'scale', ...errorMembers]);

function checkedCut(
  { start, end }: { readonly start: number; readonly end: number },
  members: ReadonlyMap<string, unknown>,
  hasData = true,
): PageCut {
  const error = statedError((name) => members.get(name), hasData);
  if (error !== undefined) throw new MalformedPageError(`a page, not ${error}`);
  const token = members.get('next_token');
  if (token !== undefined && token !== null && typeof token !== 'string') {
    throw new MalformedPageError('a string or null as next_token');
  }
  const scale = members.get('scale');
  return {
    start,
    end,
    nextToken: token || null,
    total: countOf(members.get('total')),
    ...(typeof scale === 'string' && scale !== '' ? { scale } : {}),
  };
}

/** Reads the whole envelope from its start, with any members in any order. */
export function cutPageExactly(body: Buffer): PageCut {
  let at = skipSpace(body, 0);
  if (body[at] !== openBrace) throw new MalformedPageError('an object with a list "data"');
  const members = new Map<string, unknown>();
  let data: { start: number; end: number } | undefined;
  let [isOther, hasOtherList] = [false, false];
  /** A member that says in its own way that another page follows. */
  let following: string | undefined;
  at = skipSpace(body, at + 1);
  while (body[at] !== closeBrace) {
    const { name, from } = memberAt(body, at);
    const end = skipMember(body, from);
    const isList = body[from] === openBracket;
    if (name === 'data') {
      // Of two lists, one would be left out.
      if (data !== undefined) throw new MalformedPageError('one list "data", not several');
      data = isList ? { start: from + 1, end: end - 1 } : undefined;
      isOther = !isList && scalar(body, from, end) !== null;
    } else if (readMembers.has(name)) {
      const value = scalar(body, from, end);
      if (name === 'next_token' && members.has(name) && members.get(name) !== value)
        throw new MalformedPageError('one next_token, not several');
      members.set(name, value);
    } else {
      hasOtherList ||= isList;
      if (namesNextPage(name, () => smallValue(body, from, end))) following ??= name;
    }
    at = skipSpace(body, end);
    if (body[at] === closeBrace) break;
    if (body[at] !== comma) throw new MalformedPageError(malformed);
    at = skipSpace(body, at + 1);
    if (body[at] !== quote) throw new MalformedPageError(malformed);
  }
  if (skipSpace(body, at + 1) !== body.length) throw new MalformedPageError('nothing after the object');
  // Without `data`, or with null, the page is empty, unless its records are in another list: then its name may be garbled.
  if (data === undefined && (isOther || hasOtherList)) throw new MalformedPageError('an object with a list "data"');
  if (following !== undefined && !members.get('next_token'))
    throw new MalformedPageError(`a next_token, since "${following}" says that another page follows`);
  return checkedCut(data ?? { start: 0, end: 0 }, members, data !== undefined);
}

/** The value of a member that is no list of records; undefined if it is too large to be about paging. */
function smallValue(body: Buffer, from: number, end: number): unknown {
  return end - from > maxPagingBytes ? undefined : JSON.parse(body.toString('utf8', from, end));
}

const maxPagingBytes = 4096;

/** The value of a member; of one that is nested, only whether it is empty. */
function scalar(body: Buffer, from: number, end: number): unknown {
  const nested = body[from] === openBrace || body[from] === openBracket;
  if (nested) return skipSpace(body, from + 1) === end - 1 ? {} : { nested };
  return JSON.parse(body.toString('utf8', from, end));
}

/**
 * Finds the next token from both ends of the body, without reading the records. The scanner must confirm that the records end
 * at the place found, and the total may be missed. {@link cutPageExactly} is exact in both, since it reads the whole body.
 * @throws {MalformedPageError} if the body is not a page
 */
export function cutPage(body: Buffer): PageCut {
  const head = readHead(body);
  const tail = head === undefined ? undefined : readTail(body);
  if (head === undefined || tail === undefined || tail.end < head.start) return cutPageExactly(body);
  const members = new Map([...head.members, ...tail.members]);
  if (head.members.has('next_token') && tail.members.has('next_token')) return cutPageExactly(body);
  // Without a token, the end found may belong to another list after the records, with the token before that list. An empty one
  // counts only if no other member says that a page follows.
  return members.get('next_token') ? checkedCut({ start: head.start, end: tail.end }, members) : cutPageExactly(body);
}
