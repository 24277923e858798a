import { type Deprecation, deprecationLine } from '../core/deprecation.js';
import { parseMoment } from '../core/quantities.js';
import type { ApiGroup } from '../core/service-options.js';
import type { ResponseHeaders } from './response-reader.js';

/** Notes the API versions whose end the service announces, and reports each once. */
export class Deprecations {
  readonly #notice: (text: string) => void;
  readonly #announced = new Map<string, Deprecation>();

  constructor(notice: (text: string) => void) {
    this.#notice = notice;
  }

  /** Every announcement so far. */
  get all(): Deprecation[] {
    return [...this.#announced.values()];
  }

  /** Looks at the `Deprecation` and `Sunset` headers of a response (published notes, Everywhere). */
  notice(api: ApiGroup, version: string | null, headers: ResponseHeaders): void {
    const deprecated = said(headers.deprecation);
    const sunset = said(headers.sunset);
    if (deprecated === null && sunset === null) return;
    const key = JSON.stringify([api, version, deprecated, sunset]);
    if (this.#announced.has(key)) return;
    const versions = { api, version, deprecated, sunset };
    this.#announced.set(key, versions);
    this.#notice(`warning: ${deprecationLine(versions)}`);
  }
}

/** Values of `Deprecation` by which a service says that a version is not deprecated. */
const denials = new Set(['', 'false', '?0', '0', 'no']);

/**
 * A header's value: a date as ISO 8601 (UTC), `true` without one, any other text unchanged, cut to 100 characters. Null: nothing
 * is announced.
 */
function said(value: string | string[] | undefined): string | null {
  const text = (Array.isArray(value) ? value.join(', ') : (value ?? '')).trim();
  if (denials.has(text.toLowerCase())) return null;
  if (/^(true|\?1|1|yes)$/i.test(text)) return 'true';
  const seconds = /^@(\d{1,12})$/.exec(text)?.[1];
  const time = seconds === undefined ? parsedDate(text) : Number(seconds) * 1000;
  if (!Number.isNaN(time)) return new Date(time).toISOString();
  return text.replace(/[^\x20-\x7e]+/g, ' ').slice(0, 100);
}

/** Milliseconds of an HTTP date or a date of ISO 8601; NaN for other text: `Date.parse` takes `version 2` for a date. */
function parsedDate(text: string): number {
  return /^[a-z]{3,9},? .*\b(GMT|UTC)$/i.test(text) ? Date.parse(text) : parseMoment(text);
}
