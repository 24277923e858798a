import { printable } from '../core/printable.js';
import { z } from '../core/zod.js';
import type { OptionProblem } from '../sdk/option.js';

/** The name of a job, a stream or a destination. cdsync's own views and macros use the endings and the double underscore. */
export const namePattern = /^(?!.*__)(?!.*_(?:as_of|history|changes|previous)$)[a-z][a-z0-9_]{0,47}$/;

/** The same rule in words. */
export const nameRule =
  '1 to 48 of a-z, 0-9 and _, beginning with a letter, without "__" and not ending in _as_of, _history, _changes or _previous';

/** The message for an invalid name, with a valid one like it; undefined if no valid one is like it. */
export function nameFault(name: string): string | undefined {
  const like = name
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '_')
    .replace(/^[_0-9]+|(?<!_)_+$/g, '')
    .slice(0, 48);
  if (!namePattern.test(like) || like === 'cdsync' || like === name) return undefined;
  return `invalid name ${JSON.stringify(printable(name))}; try ${like} (a-z, 0-9, _; max 48)`;
}

/** The name of a destination. */
export const nameSchema = z.string().regex(namePattern);

/**
 * The name of a job, which is the one of its database where a reader opens the published file: DuckDB has schemas and databases of
 * the refused names, so a table would be ambiguous, or the file opens under another name.
 */
export const jobNameSchema = z
  .string()
  .regex(new RegExp(`^(?!(?:${['cdsync', 'temp', 'system', 'main'].join('|')})$)${namePattern.source.slice(1)}`));
/** The same in words. */
export const jobNameRule = `${nameRule}; not cdsync, temp, system or main`;

/** The name of a stream. It may not be cdsync, for the published file has a schema of that name beside the tables. */
export const streamNameSchema = z.string().regex(new RegExp(`(?!^cdsync$)${namePattern.source}`));

/** A check that no two entries of a list have one name. @param list its key */
export const repeatedNames =
  (list: string) =>
  (entries: unknown): OptionProblem[] => {
    if (!Array.isArray(entries)) return [];
    const names = entries.map((entry) => (entry as { name?: unknown } | undefined)?.name);
    return names.flatMap((name, index) => {
      const first = names.indexOf(name);
      if (typeof name !== 'string' || first === index) return [];
      return [{ path: [index, 'name'], message: `duplicate name, first used by ${list}[${first}]` }];
    });
  };
