import type { Document, ParsedNode, Scalar, YAMLError } from 'yaml';
import { Composer, isScalar, LineCounter, Parser, visit } from './yaml.js';

/** Keys whose values are SQL. */
const ofSql: ReadonlySet<unknown> = new Set(['query', 'sql']);

function isPlain(node: unknown): node is Scalar {
  return isScalar(node) && node.type === 'PLAIN' && node.range != null;
}

/**
 * Joins SQL again that is in braces without quotes: `{ query: select id, ltv from members }`. YAML ends a plain text at a comma
 * there, and takes `ltv from members` for a key. No key with SQL is followed by one without a value, so nothing else is meant.
 * @param text the source of the document
 */
function joinFlowQueries(document: Document, text: string): void {
  visit(document, {
    Map: (_, map) => {
      if (map.flow !== true) return;
      for (const [at, { key, value }] of map.items.entries()) {
        if (!isScalar(key) || !ofSql.has(key.value) || !isPlain(value)) continue;
        const rest = map.items.slice(at + 1).findIndex(({ key, value }) => value !== null || !isPlain(key));
        const loose = map.items.slice(at + 1, rest < 0 ? undefined : at + 1 + rest);
        const last = loose.at(-1)?.key as Scalar | undefined;
        if (last?.range == null || value.range == null) continue;
        const [from] = value.range;
        const [, end, after] = last.range;
        value.value = text.slice(from, end).replace(/(?<!\s)\s*\n\s*/g, ' ');
        value.source = value.value as string;
        value.range = [from, end, after];
        map.items.splice(at + 1, loose.length);
      }
    },
  });
}

/**
 * Where the SQL without quotes begins that causes an error in a map in braces; undefined if there is none.
 * @param offset of the error
 */
function brokenQuery(document: Document, offset: number): number | undefined {
  let textStart: number | undefined;
  visit(document, {
    Map: (_, map) => {
      const [from = 0, to = 0] = map.range ?? [];
      if (map.flow !== true || offset < from || offset > to) return;
      const before = map.items.findLast(
        ({ key }) => isScalar(key) && (key.range?.[0] ?? offset) < offset && ofSql.has(key.value),
      );
      // The innermost map is visited last.
      textStart = before !== undefined && isPlain(before.value) ? before.value.range?.[0] : undefined;
    },
  });
  return textStart;
}

/** A place in a text; line and column begin at 1. */
export interface Position {
  readonly line: number;
  readonly column: number;
}

/** A reason why a text is no YAML. */
interface SyntaxFault {
  readonly offset: number;
  readonly message: string;
}

/** One parsed YAML document, or the reasons why there is none. */
export interface YamlDocument {
  readonly document: Document.Parsed<ParsedNode> | undefined;
  readonly faults: readonly SyntaxFault[];
  position(offset: number): Position;
}

const maxLength = 1 << 20;
const maxDepth = 64;

// Not the parser's messages, because these quote the text, which may be a secret.
const words: Partial<Record<YAMLError['code'], string>> = {
  ALIAS_PROPS: 'an alias (*name) takes no anchor and no tag',
  BAD_ALIAS: 'this is no name for an anchor or an alias',
  BAD_COLLECTION_TYPE: 'the tag does not fit its value',
  BAD_DIRECTIVE: 'this % directive is not known',
  BAD_DQ_ESCAPE: 'unknown escape in a "…" text; write \\\\ for a backslash, or use \'…\'',
  BAD_INDENT: 'the indentation does not fit, or a bracket is not closed',
  BAD_SCALAR_START: 'text may not begin with @ or `; put it in quotes',
  BLOCK_AS_IMPLICIT_KEY: 'a second key on one line; put the value in quotes if it contains ": "',
  BLOCK_IN_FLOW: 'a list with "- " or an indented map cannot be inside […] or {…}',
  KEY_OVER_1024_CHARS: 'a key is longer than 1024 characters',
  MISSING_CHAR: 'something is missing here: ":" after a key, a comma, or a closing quote or bracket',
  MULTILINE_IMPLICIT_KEY: 'a key must be on one line and be followed by ":"',
  MULTIPLE_ANCHORS: 'more than one anchor',
  MULTIPLE_DOCS: 'a second document begins here; a configuration is one document',
  MULTIPLE_TAGS: 'more than one tag',
  NON_STRING_KEY: 'a key must be text',
  TAB_AS_INDENT: 'a tab indents here; use spaces',
  TAG_RESOLVE_FAILED: 'tags such as !name are not read here',
  UNEXPECTED_TOKEN: 'this does not belong here; check brackets, quotes and indentation',
};

/** Characters that YAML takes for text, by their names. Web pages and word processors write them for plain ones. */
const lookalikes: Readonly<Record<string, string>> = {
  '\u00a0': 'a no-break space',
  '\u202f': 'a narrow no-break space',
  '\u3000': 'a wide space',
  '\u200b': 'a space without width',
  '\ufeff': 'a byte order mark',
};
const oddSpace = /[\u00a0\u1680\u2000-\u200b\u202f\u205f\u3000\ufeff]/;
const oddQuote = /[\u2018-\u201f\u00ab\u00bb]/;

function lookalikeFault(character: string): string {
  const code = (character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0');
  if (oddQuote.test(character)) return `a printed quotation mark (U+${code}); write " or '`;
  return `${lookalikes[character] ?? 'an unusual space'} (U+${code}); write a plain one`;
}

/** The first text without quotes that begins with such a character: most often a space that should indent its line. */
function misleadingStart(document: Document): SyntaxFault | undefined {
  let fault: SyntaxFault | undefined;
  visit(document, {
    Scalar: (_, node) => {
      const [offset = 0] = node.range ?? [];
      const [first = ''] = node.source ?? '';
      if (!isPlain(node) || !(oddSpace.test(first) || oddQuote.test(first)) || offset > (fault?.offset ?? offset))
        return;
      fault = { offset, message: `${lookalikeFault(first)}, or put the text in quotes` };
    },
  });
  return fault;
}

/** The first value with a tag of YAML's own, such as `!!str`. The parser refuses the others itself. */
function standardTag(document: Document): SyntaxFault | undefined {
  let offset: number | undefined;
  visit(document, {
    Node: (_, { tag, range }) => {
      if (tag === undefined) return;
      offset = range?.[0] ?? 0;
      return visit.BREAK;
    },
  });
  return offset === undefined
    ? undefined
    : { offset, message: 'tags such as !!str are not read here; quotes make text' };
}

const unquotedSql = 'inside { }, put the whole SQL in double quotes: "select …"';
const unquotedVariable = `inside […] and {…} a variable needs quotes: "\${NAME}"`;

/**
 * Drops the errors that only follow from another one: those after an unexpected token, one for every later token, and those of a line
 * whose indentation is wrong.
 */
function consequential(all: readonly YAMLError[], lineOf: (offset: number) => number): readonly YAMLError[] {
  const first = all.findIndex(({ code }) => code === 'UNEXPECTED_TOKEN');
  const errors = first < 0 ? all : all.slice(0, first + 1);
  const indents = errors.filter(({ code }) => code === 'BAD_INDENT' || code === 'TAB_AS_INDENT');
  const crooked = new Set(indents.map(({ pos: [offset] }) => lineOf(offset)));
  return errors.filter((error) => indents.includes(error) || !crooked.has(lineOf(error.pos[0])));
}

function syntaxFault(
  { code, message, pos: [offset] }: YAMLError,
  text: string,
  document: Document.Parsed,
): SyntaxFault {
  if (code === 'UNEXPECTED_TOKEN' && text.startsWith('$\u007b', offset - 1) && !oddQuote.test(text[offset - 2] ?? ''))
    return { offset, message: unquotedVariable };
  const query = brokenQuery(document, offset);
  if (query !== undefined) return { offset: query, message: unquotedSql };
  const quote = code === 'MISSING_CHAR' && /^Missing closing .*quote/.test(message) ? lastQuote(document, offset) : -1;
  if (quote >= 0) return { offset: quote, message: 'this quote is not closed' };
  const start = text.lastIndexOf('\n', offset - 1) + 1;
  const [line = ''] = text.slice(start).split('\n', 1);
  const odd = oddSpace.exec(line) ?? oddQuote.exec(line);
  if (odd !== null) return { offset: start + odd.index, message: lookalikeFault(odd[0]) };
  const bare = /\{\{|\{%/.exec(line.replace(/"[^"]*"|'[^']*'/g, (quoted) => '.'.repeat(quoted.length)));
  if (bare !== null)
    return { offset: start + bare.index, message: 'text with a placeholder needs quotes: "{{ column }}"' };
  if (code === 'MISSING_CHAR') {
    const [, key] = /^(\s*(?:- )?[\w-]+):[^\s/]/.exec(line) ?? [];
    if (key !== undefined) return { offset: start + key.length, message: 'a space is missing after ":"' };
    if (/^\s*(?:- )?[\w-]+:(?:\s|$)/.test(line) && text.slice(start, offset).trim() === '')
      return { offset, message: words.BAD_INDENT as string };
  }
  return { offset, message: words[code] ?? 'this is not valid YAML' };
}

/** Where the last quoted text before an offset begins. The parser only says where the text ends, which is the file's end. */
function lastQuote(document: Document.Parsed, before: number): number {
  let last = -1;
  visit(document, {
    Scalar: (_, { type, range }) => {
      const start = range?.[0] ?? before;
      if (type?.startsWith('QUOTE') && start < before) last = Math.max(last, start);
    },
  });
  return last;
}

/** Parses a text as one YAML 1.2 document (which JSON is, too). Never throws; never quotes the text. */
export function parseYaml(text: string): YamlDocument {
  const lines = new LineCounter();
  const position = (offset: number): Position => {
    const { line, col } = lines.linePos(offset);
    return { line: Math.max(line, 1), column: Math.max(col, 1) };
  };
  const refuse = (offset: number, message: string): YamlDocument => ({
    document: undefined,
    faults: [{ offset, message }],
    position,
  });
  const conflict = /^(?:<{7}|>{7})(?: |$)/m.exec(text)?.index;
  if (conflict !== undefined) {
    for (const start of [0, ...[...text.matchAll(/\n/g)].map(({ index }) => index + 1)]) lines.addNewLine(start);
    return refuse(conflict, 'a merge conflict is not resolved here');
  }
  if (text.length > maxLength) return refuse(0, 'the file is longer than 1 MiB; is it a configuration?');
  const tokens = [...new Parser(lines.addNewLine).parse(text)];
  const deep = tokens.map((token) => tooDeep(token)).find((offset) => offset !== undefined);
  if (deep !== undefined) return refuse(deep, `nested deeper than ${maxDepth} levels`);
  const composer = new Composer({ uniqueKeys: false, prettyErrors: false, logLevel: 'silent', schema: 'core' });
  const [first, second] = [...composer.compose(tokens, true, text.length)] as Document.Parsed<ParsedNode>[];
  if (first === undefined) return refuse(0, 'the file is empty');
  joinFlowQueries(first, text);
  const faults = consequential([...first.errors, ...first.warnings], (offset) => position(offset).line).map((error) =>
    syntaxFault(error, text, first),
  );
  const odd = faults.length === 0 ? (standardTag(first) ?? misleadingStart(first)) : undefined;
  if (odd !== undefined) faults.push(odd);
  if (second !== undefined) faults.push({ offset: second.range[0], message: words.MULTIPLE_DOCS as string });
  return { document: first, faults, position };
}

interface Nested {
  readonly offset?: number;
  readonly value?: unknown;
  readonly items?: readonly { readonly key?: unknown; readonly value?: unknown }[];
}

/** Where a token is nested too deeply. The composer recurses, so a very deep file would crash the process. */
function tooDeep(token: unknown): number | undefined {
  const open: [unknown, number][] = [[token, 0]];
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    const [part, depth] = next;
    if (part === null || typeof part !== 'object') continue;
    const { offset, value, items } = part as Nested;
    if (depth > maxDepth) return offset ?? 0;
    open.push([value, depth + 1]);
    for (const item of items ?? []) open.push([item.key, depth + 1], [item.value, depth + 1]);
  }
  return undefined;
}
