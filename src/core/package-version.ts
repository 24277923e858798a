import { readFileSync } from 'node:fs';

let known: string | undefined;

/** The version of cdsync that runs. */
export function packageVersion(): string {
  if (known === undefined) {
    // The same distance from src/core/ in a checkout and from dist/src/core/ in an installed package, but for one folder.
    for (const place of ['../../package.json', '../../../package.json']) {
      try {
        const { name, version } = JSON.parse(readFileSync(new URL(place, import.meta.url), 'utf8'));
        if (name === 'cdsync') known = String(version);
      } catch {}
    }
  }
  return known ?? '0.0.0';
}
