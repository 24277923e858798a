/** JSON's bytes by their names. */

export const space = 0x20;
export const lineFeed = 0x0a;
export const carriageReturn = 0x0d;
export const tab = 0x09;
export const quote = 0x22;
export const backslash = 0x5c;
export const slash = 0x2f;
export const comma = 0x2c;
export const colon = 0x3a;
export const openBrace = 0x7b;
export const closeBrace = 0x7d;
export const openBracket = 0x5b;
export const closeBracket = 0x5d;
export const minus = 0x2d;
export const plus = 0x2b;
export const point = 0x2e;
export const zero = 0x30;
export const nine = 0x39;
/** First bytes of the words `null`, `true` and `false`; letters of escapes are among them. */
export const letterN = 0x6e;
export const letterT = 0x74;
export const letterF = 0x66;
export const letterE = 0x65;
export const capitalE = 0x45;
