import { type DoubleStyle, doubleStyles } from './double-text.js';
import { fewDigits, maxDigits } from './text-format-bytes.js';

/** The code of a column whose texts have no common format. It stays text. */
export const plainText = 'VARCHAR';

/**
 * The properties of a column's texts that decide its type, independent of their order and of partitions. Journals and stores
 * have them as a code: `DECIMAL(18,2)|5,e`.
 */
interface TextCode {
  /** The name of the format that all texts have; undefined if all were empty. */
  readonly name: string | undefined;
  /** For numbers: the styles in which each text is the shortest text of a double. Empty if they cannot be a column of doubles. */
  readonly styles: readonly DoubleStyle[];
  /** Whether an empty text was among them. */
  readonly hasEmpty: boolean;
}

/** The name in a code if all texts were empty. */
const nameless = 'EMPTY';

/** Reads a code. @param code not {@link plainText} */
export function parseTextCode(code: string): TextCode {
  const [name, flags = ''] = code.split('|');
  const codes = flags.split(',');
  const styles = doubleStyles.filter((style) => codes.includes(style));
  return { name: name === nameless ? undefined : name, styles, hasEmpty: codes.includes('e') };
}

/** Writes a code. */
export function writeTextCode({ name = nameless, styles, hasEmpty }: TextCode): string {
  const flags = [...styles, ...(hasEmpty ? ['e'] : [])];
  return flags.length === 0 ? name : `${name}|${flags.join(',')}`;
}

function decimalOf(name: string): { readonly digits: number; readonly places: number } | undefined {
  const [, digits, places] = /^DECIMAL\((\d+),(\d+)\)$/.exec(name) ?? [];
  return digits === undefined ? undefined : { digits: Number(digits), places: Number(places) };
}

/** Whether a format is one of numbers. */
export function isNumber(name: string): boolean {
  return name.endsWith('INT') || name.startsWith('DOUBLE') || decimalOf(name) !== undefined;
}

/** The formats that texts may have in common if one text has this format: the same type in other widths, the narrowest first. */
export function similarNames(name: string): string[] {
  if (name.endsWith('INT')) return ['BIGINT', 'HUGEINT'];
  const decimal = decimalOf(name);
  if (decimal !== undefined) return [fewDigits, maxDigits].map((digits) => `DECIMAL(${digits},${decimal.places})`);
  return name.startsWith('DOUBLE') ? [] : [name];
}

/** The narrowest format that includes both formats. Not for doubles. */
function commonName(one: string, other: string): string | undefined {
  if (one === other) return one;
  if (one.endsWith('INT') && other.endsWith('INT')) return 'HUGEINT';
  const [a, b] = [decimalOf(one), decimalOf(other)];
  return a !== undefined && a.places === b?.places ? `DECIMAL(${maxDigits},${a.places})` : undefined;
}

/** The name of a format of doubles. If both styles match, no text is a whole number, and the first style is as good as the other. */
export function doubleName(styles: readonly DoubleStyle[]): string {
  return `DOUBLE ${styles[0]}`;
}

/** The code of the texts of both codes; undefined if they are not values of one type. */
function together(one: TextCode, other: TextCode): TextCode | undefined {
  const hasEmpty = one.hasEmpty || other.hasEmpty;
  if (one.name === undefined) return { ...other, hasEmpty };
  if (other.name === undefined) return { ...one, hasEmpty };
  const styles = one.styles.filter((style) => other.styles.includes(style));
  const name = one.name.startsWith('DOUBLE') ? undefined : commonName(one.name, other.name);
  if (name !== undefined) return { name, styles, hasEmpty };
  const areNumbers = isNumber(one.name) && isNumber(other.name);
  return areNumbers && styles.length > 0 ? { name: doubleName(styles), styles, hasEmpty } : undefined;
}

/**
 * The code of the texts of two codes; undefined means no text. Commutative, associative and idempotent, so that the order of texts
 * does not matter.
 */
export function mergeTextFormats(one: string | undefined, other: string | undefined): string | undefined {
  if (one === undefined || one === other) return other;
  if (other === undefined) return one;
  if (one === plainText || other === plainText) return plainText;
  const textCode = together(parseTextCode(one), parseTextCode(other));
  return textCode === undefined ? plainText : writeTextCode(textCode);
}
