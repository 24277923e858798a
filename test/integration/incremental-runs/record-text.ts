import type { Dice } from './dice.js';

/** JSON text whose characters are its bytes (latin1): records may hold bytes that are not UTF-8. */
export type Bytes = string;

/** A JSON value, or with `spelled` its exact text. */
export type Value = null | boolean | string | { readonly spelled: Bytes } | readonly Value[] | Members;
/** An object. A name may come twice. */
export interface Members {
  readonly members: readonly (readonly [name: string, value: Value])[];
}

/** How a record is written. */
export interface Style {
  /** After a colon and after a comma. */
  readonly space: Bytes;
  /** Of 8 characters of a text, how many are escaped. */
  readonly escaped: number;
  readonly slashes: boolean;
  /** Whether the members of each object come in an order of their own. */
  readonly mixed: boolean;
}

export const plainStyle: Style = { space: '', escaped: 0, slashes: false, mixed: false };

export function anyStyle(dice: Dice): Style {
  return {
    space: dice.pick(['', '', ' ', '\n  ', '\t', ' \r\n']),
    escaped: dice.pick([0, 0, 1, 4]),
    slashes: dice.once(2),
    mixed: dice.once(2),
  };
}

const inBytes = (text: string): Bytes => Buffer.from(text, 'utf8').toString('latin1');

function unit(code: number, dice: Dice): Bytes {
  const digits = code.toString(16).padStart(4, '0');
  return `\\u${dice.once(2) ? digits : digits.toUpperCase()}`;
}

function character(each: string, style: Style, dice: Dice): Bytes {
  const code = each.charCodeAt(0);
  if (dice.whole(8) < style.escaped)
    return Array.from({ length: each.length }, (_, at) => unit(each.charCodeAt(at), dice)).join('');
  if (each === '/' && style.slashes) return '\\/';
  if (each === '"' || each === '\\') return `\\${each}`;
  if (code < 0x20 || /[\ud800-\udfff]/u.test(each)) return unit(code, dice);
  return inBytes(each);
}

function text(value: string, style: Style, dice: Dice): Bytes {
  return `"${Array.from(value, (each) => character(each, style, dice)).join('')}"`;
}

/** The text of a value in this style. */
export function write(value: Value, style: Style, dice: Dice): Bytes {
  if (value === null || typeof value === 'boolean') return String(value);
  if (typeof value === 'string') return text(value, style, dice);
  if ('spelled' in value) return value.spelled;
  const { space } = style;
  if (!('members' in value)) return `[${value.map((each) => write(each, style, dice)).join(`,${space}`)}]`;
  const members = value.members.map(([name, each]) => `${text(name, style, dice)}:${space}${write(each, style, dice)}`);
  const ordered = style.mixed ? dice.shuffled(members) : members;
  return `{${ordered.join(`,${space}`)}}`;
}
