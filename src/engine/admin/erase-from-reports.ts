import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { writeFileAtomically } from '../../core/durable.js';
import type { JobLayout } from '../../storage/layout.js';

/** Members of a report whose sentences may name keys of rows. */
const sentences = new Set(['message', 'hint', 'why']);

/** A report without these keys. Its counts, ids and names stay, also those that contain the text of a key. */
export function withoutKeys(report: string, keys: readonly string[]): string {
  const erased = (text: string) =>
    keys.filter((key) => key !== '').reduce((rest, key) => rest.replaceAll(key, '[forgotten]'), text);
  try {
    const parsed: unknown = JSON.parse(report, (name, value: unknown) =>
      typeof value === 'string' && sentences.has(name) ? erased(value) : value,
    );
    return `${JSON.stringify(parsed, null, 1)}\n`;
  } catch {
    // No command reads such a file, but it may still name a key.
    return erased(report);
  }
}

/** Erases keys from reports: the messages of guards name some. */
export async function eraseFromReports(layout: JobLayout, keys: readonly string[]): Promise<void> {
  for (const name of await readdir(layout.reports)) {
    if (!name.endsWith('.json')) continue;
    const path = join(layout.reports, name);
    const text = await readFile(path, 'utf8');
    const erased = withoutKeys(text, keys);
    if (erased !== text) await writeFileAtomically(path, erased);
  }
}
