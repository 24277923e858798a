/**
 * - `auto`: DuckDB tries its ways for each column, and chooses.
 * - `zstd`: for large texts. In a segment that is not compressed, a NULL has the position of the text before it, so a scan copies a
 *   large text up to 2048 times; DuckDB chooses zstd only if texts are large on average.
 * - `uncompressed`: for tables of few rows. To try costs four times as much as writing them, and makes nothing smaller.
 */
export type Compression = 'auto' | 'zstd' | 'uncompressed';

/**
 * SQL that makes DuckDB write so from now on. A commit of large texts goes into the file at once: DuckDB would write it into its log
 * first, and has a row group in memory for that, outside of its limit.
 */
export function compressionSettings(compression: Compression): string {
  const [rows, bytes] = compression === 'zstd' ? [0, '0B'] : [100_000, '16MB'];
  return `SET force_compression = '${compression}'; SET auto_checkpoint_skip_wal_threshold = ${rows}; SET checkpoint_threshold = '${bytes}'`;
}
