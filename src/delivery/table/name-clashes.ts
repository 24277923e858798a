import { CdsyncError } from '../../core/errors.js';
import type { IdentifierRules } from '../../sdk/identifier-rules.js';
import { TargetNames } from '../target-names.js';
import type { MapEntry } from './record.js';

/** Columns that cdsync adds to the rows of some mode or destination. */
const addedColumns = ['_op', '_run_id', '_synced_at', '_deleted_at', '_cdsync_load'];

/** The column beside a column that has the text of every value, as far as its name is free. */
export function variantName(target: string): string {
  return `${target}__text`;
}

/** A column of the stream, and the name that it shall have at the destination. */
interface NamedColumn {
  readonly path: string;
  readonly name: string;
  readonly as: string;
  readonly isDropped: boolean;
  readonly isKey: boolean;
}

/** A name in use at the destination, and the column that has it. */
interface NameUse {
  readonly name: string;
  /** Undefined: cdsync adds the column. */
  readonly column: NamedColumn | undefined;
}

interface NameCheck {
  readonly stream: string;
  /** The destination's rules for names; left out for records, which have neither such rules nor columns beside a column. */
  readonly rules?: IdentifierRules | undefined;
  /** The column map of a table that exists. */
  readonly map?: ReadonlyMap<string, MapEntry> | undefined;
}

/** All forms by which a name may meet another one: in small letters, as the destination compares names, and after it was cut. */
function formsOf(name: string, rules: IdentifierRules | undefined): string[] {
  const names = new TargetNames(rules);
  return [
    ...new Set([name, names.give(name)].flatMap((text) => [text.toLowerCase(), names.folded(text.toLowerCase())])),
  ];
}

/** The names that a column has at a destination, or will have when a value no longer fits its type. */
function usesOf(column: NamedColumn, { rules, map }: NameCheck): NameUse[] {
  const entry = map?.get(column.path);
  const recorded = entry !== undefined && entry.as === column.as ? [entry.target, entry.variant] : [];
  const variant = rules === undefined || column.isKey ? [] : [variantName(column.as)];
  const names = [column.as, ...variant, ...recorded].filter((name) => name !== null);
  return names.map((name) => ({ name, column }));
}

/**
 * A rename may not give a column a name that another has, or may get: values would change places in silence. Columns that have such
 * names from the source are no mistake of the configuration; one of them gets a suffix.
 * @throws {CdsyncError} `destination_columns`
 */
export function assertDistinctNames(columns: readonly NamedColumn[], check: NameCheck): void {
  const { stream, rules } = check;
  const present = columns.filter(({ isDropped }) => !isDropped);
  const renamed = present.filter(({ as, name }) => as !== name);
  if (renamed.length === 0) return;
  const uses = [
    ...addedColumns.map((name): NameUse => ({ name, column: undefined })),
    ...present.flatMap((column) => usesOf(column, check)),
  ];
  const byForm = new Map<string, NameUse[]>();
  for (const use of uses)
    for (const form of formsOf(use.name, rules)) byForm.set(form, [...(byForm.get(form) ?? []), use]);
  for (const { path, name, as } of renamed) {
    const met = formsOf(as, rules).flatMap((form) => byForm.get(form) ?? []);
    const other = met.find(({ column }) => column?.path !== path);
    if (other !== undefined) throw namesClash(stream, { name, as }, other);
  }
}

function namesClash(stream: string, { name, as }: Pick<NamedColumn, 'name' | 'as'>, other: NameUse): CdsyncError {
  const whose =
    other.column === undefined ? 'a column that cdsync adds' : `column "${other.column.name}" of the same stream`;
  return new CdsyncError(
    `column "${name}" of stream "${stream}" cannot be "${as}" in the destination: ${whose} is "${other.name}" there`,
    {
      code: 'destination_columns',
      stream,
      hint: 'give one of them another name with `rename`, or drop it; nothing was sent',
    },
  );
}
