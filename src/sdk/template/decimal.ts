const notation = /^\s*([+-]?)(\d*)(?:\.(\d*))?(?:[eE]([+-]?\d{1,4}))?\s*$/;

/** The largest power of ten that is taken: that of a double. */
const maxExponent = 400;
/** Digits after the point of a quotient that does not end. */
const quotientDigits = 20;

function power(exponent: number): bigint {
  return 10n ** BigInt(exponent);
}

function roundedQuotient(dividend: bigint, divisor: bigint, way: 'half' | 'down' | 'up'): bigint {
  const [whole, rest] = [dividend / divisor, dividend % divisor];
  if (rest === 0n) return whole;
  const sign = dividend < 0n === divisor < 0n ? 1n : -1n;
  if (way === 'half') {
    const [size, of] = [rest < 0n ? -rest : rest, divisor < 0n ? -divisor : divisor];
    return 2n * size >= of ? whole + sign : whole;
  }
  return way === 'down' ? (sign < 0n ? whole - 1n : whole) : sign > 0n ? whole + 1n : whole;
}

/** A number of a record with all of its digits: `digits` divided by ten to the power of `scale`. The engine compares it by value. */
export class Decimal {
  readonly #digits: bigint;
  readonly #scale: number;
  /** As it was written; undefined for a result. */
  readonly #written: string | undefined;

  private constructor(digits: bigint, scale: number, written?: string) {
    this.#digits = digits;
    this.#scale = scale;
    this.#written = written;
  }

  /** A number of JSON, a JavaScript number or a text that is a decimal number; undefined for anything else. */
  static from(value: unknown): Decimal | undefined {
    if (value instanceof Decimal) return value;
    if (typeof value !== 'string' && typeof value !== 'number') return undefined;
    const [, sign, whole = '', part = '', exponent = '0'] = notation.exec(String(value).trim()) ?? [];
    if (whole + part === '' || Math.abs(Number(exponent)) > maxExponent) return undefined;
    const digits = BigInt(sign + whole + part) || 0n;
    const scale = part.length - Number(exponent);
    const written = typeof value === 'string' && /^-?\d/.test(value) && !/\s$/.test(value) ? value : undefined;
    return scale < 0 ? new Decimal(digits * power(-scale), 0, written) : new Decimal(digits, scale, written);
  }

  #aligned(other: Decimal): [bigint, bigint, number] {
    const scale = Math.max(this.#scale, other.#scale);
    return [this.#digits * power(scale - this.#scale), other.#digits * power(scale - other.#scale), scale];
  }

  plus(other: Decimal): Decimal {
    const [one, two, scale] = this.#aligned(other);
    return new Decimal(one + two, scale);
  }

  negated(): Decimal {
    return new Decimal(-this.#digits, this.#scale);
  }

  times(other: Decimal): Decimal {
    return new Decimal(this.#digits * other.#digits, this.#scale + other.#scale);
  }

  /** Exact where the quotient ends, else with 20 digits after the point. Undefined for a divisor of 0. */
  dividedBy(other: Decimal): Decimal | undefined {
    if (other.#digits === 0n) return undefined;
    const scale = Math.max(quotientDigits, this.#scale);
    const dividend = this.#digits * power(scale + other.#scale - this.#scale);
    return new Decimal(roundedQuotient(dividend, other.#digits, 'half'), scale);
  }

  /** To this many digits after the point; fewer than 0 round to tens, hundreds and so on. A half goes away from zero. */
  rounded(places: number, way: 'half' | 'down' | 'up' = 'half'): Decimal {
    if (places >= this.#scale) return this;
    const digits = roundedQuotient(this.#digits, power(this.#scale - places), way);
    return places < 0 ? new Decimal(digits * power(-places), 0) : new Decimal(digits, places);
  }

  compare(other: Decimal): number {
    const [one, two] = this.#aligned(other);
    return one < two ? -1 : one > two ? 1 : 0;
  }

  #holds(other: unknown, test: (order: number) => boolean): boolean {
    const number = Decimal.from(other);
    return number !== undefined && test(this.compare(number));
  }

  // The methods that the engine calls on an object that it compares.
  equals(other: unknown): boolean {
    return typeof other !== 'string' && this.#holds(other, (order) => order === 0);
  }
  gt(other: unknown): boolean {
    return this.#holds(other, (order) => order > 0);
  }
  geq(other: unknown): boolean {
    return this.#holds(other, (order) => order >= 0);
  }
  lt(other: unknown): boolean {
    return this.#holds(other, (order) => order < 0);
  }
  leq(other: unknown): boolean {
    return this.#holds(other, (order) => order <= 0);
  }

  /** All digits, without an exponent; as it was written, if it is not a result. */
  toString(): string {
    if (this.#written !== undefined) return this.#written;
    const size = String(this.#digits < 0n ? -this.#digits : this.#digits).padStart(this.#scale + 1, '0');
    const [whole, part] = [size.slice(0, size.length - this.#scale), size.slice(size.length - this.#scale)];
    const rest = part.replace(/(?<!0)0+$/, '');
    return `${this.#digits < 0n ? '-' : ''}${whole}${rest === '' ? '' : `.${rest}`}`;
  }
}
