import type * as S3 from '@aws-sdk/client-s3';
import type { Upload } from '@aws-sdk/lib-storage';
import { proxyAgents } from '../../core/proxy-agents.js';
import type { Secret } from '../../core/secret.js';
import { vendorLibrary } from '../errors.js';
import { silenceMs } from '../silence.js';

/** Where a bucket is, and how to log in. */
export interface S3Options {
  /** `s3://bucket/prefix` */
  readonly url: string;
  readonly endpoint?: string | undefined;
  readonly region?: string | undefined;
  readonly accessKeyId?: string | undefined;
  readonly secretAccessKey?: Secret | undefined;
  readonly sessionToken?: Secret | undefined;
  readonly pathStyle?: boolean | undefined;
  readonly notice: (line: string) => void;
  /** Ends all requests that are under way. */
  readonly signal: AbortSignal;
}

/** The SDK, which is loaded only for a job that names a bucket. */
export interface Library {
  readonly s3: typeof S3;
  readonly Upload: typeof Upload;
}

const connectMs = 10_000;
/** As many as the SDK itself opens. */
const maxSockets = 50;

/** @throws {CdsyncError} `connector_package_missing` */
export async function loadLibrary(): Promise<Library> {
  // Without this, the SDK warns about each version of Node that it will stop supporting.
  process.env.AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED = 'true';
  return vendorLibrary('@aws-sdk/client-s3 @aws-sdk/lib-storage', async () => {
    const [s3, { Upload }] = await Promise.all([import('@aws-sdk/client-s3'), import('@aws-sdk/lib-storage')]);
    return { s3, Upload };
  });
}

export function clientOf({ s3 }: Library, options: S3Options): S3.S3Client {
  const { endpoint, region, accessKeyId, secretAccessKey, sessionToken, pathStyle } = options;
  // Stores other than AWS accept any region, and some do not know the checksums that the SDK adds by default.
  const otherStore = {
    endpoint: endpoint ?? '',
    region: region ?? process.env.AWS_REGION ?? 'us-east-1',
    requestChecksumCalculation: 'WHEN_REQUIRED',
    responseChecksumValidation: 'WHEN_REQUIRED',
  } as const;
  const login = {
    accessKeyId: accessKeyId ?? '',
    secretAccessKey: secretAccessKey?.reveal() ?? '',
    ...(sessionToken === undefined ? {} : { sessionToken: sessionToken.reveal() }),
  };
  return new s3.S3Client({
    maxAttempts: 4,
    requestHandler: {
      connectionTimeout: connectMs,
      // Then the request is tried again on another connection.
      socketTimeout: silenceMs,
      ...proxyAgents(process.env, { timeoutMs: connectMs, maxSockets }),
    },
    forcePathStyle: pathStyle ?? endpoint !== undefined,
    ...(endpoint === undefined ? {} : otherStore),
    ...(region === undefined ? {} : { region }),
    ...(secretAccessKey === undefined ? {} : { credentials: login }),
  });
}
