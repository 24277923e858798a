import { vendorLibrary } from '../../src/sdk/index.js';

/** A failure as snowflake-sdk tells it: codes of the server are text such as `003001`, its own are numbers such as 401001. */
export interface SnowflakeFailure {
  readonly message: string;
  readonly code?: string | number | undefined;
  readonly sqlState?: string | undefined;
}

export interface Statement {
  /** Of INSERT, UPDATE, DELETE and MERGE: how many rows they have changed. */
  getNumUpdatedRows(): number | undefined;
  cancel(callback: (error: SnowflakeFailure | undefined) => void): void;
}

export interface StatementRequest {
  readonly sqlText: string;
  readonly binds: (string | number)[];
  /** Types that come as text, with all their digits. */
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

/** How snowflake-sdk is told where to connect, and as whom. */
export interface ConnectionOptions {
  readonly account: string;
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
}

/** The part of snowflake-sdk that is used here: the package itself is installed only by those who load Snowflake. */
export interface SnowflakeSdk {
  configure(options: { readonly logLevel: 'OFF' }): void;
  createConnection(options: ConnectionOptions): Connection;
}

/** @throws {CdsyncError} `connector_package_missing` */
export function installedSdk(): Promise<SnowflakeSdk> {
  // Not as a literal: the compiler would look for it.
  const name: string = 'snowflake-sdk';
  // The AWS SDK in it warns of every version of Node that it will not support one day.
  process.env.AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED = 'true';
  return vendorLibrary(name, async () => ((await import(name)) as { readonly default: SnowflakeSdk }).default);
}
