import { z } from 'zod';
import { parseDurationMs } from '../core/quantities.js';
import { Secret } from '../core/secret.js';
import { type Finding, type OptionFacts, option } from './option.js';

/** Text that is not empty. */
export function text(facts: OptionFacts) {
  return option(z.string().min(1), { allowed: 'text that is not empty', ...facts });
}

/** Text that identifies or matches something: kept character for character, `02134` and `1.50` too. */
export function verbatim(facts: OptionFacts) {
  return text({ ...facts, verbatim: true });
}

/** A path of a file or a folder. The YAML gives it relative to its own folder; code gets it absolute. */
export function path(facts: OptionFacts) {
  return text({ allowed: 'a path', check: windowsPath, ...facts, path: true, verbatim: true });
}

/** A path with a drive letter would make a folder of that name elsewhere. */
export function windowsPath(value: unknown): readonly Finding[] {
  if (process.platform === 'win32' || !/^[A-Za-z]:[\\/]/.test(String(value))) return [];
  return [
    { path: [], message: 'a path of Windows, and this is another system: write /srv/data, or ./data beside this file' },
  ];
}

/** A whole number within bounds, both included. */
export function whole(from: number, to: number, facts: OptionFacts) {
  return option(z.int().min(from).max(to), facts);
}

export function flag(facts: OptionFacts) {
  return option(z.boolean(), facts);
}

/** One of a few words. */
export function choice<const V extends readonly [string, ...string[]]>(values: V, facts: OptionFacts) {
  return option(z.enum(values), facts);
}

/** Milliseconds, written with their unit: `90s`, `12h`. */
export function duration(facts: OptionFacts) {
  const schema = z
    .string()
    .regex(/^\d+(\.\d+)?\s*(ms|s|m|h|d|w)$/)
    .transform((written) => parseDurationMs(written) ?? 0);
  return option(schema, { allowed: 'a duration: a number and ms, s, m, h, d or w, such as 90s or 12h', ...facts });
}

/** Milliseconds, or `never`. */
export function durationOrNever(facts: OptionFacts) {
  const schema = z
    .string()
    .regex(/^(never|\d+(\.\d+)?\s*(ms|s|m|h|d|w))$/)
    .transform((written) => (written === 'never' ? ('never' as const) : (parseDurationMs(written) ?? 0)));
  return option(schema, { allowed: 'never, or a duration: a number and ms, s, m, h, d or w, such as 12h', ...facts });
}

/** Text that no output shows: code gets a {@link Secret}. */
export function secret(pattern: RegExp, facts: OptionFacts) {
  const schema = z
    .string()
    .regex(pattern)
    .transform((value) => new Secret(value));
  return option(schema, { allowed: 'text that is not empty', ...facts, secret: true });
}
