import { vendorLibrary } from '../../src/sdk/index.js';

/** A failure of snowflake-sdk: the server's codes are texts such as `003001`, the driver's own are numbers such as 401001. */
export interface SnowflakeFailure {
  readonly message: string;
  readonly code?: string | number | undefined;
  readonly sqlState?: string | undefined;
}

export interface Statement {
  /** How many rows an INSERT, UPDATE, DELETE or MERGE has changed. */
  getNumUpdatedRows(): number | undefined;
  cancel(callback: (error: SnowflakeFailure | undefined) => void): void;
}

export interface StatementRequest {
  readonly sqlText: string;
  /** Types whose values come as text, with all their digits. */
  readonly fetchAsString: 'Number'[];
  complete(
    error: SnowflakeFailure | null | undefined,
    statement: Statement,
    rows: readonly Readonly<Record<string, unknown>>[] | undefined,
  ): void;
}

export interface Connection {
  connect(callback: (error: SnowflakeFailure | null | undefined) => void): void;
  execute(request: StatementRequest): Statement;
  destroy(callback: (error: SnowflakeFailure | null | undefined) => void): void;
}

/** The account, login and session that snowflake-sdk connects with. */
export interface ConnectionOptions {
  readonly account: string;
  /** The URL of the server, in place of the one that follows from the account. */
  readonly accessUrl?: string;
  readonly username: string;
  readonly authenticator: 'SNOWFLAKE' | 'SNOWFLAKE_JWT' | 'PROGRAMMATIC_ACCESS_TOKEN' | 'OAUTH';
  readonly password?: string;
  readonly privateKey?: string;
  readonly privateKeyPath?: string;
  readonly privateKeyPass?: string;
  readonly token?: string;
  readonly database: string;
  readonly schema: string;
  readonly warehouse?: string;
  readonly role?: string;
  readonly application: string;
  readonly clientSessionKeepAlive: boolean;
  /** With `fetchAsString`, NULL arrives as the text `NULL` unless this is false. */
  readonly representNullAsStringNull: false;
}

/** The part of snowflake-sdk that this connector uses. Declared here because only its users install the package. */
export interface SnowflakeSdk {
  configure(options: { readonly logLevel: 'OFF' }): void;
  createConnection(options: ConnectionOptions): Connection;
}

/** @throws {CdsyncError} `connector_package_missing` */
export function installedSdk(): Promise<SnowflakeSdk> {
  // Not a literal: the compiler would look for the package.
  const name: string = 'snowflake-sdk';
  // Without this, the AWS SDK in it warns about each version of Node that it will stop supporting.
  process.env.AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED = 'true';
  return vendorLibrary(name, async () => ((await import(name)) as { readonly default: SnowflakeSdk }).default);
}
