import { formatNames } from './quantities.js';

/** A column that is new, or has another type than in the snapshot before; or that has a second column at a destination now. */
export interface SchemaChange {
  /** Its path: `id`, `attributes.email`. */
  column: string;
  /**
   * `type_fell_back`: a value did not fit the type that a rule or `strings: infer` gave, and the column is text now.
   * `variant_column`: the column of a destination cannot hold the new type, so a column with the text of every value is beside it.
   */
  change: 'column_added' | 'type_widened' | 'type_fell_back' | 'variant_column';
  /** DuckDB type; null for a new column. */
  from: string | null;
  to: string;
  /** Of a variant column: the destination, and the name of the column there. */
  destination?: string | undefined;
  variant?: string | undefined;
}

/** The most columns that one line names. */
const namedColumns = 5;

/** The changes that count: of a stream that is not ok, only those that a destination has already. */
export function countedSchemaChanges({
  status,
  schema_changes: changes = [],
}: {
  readonly status: string;
  readonly schema_changes?: readonly SchemaChange[];
}): readonly SchemaChange[] {
  return status === 'ok' ? changes : changes.filter(({ change }) => change === 'variant_column');
}

/** The changes of a stream's columns, a line for each kind. */
export function schemaLines(changes: readonly SchemaChange[]): string[] {
  const of = (kind: SchemaChange['change']) => changes.filter(({ change }) => change === kind);
  const added = of('column_added').map(({ column, to }) => `${column} (${to})`);
  const widened = of('type_widened').map(({ column, from, to }) => `${column} (${from} to ${to})`);
  const fellBack = of('type_fell_back').map(({ column, from }) => `${column} (was ${from})`);
  const variants = of('variant_column').map(
    ({ variant, from, destination }) => `${variant} in ${destination}, because the column there is ${from}`,
  );
  return [
    ...(added.length === 0 ? [] : [`new columns: ${formatNames(added, namedColumns)}`]),
    ...(widened.length === 0 ? [] : [`wider types: ${formatNames(widened, namedColumns)}`]),
    ...(fellBack.length === 0
      ? []
      : [`text again, because a value does not fit: ${formatNames(fellBack, namedColumns)}`]),
    ...(variants.length === 0 ? [] : [`new text columns: ${formatNames(variants, namedColumns)}`]),
  ];
}
