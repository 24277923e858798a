/** A column that is new, or has another type than in the snapshot before. */
export interface SchemaChange {
  /** Its path: `id`, `attributes.email`. */
  column: string;
  /** `type_fell_back`: a value did not fit the type that a rule or `strings: infer` gave, and the column is text now. */
  change: 'column_added' | 'type_widened' | 'type_fell_back';
  /** DuckDB type; null for a new column. */
  from: string | null;
  to: string;
}

/** The most columns that one line names. */
const namedColumns = 5;

function listed(names: readonly string[]): string {
  const more = names.length > namedColumns ? ` and ${names.length - namedColumns} more` : '';
  return `${names.slice(0, namedColumns).join(', ')}${more}`;
}

/** The changes of a stream's columns, a line for each kind. */
export function schemaLines(changes: readonly SchemaChange[]): string[] {
  const of = (kind: SchemaChange['change']) => changes.filter(({ change }) => change === kind);
  const added = of('column_added').map(({ column, to }) => `${column} (${to})`);
  const widened = of('type_widened').map(({ column, from, to }) => `${column} (${from} to ${to})`);
  const fellBack = of('type_fell_back').map(({ column, from }) => `${column} (was ${from})`);
  return [
    ...(added.length === 0 ? [] : [`new columns: ${listed(added)}`]),
    ...(widened.length === 0 ? [] : [`wider types: ${listed(widened)}`]),
    ...(fellBack.length === 0 ? [] : [`text again, because a value does not fit: ${listed(fellBack)}`]),
  ];
}
