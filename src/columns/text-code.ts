import { type DoubleStyle, doubleStyles } from './double-text.js';
import { fewDigits, mostDigits } from './text-format-bytes.js';

/** The code of a column whose texts are not written alike, or are no values: it stays text for good. */
export const plainText = 'VARCHAR';

/**
 * All that matters of the texts of a column, so that its type depends neither on their order nor on the partitions that have
 * them. As text it is a code, by which journals and stores keep it: `DECIMAL(18,2)|5,e`.
 */
interface TextCode {
  /** The name of the form that all texts have; undefined if all were empty. */
  readonly name: string | undefined;
  /** Of numbers: the ways to write the shortest text of a double that all of them follow. They could share a column of doubles. */
  readonly styles: readonly DoubleStyle[];
  /** Whether an empty text was among them. */
  readonly hasEmpty: boolean;
}

/** In place of a name: all texts were empty. */
const nameless = 'EMPTY';

/** @param code not {@link plainText} */
export function parseTextCode(code: string): TextCode {
  const [name, flags = ''] = code.split('|');
  const known = flags.split(',');
  const styles = doubleStyles.filter((style) => known.includes(style));
  return { name: name === nameless ? undefined : name, styles, hasEmpty: known.includes('e') };
}

export function writeTextCode({ name = nameless, styles, hasEmpty }: TextCode): string {
  const flags = [...styles, ...(hasEmpty ? ['e'] : [])];
  return flags.length === 0 ? name : `${name}|${flags.join(',')}`;
}

function decimalOf(name: string): { readonly digits: number; readonly places: number } | undefined {
  const [, digits, places] = /^DECIMAL\((\d+),(\d+)\)$/.exec(name) ?? [];
  return digits === undefined ? undefined : { digits: Number(digits), places: Number(places) };
}

export function isNumber(name: string): boolean {
  return name.endsWith('INT') || name.startsWith('DOUBLE') || decimalOf(name) !== undefined;
}

/** The names of forms that texts could have if one of them has the form: the same type in other widths, the narrowest first. */
export function similarNames(name: string): string[] {
  if (name.endsWith('INT')) return ['BIGINT', 'HUGEINT'];
  const decimal = decimalOf(name);
  if (decimal !== undefined) return [fewDigits, mostDigits].map((digits) => `DECIMAL(${digits},${decimal.places})`);
  return name.startsWith('DOUBLE') ? [] : [name];
}

/** The form of which both forms are a part, apart from doubles. */
function commonName(one: string, other: string): string | undefined {
  if (one === other) return one;
  if (one.endsWith('INT') && other.endsWith('INT')) return 'HUGEINT';
  const [a, b] = [decimalOf(one), decimalOf(other)];
  return a !== undefined && a.places === b?.places ? `DECIMAL(${mostDigits},${a.places})` : undefined;
}

/** The name of the form of doubles; with both styles the texts have no whole number among them, so either will do. */
export function doubleName(styles: readonly DoubleStyle[]): string {
  return `DOUBLE ${styles[0]}`;
}

/** The code of texts of both; undefined if they are no values of one type. */
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
 * The code of the texts of two codes. Commutative, associative and idempotent; undefined, for no text at all, changes
 * nothing. So the order in which texts are seen does not matter.
 */
export function mergeTextFormats(one: string | undefined, other: string | undefined): string | undefined {
  if (one === undefined || one === other) return other;
  if (other === undefined) return one;
  if (one === plainText || other === plainText) return plainText;
  const found = together(parseTextCode(one), parseTextCode(other));
  return found === undefined ? plainText : writeTextCode(found);
}
