import type { ApiGroup } from '../core/service-options.js';
import type { AnswerHeaders } from './answer-collector.js';

/** Reports deprecated API versions, once for each group and each announcement. */
export class DeprecationNotices {
  readonly #tell: (notice: string) => void;
  readonly #told = new Set<string>();

  constructor(tell: (notice: string) => void) {
    this.#tell = tell;
  }

  /** Looks at the `Deprecation` and `Sunset` headers of an answer (published facts, Everywhere). */
  notice(group: ApiGroup, version: string | null, headers: AnswerHeaders): void {
    const { deprecation, sunset } = headers;
    if (deprecation === undefined && sunset === undefined) return;
    const key = JSON.stringify([group, deprecation, sunset]);
    if (this.#told.has(key)) return;
    this.#told.add(key);
    const what = `the ${groupNames[group]}${version === null ? '' : ` version ${version}`}`;
    const said = [
      deprecation === undefined ? '' : `it is deprecated (${shown(deprecation)})`,
      sunset === undefined ? '' : `it ends ${shown(sunset)}`,
    ].filter((part) => part !== '');
    this.#tell(`the service says of ${what}: ${said.join(', ')}`);
  }
}

const groupNames: Record<ApiGroup, string> = {
  profile: 'Profile API',
  management: 'Management API',
  realtime: 'Real-time API',
};

/** A date of the form `@<seconds>` is written out; any other text is shown as it came, cut to 100 characters. */
function shown(value: string | string[]): string {
  const text = Array.isArray(value) ? value.join(', ') : value;
  const seconds = /^@(\d{1,12})$/.exec(text)?.[1];
  if (seconds !== undefined) return `since ${new Date(Number(seconds) * 1000).toISOString().slice(0, 10)}`;
  return text.replace(/[^\x20-\x7e]+/g, ' ').slice(0, 100);
}
