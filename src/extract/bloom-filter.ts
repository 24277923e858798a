/** 2^27 bits: 16 MB. The system provides a page of them only once it is touched. */
const words = 1 << 22;

/**
 * A Bloom filter of the keys that a stream's page chains have brought. It never takes a known key for new. It may take a new
 * key for known, the more often the more keys it has. But a hundred pages in a row are safe: even with 100 million keys, the
 * chance that all their new keys seem known is below 10^-7.
 */
export class BloomFilter {
  #bits: Uint32Array | undefined;

  /**
   * Adds the keys of one page.
   * @param hashes two 32-bit hashes for each key
   * @param chain number of the page chain: a key is new once to each chain
   * @returns whether any of them was new
   */
  add(hashes: Uint32Array, chain: number): boolean {
    this.#bits ??= new Uint32Array(words);
    const bits = this.#bits;
    const salt = Math.imul(chain + 1, 0x9e3779b1);
    let anyNew = false;
    for (let index = 0; index < hashes.length; index += 2) {
      let place = ((hashes[index] as number) ^ salt) >>> 0;
      const step = ((hashes[index + 1] as number) ^ Math.imul(salt, 0x85ebca6b)) | 1;
      for (let probe = 0; probe < 4; probe += 1) {
        const word = (place >>> 5) & (words - 1);
        const bit = 1 << (place & 31);
        const before = bits[word] as number;
        if ((before & bit) === 0) {
          bits[word] = before | bit;
          anyNew = true;
        }
        place = (place + step) >>> 0;
      }
    }
    return anyNew;
  }
}
