import type { DestinationContext, TableCapabilities, TableConnector } from '../destination.js';
import type { TypeTable } from '../load.js';
import type { SqlDialect } from '../sql/dialect.js';
import type { postgresOptions } from './options.js';

export type PostgresContext = DestinationContext<typeof postgresOptions>;

/** How a database that speaks the protocol and the SQL of PostgreSQL differs from it. Members that are left out are as in PostgreSQL. */
export interface PostgresFamily {
  /** As `connector:` names it. */
  readonly name: string;
  /** As messages name it. */
  readonly product: string;
  readonly erasure: NonNullable<TableConnector['erasure']>;
  /** The port of a URL without one. Default: 5432. */
  readonly port?: number;
  readonly capabilities?: Partial<TableCapabilities>;
  /** Types of columns, as `format_type` spells them. */
  readonly types?: Partial<TypeTable>;
  readonly dialect?: Partial<SqlDialect>;
}
