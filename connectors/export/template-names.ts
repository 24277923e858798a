import { TextTemplate } from '../../src/sdk/index.js';

/** The names that a template uses, in placeholders and in tags; none if it cannot be read. */
export function namesIn(template: unknown): TextTemplate['columns'] {
  if (typeof template !== 'string') return [];
  try {
    return new TextTemplate(template).columns;
  } catch {
    return [];
  }
}

/** Whether a template uses a name: `{{ op }}`, or `{% if op == 'deleted' %}`. */
export function uses(template: unknown, name: string): boolean {
  return namesIn(template).some((it) => it.name === name);
}
