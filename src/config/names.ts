import { z } from 'zod';

const pattern = /^[a-z][a-z0-9_]{0,47}$/;
const reservedEndings = ['_as_of', '_history', '_changes'];

/** Why a text cannot name a job, a stream or a destination; undefined where it can. */
export function nameFault(name: string): string | undefined {
  if (!pattern.test(name)) return 'a name is 1 to 48 of a-z, 0-9 and _, and begins with a letter';
  if (name.includes('__')) return 'a name may not contain "__": <stream>__changes and its like are tables of cdsync';
  const ending = reservedEndings.find((reserved) => name.endsWith(reserved));
  if (ending !== undefined) return `a name may not end in "${ending}": cdsync publishes views and macros of such names`;
  return undefined;
}

/** The name of a job, a stream or a destination. */
export function nameSchema(reserved: readonly string[] = []) {
  return z
    .string()
    .regex(pattern)
    .superRefine((name, context) => {
      const fault =
        nameFault(name) ?? (reserved.includes(name) ? `"${name}" is a name that cdsync itself uses` : undefined);
      if (fault !== undefined && pattern.test(name)) context.addIssue({ code: 'custom', message: fault });
    });
}

export const nameRule =
  '1 to 48 of a-z, 0-9 and _, beginning with a letter; no "__"; not ending in _as_of, _history or _changes';
