import { z } from './zod.js';

/*
 * Texts of state files and stores that become a path or a part of a statement. Another program may have written them, so each has the
 * form of cdsync's own texts there, and no other.
 */

const isName = (text: string) => !/^\.{0,2}$|[/\\\0]/.test(text);

/** The name of a file or a folder, without a path. */
export const storedName = z.string().refine(isName, 'not a name of a file');

/** A path that stays below the folder that it is relative to. */
export const storedPath = z.string().refine((text) => text.split('/').every(isName), 'not a path below the folder');

/** A checksum or a fingerprint. */
export const storedDigest = z.string().regex(/^[0-9a-f]+$/);

/** The mark of a type that was read already; no type has it. */
const type = '\0';
const lists = '(?:\\[\\d*\\]){0,32}';
const plainTypes = new RegExp(
  `(?<!\\w)(?:U?(?:TINY|SMALL|BIG|HUGE)INT|U?INTEGER|BIGNUM|BIT|BLOB|BOOLEAN|DATE|DECIMAL\\(\\d+, ?\\d+\\)|DOUBLE|ENUM\\('(?:, ')*\\)|FLOAT|GEOMETRY|INTERVAL|JSON|TIME(?:STAMP)? WITH TIME ZONE|TIMESTAMP(?:_S|_MS|_NS|TZ)?|TIME(?:_NS|TZ)?|UUID|VARCHAR|VARIANT)(?!\\w)${lists}`,
  'g',
);
const member = `(?:(?:"|\\w+|${type}) )?${type}`;
const nestedTypes = new RegExp(
  `(?<!\\w)(?:(?:STRUCT|UNION)\\(${member}(?:, ?${member})*\\)|MAP\\(${type}, ?${type}\\))${lists}`,
  'g',
);

/** Deeper types do not exist: see the shapes of columns. */
const maxDepth = 64;

/** Whether a text is the name of a type of DuckDB, and nothing else. */
export function isTypeText(text: string): boolean {
  if (text.includes(type)) return false;
  const quoted = text.replaceAll(/"(?:[^"]|"")*"/g, '"').replaceAll(/'(?:[^']|'')*'/g, "'");
  let rest = quoted.replaceAll(plainTypes, type);
  for (let depth = 0; rest !== type && depth < maxDepth; depth += 1) {
    const inner = rest.replaceAll(nestedTypes, type);
    if (inner === rest) return false;
    rest = inner;
  }
  return rest === type;
}

/** A type of DuckDB: it is written into statements as it is. */
export const storedType = z.string().refine(isTypeText, 'not a type');
