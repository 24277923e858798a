import { readFileSync } from 'node:fs';

let packaged: string | undefined;

/** The version of the running cdsync; `0.0.0` if its package.json is not found. */
export function packageVersion(): string {
  if (packaged === undefined) {
    // Two folders up from src/core/ in a checkout, three up from dist/src/core/ in an installed package.
    for (const place of ['../../package.json', '../../../package.json']) {
      try {
        const { name, version } = JSON.parse(readFileSync(new URL(place, import.meta.url), 'utf8'));
        if (name === 'cdsync') packaged = String(version);
      } catch {}
    }
  }
  return packaged ?? '0.0.0';
}
