import type { Attributes } from './segments.js';

/** How attribute values are served: as text, as the interface publishes them, or with the types of their JSON. */
export type AttributeForm = 'text' | 'typed';

function textOf(value: unknown): string {
  if (typeof value === 'string') return value;
  return typeof value === 'object' ? JSON.stringify(value) : String(value);
}

/** The attributes as they are served. As text, a list or an object is its JSON, and what is null is left out. */
export function servedAttributes(attributes: Attributes, form: AttributeForm): Attributes {
  if (form === 'typed') return attributes;
  const present = Object.entries(attributes).filter(([, value]) => value !== undefined && value !== null);
  return Object.fromEntries(present.map(([name, value]) => [name, textOf(value)]));
}
