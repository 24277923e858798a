/**
 * - `auto`: DuckDB tries its ways for each column, and chooses.
 * - `zstd`: for large texts. In a segment that is not compressed, a NULL has the position of the text before it, so a scan copies a
 *   large text up to 2048 times; DuckDB chooses zstd only if texts are large on average.
 * - `uncompressed`: for tables of few rows. To try costs four times as much as writing them, and makes nothing smaller.
 */
export type Compression = 'auto' | 'zstd' | 'uncompressed';

/**
 * SQL that makes commits of large rows go into the file at once: DuckDB would write them into its log first, and has a row group in memory
 * for that, outside of its limit.
 */
export const intoFileAtOnce = "SET auto_checkpoint_skip_wal_threshold = 0; SET checkpoint_threshold = '0B'";

const intoLogFirst = "SET auto_checkpoint_skip_wal_threshold = 100000; SET checkpoint_threshold = '16MB'";

/** SQL that makes DuckDB write so from now on. */
export function compressionSettings(compression: Compression): string {
  return `SET force_compression = '${compression}'; ${compression === 'zstd' ? intoFileAtOnce : intoLogFirst}`;
}
