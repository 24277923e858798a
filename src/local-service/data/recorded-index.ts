import type { Filters, IndexResource, IndexSource, ProfileList } from './index-source.js';

interface Recorded {
  readonly id: unknown;
  readonly attributes: Record<string, unknown>;
}

function parsed(text: string): Recorded {
  try {
    const { id, attributes } = JSON.parse(text) ?? {};
    return { id, attributes: (Array.isArray(attributes) ? attributes[0] : attributes) ?? {} };
  } catch {
    // Tests give broken JSON on purpose: the service serves it all the same.
    return { id: undefined, attributes: {} };
  }
}

/** An index whose records a test has given as raw JSON text; it serves them byte for byte, in the given order. */
export class RecordedIndex implements IndexSource {
  readonly maxRecordBytes: number;
  readonly #texts: readonly Buffer[];
  readonly #records: readonly Recorded[];

  constructor(
    readonly resource: IndexResource,
    readonly filterable: readonly string[],
    texts: readonly string[],
  ) {
    this.#texts = texts.map((text) => Buffer.from(text));
    this.#records = texts.map(parsed);
    this.maxRecordBytes = this.#texts.reduce((most, { length }) => Math.max(most, length), 0);
  }

  list(filters: Filters): ProfileList {
    const positions = [...this.#records.keys()].filter((position) =>
      filters.every(([attribute, value]) => this.#hasValue(position, attribute, value)),
    );
    return {
      total: () => positions.length,
      select: (from, limit) => {
        const begin = positions.findIndex((position) => position >= from);
        if (begin < 0) return { positions: [], count: 0, next: -1 };
        const page = positions.slice(begin, begin + limit);
        return { positions: page, count: page.length, next: positions[begin + limit] ?? -1 };
      },
    };
  }

  write(position: number, target: Uint8Array, offset: number): number {
    const text = this.#texts[position] as Buffer;
    target.set(text, offset);
    return offset + text.length;
  }

  find(id: string): number {
    return this.#records.findIndex((record) => record.id === id);
  }

  #hasValue(position: number, attribute: string, value: string): boolean {
    const own = this.#records[position]?.attributes[attribute];
    return own !== undefined && own !== null && String(own) === value;
  }
}
