/** Bytes of the secret that keys a {@link RecordHasher}. */
export const secretBytes = 32;

/** 32-bit words of one hash. */
export const hashWords = 4;

/** Must be raised if the same bytes and secret get another hash. */
export const recordHashVersion = 1;

/** Hashes the bytes of a record. */
export interface RecordHash {
  /** Writes the hash of the bytes from `from` to `to` into four words of `target`, beginning at `at`. The second word is never 0. */
  write(view: DataView, from: number, to: number, target: Uint32Array, at: number): void;
}

/**
 * A keyed 128-bit hash of the bytes that the service sent. It follows MurmurHash3_x86_128, but its four multipliers are part of the
 * secret too: with the published ones, values exist that collide under every seed.
 *
 * Not a cryptographic hash: the secret makes collisions easy, so it stays in private files.
 */
export class RecordHasher implements RecordHash {
  readonly #seeds: Int32Array;
  readonly #multipliers: Int32Array;

  /** @param secret {@link secretBytes} random bytes */
  constructor(secret: Buffer) {
    if (secret.length !== secretBytes) throw new RangeError(`a secret has ${secretBytes} bytes, not ${secret.length}`);
    const words = Int32Array.from({ length: secretBytes / 4 }, (_, index) => secret.readInt32LE(index * 4));
    this.#seeds = words.subarray(0, 4);
    // Odd numbers have an inverse, so that no bit of the input is lost.
    this.#multipliers = words.subarray(4).map((word) => word | 1);
  }

  write(view: DataView, from: number, to: number, target: Uint32Array, at: number): void {
    const imul = Math.imul;
    const seeds = this.#seeds;
    const multipliers = this.#multipliers;
    const m1 = multipliers[0] as number;
    const m2 = multipliers[1] as number;
    const m3 = multipliers[2] as number;
    const m4 = multipliers[3] as number;
    let a = seeds[0] as number;
    let b = seeds[1] as number;
    let c = seeds[2] as number;
    let d = seeds[3] as number;
    let position = from;
    for (const last = to - 16; position <= last; position += 16) {
      let k = imul(view.getInt32(position, true), m1);
      a ^= imul((k << 15) | (k >>> 17), m2);
      a = (((a << 19) | (a >>> 13)) + b) | 0;
      a = (imul(a, 5) + 0x561ccd1b) | 0;
      k = imul(view.getInt32(position + 4, true), m2);
      b ^= imul((k << 16) | (k >>> 16), m3);
      b = (((b << 17) | (b >>> 15)) + c) | 0;
      b = (imul(b, 5) + 0x0bcaa747) | 0;
      k = imul(view.getInt32(position + 8, true), m3);
      c ^= imul((k << 17) | (k >>> 15), m4);
      c = (((c << 15) | (c >>> 17)) + d) | 0;
      c = (imul(c, 5) + 0x96cd1c35) | 0;
      k = imul(view.getInt32(position + 12, true), m4);
      d ^= imul((k << 18) | (k >>> 14), m1);
      d = (((d << 13) | (d >>> 19)) + a) | 0;
      d = (imul(d, 5) + 0x32ac3b17) | 0;
    }
    // The words of the last, incomplete block, filled up with zeros; the length is hashed below.
    let k1 = 0;
    let k2 = 0;
    let k3 = 0;
    let k4 = 0;
    for (let shift = 0; position < to; position += 1, shift += 8) {
      const byte = view.getUint8(position) << (shift & 31);
      if (shift < 32) k1 |= byte;
      else if (shift < 64) k2 |= byte;
      else if (shift < 96) k3 |= byte;
      else k4 |= byte;
    }
    k1 = imul(k1, m1);
    a ^= imul((k1 << 15) | (k1 >>> 17), m2);
    k2 = imul(k2, m2);
    b ^= imul((k2 << 16) | (k2 >>> 16), m3);
    k3 = imul(k3, m3);
    c ^= imul((k3 << 17) | (k3 >>> 15), m4);
    k4 = imul(k4, m4);
    d ^= imul((k4 << 18) | (k4 >>> 14), m1);
    const length = to - from;
    a ^= length;
    b ^= length;
    c ^= length;
    d ^= length;
    a = (a + b + c + d) | 0;
    b = (b + a) | 0;
    c = (c + a) | 0;
    d = (d + a) | 0;
    a = finish(a);
    b = finish(b);
    c = finish(c);
    d = finish(d);
    a = (a + b + c + d) | 0;
    target[at] = a;
    target[at + 1] = (b + a) | 0 || 1;
    target[at + 2] = (c + a) | 0;
    target[at + 3] = (d + a) | 0;
  }
}

function finish(word: number): number {
  let mixed = word ^ (word >>> 16);
  mixed = Math.imul(mixed, 0x85ebca6b);
  mixed ^= mixed >>> 13;
  mixed = Math.imul(mixed, 0xc2b2ae35);
  return mixed ^ (mixed >>> 16);
}
