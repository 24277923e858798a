import { resolve } from 'node:path';
import { z } from '../core/zod.js';
import { camelKey, unwrap } from '../sdk/option.js';

function withPath(schema: z.core.$ZodType, value: unknown, folder: string): unknown {
  const { core, info } = unwrap(schema);
  if (typeof value === 'string') return info?.path ? resolve(folder, value) : value;
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value;
  if (core instanceof z.ZodObject) return withPaths(core.shape, value, folder);
  // The option takes a list or a map; a list has been returned above, so the value is the map.
  const map =
    core instanceof z.ZodUnion ? core.options.find((form) => unwrap(form).core instanceof z.ZodObject) : undefined;
  return map === undefined ? value : withPath(map, value, folder);
}

/** Makes the paths in a map of options (in camelCase) absolute, from `folder`; the shape says which options are paths. */
export function withPaths<T extends object>(
  shape: Readonly<Record<string, z.core.$ZodType>>,
  value: T,
  folder: string,
): T {
  const resolved = { ...value } as Record<string, unknown>;
  for (const [key, schema] of Object.entries(shape)) {
    const name = camelKey(key);
    if (resolved[name] !== undefined) resolved[name] = withPath(schema, resolved[name], folder);
  }
  return resolved as T;
}

/** The paths among options (in camelCase), with their keys in the YAML. */
export function pathsIn(
  shape: Readonly<Record<string, z.core.$ZodType>>,
  options: Readonly<Record<string, unknown>>,
): [key: string[], path: string][] {
  return Object.entries(shape).flatMap(([key, schema]): [string[], string][] => {
    const { core, info } = unwrap(schema);
    const option = options[camelKey(key)];
    if (typeof option === 'string') return info?.path ? [[[key], option]] : [];
    if (!(core instanceof z.ZodObject) || typeof option !== 'object' || option === null) return [];
    return pathsIn(core.shape, option as Record<string, unknown>).map(([below, path]) => [[key, ...below], path]);
  });
}
