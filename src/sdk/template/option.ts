import { nearest } from '../../core/suggestions.js';
import { z } from '../../core/zod.js';
import type { StreamColumns } from '../destination.js';
import { type OptionInfo, type OptionProblem, option } from '../option.js';
import { templateFaults } from './faults.js';
import { type BodyColumn, changeNames, type NamedColumn } from './template.js';

/** An option whose text is a template. */
export function templateText(info: OptionInfo) {
  return option(z.string().min(1), {
    allowed: 'text, which may have placeholders',
    check: templateFaults,
    ...info,
    template: true,
  });
}

/** A fault for each column that a template names and the stream does not have. */
export function unknownColumns(
  { columns }: { readonly columns: readonly (NamedColumn | BodyColumn)[] },
  stream: StreamColumns,
  path: readonly (string | number)[],
): OptionProblem[] {
  const variables = new Set<string>([...changeNames, ...stream.columns]);
  return columns
    .filter(({ name }) => !variables.has(name))
    .map(({ name, placeholder, ...rest }) => {
      const [near] = nearest(name, [...variables], 1);
      const advice = near === undefined ? '' : `; did you mean "${near}"?`;
      const message = `stream "${stream.name}" has no column "${name}" here${advice}`;
      return { path: [...path, ...('path' in rest ? rest.path : [])], placeholder, message, code: 'template_invalid' };
    });
}
