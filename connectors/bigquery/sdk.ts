import { vendorLibrary } from '../../src/sdk/index.js';

/** A failure of @google-cloud/bigquery: `code` is the HTTP status, the reasons are the API's. */
export interface BigqueryFailure {
  readonly message: string;
  readonly code?: string | number | undefined;
  readonly errors?: readonly { readonly reason?: string; readonly message?: string }[] | undefined;
}

/** How many rows a change has changed; a count that is zero may be left out. */
export interface DmlStats {
  readonly insertedRowCount?: string;
  readonly updatedRowCount?: string;
  readonly deletedRowCount?: string;
}

export interface JobMetadata {
  readonly statistics?: {
    readonly query?: { readonly dmlStats?: DmlStats };
    readonly sessionInfo?: { readonly sessionId?: string };
  };
}

export interface Job {
  /** Where it runs; known once it was created. */
  readonly location?: string | undefined;
  /** Resolves with the rows of a finished query. */
  getQueryResults(): Promise<readonly [readonly Readonly<Record<string, unknown>>[], ...unknown[]]>;
  getMetadata(): Promise<readonly [JobMetadata, ...unknown[]]>;
  /** Resolves once a job other than a query is done. */
  promise(): Promise<unknown>;
  cancel(): Promise<unknown>;
}

export interface QueryRequest {
  readonly query: string;
  readonly useLegacySql: false;
  readonly defaultDataset: { readonly projectId: string; readonly datasetId: string };
  readonly labels: Readonly<Record<string, string>>;
  /** Only looks at the query. */
  readonly dryRun?: true;
  /** Begins a session, whose id the job's metadata have. */
  readonly createSession?: true;
  /** The session that the query is a part of. */
  readonly connectionProperties?: readonly { readonly key: 'session_id'; readonly value: string }[];
  readonly location?: string;
}

export interface LoadField {
  readonly name: string;
  readonly type: string;
  readonly mode: 'NULLABLE';
  readonly precision?: string;
  readonly scale?: string;
}

/** `configuration.load` of a job, and nothing else: the library sends it unchanged. */
export interface LoadRequest {
  readonly sourceFormat: 'PARQUET';
  readonly schema: { readonly fields: LoadField[] };
  readonly createDisposition: 'CREATE_NEVER';
  readonly writeDisposition: 'WRITE_TRUNCATE' | 'WRITE_APPEND';
}

export interface BigqueryClient {
  createQueryJob(request: QueryRequest): Promise<readonly [Job, ...unknown[]]>;
  dataset(id: string): {
    table(id: string): {
      /** Uploads a file and begins to load it. */
      createLoadJob(path: string, request: LoadRequest): Promise<readonly [Job, ...unknown[]]>;
    };
  };
}

export interface ClientOptions {
  readonly projectId: string;
  /** The location of all jobs. */
  readonly location?: string;
  readonly keyFilename?: string;
  readonly credentials?: Readonly<Record<string, unknown>>;
  readonly userAgent: string;
}

/** The part of @google-cloud/bigquery that this connector uses. Declared here because only its users install the package. */
export interface BigquerySdk {
  readonly BigQuery: new (options: ClientOptions) => BigqueryClient;
}

/** @throws {CdsyncError} `connector_package_missing` */
export function installedSdk(): Promise<BigquerySdk> {
  // Not a literal: the compiler would look for the package.
  const name: string = '@google-cloud/bigquery';
  return vendorLibrary(name, async () => (await import(name)) as BigquerySdk);
}
