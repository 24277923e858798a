const before = ' [cdsync: the first load of destination ';
const after = ' has not ended]';

/**
 * The comment of a table while its first load runs. ClickHouse has no transactions: if the load is cut short between its rows and its
 * watermark, the comment shows that the rows are cdsync's own. It is part of the table, so EXCHANGE TABLES brings it with the rows.
 */
export function withUnfinished(comment: string, destination: string): string {
  return comment + before + destination + after;
}

/** Whether a load of this destination has begun to fill the table, and has not ended. */
export function isUnfinished(comment: string, destination: string): boolean {
  return comment.endsWith(before + destination + after);
}

/** The comment that the table had before. */
export function withoutUnfinished(comment: string): string {
  const at = comment.lastIndexOf(before);
  return at >= 0 && comment.endsWith(after) ? comment.slice(0, at) : comment;
}
