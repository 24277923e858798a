import { hashText, mix } from './data/hash.js';

/** The content of a page token. */
export interface PagePosition {
  /** Position of the first record of the page. */
  readonly position: number;
  /** Distinguishes tokens for the same page: 0 unless a fault counts it up. */
  readonly salt: number;
}

const length = 24;

/**
 * Page tokens are opaque, bound to one list (index and filters), and refused if changed. The same place in the same list
 * always has the same token, also after a restart. A keyed checksum replaces a real signature, which would cost more than
 * the page.
 */
export class PageTokens {
  readonly #key: number;
  readonly #bytes = Buffer.alloc(length);
  #generation = 0;

  constructor(seed: number) {
    this.#key = hashText(`page tokens ${seed}`);
  }

  /** Makes every token issued so far invalid. */
  expireAll(): void {
    this.#generation += 1;
  }

  issue(list: number, { position, salt }: PagePosition): string {
    const bytes = this.#bytes;
    bytes.writeUInt32LE(list, 0);
    bytes.writeUInt32LE(position >>> 0, 4);
    bytes.writeUInt16LE(Math.floor(position / 0x1_0000_0000), 8);
    bytes.writeUInt32LE(salt, 10);
    bytes.writeUInt16LE(this.#generation & 0xffff, 14);
    this.#sign(bytes);
    return bytes.toString('base64url');
  }

  /** Undefined if the token does not belong to this list. */
  read(list: number, token: string): PagePosition | undefined {
    const bytes = Buffer.from(token, 'base64url');
    if (bytes.length !== length || bytes.toString('base64url') !== token) return undefined;
    const [low, high] = [bytes.readUInt32LE(16), bytes.readUInt32LE(20)];
    this.#sign(bytes);
    const genuine = bytes.readUInt32LE(16) === low && bytes.readUInt32LE(20) === high;
    const current = bytes.readUInt16LE(14) === (this.#generation & 0xffff);
    if (!genuine || !current || bytes.readUInt32LE(0) !== list) return undefined;
    return {
      position: bytes.readUInt32LE(4) + bytes.readUInt16LE(8) * 0x1_0000_0000,
      salt: bytes.readUInt32LE(10),
    };
  }

  #sign(bytes: Buffer): void {
    let [one, two] = [this.#key, mix(this.#key)];
    for (let at = 0; at < 16; at += 4) {
      one = mix(one ^ bytes.readUInt32LE(at));
      two = mix(two + one);
    }
    bytes.writeUInt32LE(one, 16);
    bytes.writeUInt32LE(two, 20);
  }
}
