export type Encoding = 'utf-8' | 'latin1' | 'windows-1252' | 'utf-16le';

/** The letters of windows-1252 beyond those of latin1, from 0x80 on; U+0000 where it has none. */
export const windows1252 = '€\0‚ƒ„…†‡ˆ‰Š‹Œ\0Ž\0\0‘’“”•–—˜™š›œ\0žŸ';

/** The first letter of a text that an encoding does not have. */
export function lostLetter(text: string, encoding: Encoding = 'utf-8'): string | undefined {
  if (encoding === 'utf-8' || encoding === 'utf-16le') return undefined;
  const others = encoding === 'latin1' ? /[\x80-\xff]/ : new RegExp(`[\\xa0-\\xff${windows1252.replaceAll('\0', '')}]`);
  return [...text].find((letter) => letter > '\x7f' && !others.test(letter));
}
