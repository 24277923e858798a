import type { ListSource } from '../../sources/source.js';
import { strictText } from './strict-text.js';

function parsed(body: Buffer): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(strictText(body));
    return typeof value === 'object' && value !== null && !Array.isArray(value)
      ? (value as Record<string, unknown>)
      : undefined;
  } catch {
    return undefined;
  }
}

/** Whether a body is the requested record. */
export function isRecord(body: Buffer, { key }: ListSource, wanted: string): boolean {
  const record = parsed(body);
  return record !== undefined && key.length === 1 && record[key[0] as string] === wanted;
}

/** Whether a record has a value in each of the attributes. Without one, no filter on it can match. */
export function hasAttributes(body: Buffer, { container }: ListSource, attributes: Iterable<string>): boolean {
  const record = parsed(body) ?? {};
  const held = container === null ? record : record[container];
  const values = new Map(Object.entries((Array.isArray(held) ? held[0] : held) ?? {}));
  return [...attributes].every((attribute) => values.get(attribute) !== undefined && values.get(attribute) !== null);
}
