export { s3Options, s3Rules } from './options.js';
export type { S3Options, S3Store } from './s3-store.js';

/** Loads what speaks to object stores. The vendor's library comes with the first {@link S3Store} that is opened. */
export function s3Library(): Promise<typeof import('./s3-store.js')> {
  return import('./s3-store.js');
}
