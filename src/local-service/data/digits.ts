const quads = new Uint8Array(40_000);
const hexPairs = new Uint8Array(512);
for (let value = 0; value < 10_000; value += 1) {
  quads.set(Buffer.from(String(value).padStart(4, '0'), 'latin1'), value * 4);
}
for (let value = 0; value < 256; value += 1) {
  hexPairs.set(Buffer.from(value.toString(16).padStart(2, '0'), 'latin1'), value * 2);
}

function writeQuad(target: Uint8Array, offset: number, value: number): void {
  const at = value * 4;
  target[offset] = quads[at] as number;
  target[offset + 1] = quads[at + 1] as number;
  target[offset + 2] = quads[at + 2] as number;
  target[offset + 3] = quads[at + 3] as number;
}

/** Writes ten decimal digits of a number below 2^32. */
export function writeDigits(target: Uint8Array, offset: number, value: number): void {
  const high = Math.floor(value / 10_000);
  const top = Math.floor(high / 10_000);
  target[offset] = quads[top * 4 + 2] as number;
  target[offset + 1] = quads[top * 4 + 3] as number;
  writeQuad(target, offset + 2, high - top * 10_000);
  writeQuad(target, offset + 6, value - high * 10_000);
}

/** Writes eight hexadecimal digits of a number below 2^32. */
export function writeHex(target: Uint8Array, offset: number, value: number): void {
  for (let at = 0; at < 8; at += 2) {
    const pair = ((value >>> (24 - at * 4)) & 0xff) * 2;
    target[offset + at] = hexPairs[pair] as number;
    target[offset + at + 1] = hexPairs[pair + 1] as number;
  }
}
