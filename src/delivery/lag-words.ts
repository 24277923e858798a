import { formatCount, formatCounted, formatDuration } from '../core/quantities.js';

/** The state of a stream at a destination, as the job's folder remembers it. */
export interface DestinationStatus {
  name: string;
  stream: string;
  table: string | null;
  /** Number of the snapshot that the destination has; null if nothing was delivered yet. */
  sequence: number | null;
  /** ISO 8601, UTC. */
  delivered_at: string | null;
  /** Number of commits that the destination lacks. */
  behind: number;
  /** When the run of the first of them began: ISO 8601, UTC; null if it lacks none, or that is not known. */
  behind_since: string | null;
  /** Number of changes that the destination lacks; null if it needs the whole snapshot. */
  pending: number | null;
  /** The action of the last load, and its reason; null if nothing was ever loaded. */
  last_action: string | null;
  last_why: string | null;
  /** Number of values that a table cannot hold, or of records that a receiver refused. */
  refused: number;
  /** Number of records that the destination failed on while it took others: each delivery sends them first. */
  waiting: number;
  /** Number of erasures (`cdsync forget`) that the destination has not carried out, and one more if a removal is owed there. */
  erasures_pending: number;
  /** When the first of these erasures was asked for: ISO 8601; null if there is none, or only a removal is owed. */
  erasures_since: string | null;
  /** An unfinished delivery of records: their number, and how many are acknowledged. */
  outbox: { records: number; acknowledged: number } | null;
}

/** How far a destination is behind, in words. */
export function lagWords(status: DestinationStatus, nowMs: number): string {
  const { behind, behind_since, pending, refused, waiting, outbox, sequence, erasures_pending, erasures_since } =
    status;
  const words: string[] = [];
  if (outbox !== null)
    words.push(`${formatCount(outbox.acknowledged)} of ${formatCounted(outbox.records, 'record')} sent`);
  const late = behind_since === null ? Number.NaN : nowMs - Date.parse(behind_since);
  const since = late >= 0 ? ` since ${formatDuration(late)}` : '';
  if (behind > 0) {
    const what = pending === null ? 'needs the whole snapshot' : `lacks ${formatCounted(pending, 'change')}`;
    words.push(
      sequence === null ? 'nothing delivered yet' : `${formatCounted(behind, 'commit')} behind${since}, ${what}`,
    );
  }
  if (erasures_pending > 0) {
    const asked = erasures_since === null ? '' : ` since ${erasures_since.slice(0, 10)}`;
    words.push(`${formatCounted(erasures_pending, 'erasure')} (forget, or a rule) not carried out yet${asked}`);
  }
  if (refused > 0) words.push(`${formatCounted(refused, 'reject')} (cdsync rejects)`);
  if (waiting > 0)
    words.push(`${formatCounted(waiting, 'record')} ${waiting === 1 ? 'waits' : 'wait'} (cdsync rejects)`);
  if (words.length === 0 && sequence === null) return 'nothing published yet';
  return words.length === 0 ? 'up to date' : words.join('; ');
}
