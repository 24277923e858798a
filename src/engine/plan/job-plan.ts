import type { StreamConfig } from '../../config/config.js';
import type { ReportedError } from '../../core/run-report.js';
import type { ApiGroup } from '../../core/service-options.js';
import type { DiskNeed } from '../run/require-space.js';
import type { PlannedReading } from './plan-stream.js';
import type { StreamSample } from './sample-stream.js';

/** The plan of one stream. */
export interface PlannedStream {
  readonly name: string;
  readonly source: StreamConfig['source'];
  /** Null if unknown. */
  readonly reads: PlannedReading['reads'] | 'query' | null;
  readonly group: ApiGroup | null;
  /** Records by the service's own count; null if it gives none. */
  readonly total: number | null;
  /** Records that the run would read; null if only the run itself can count them. */
  readonly records: number | null;
  readonly snapshot_rows: number | null;
  /** Chains of pages that are read at the same time. */
  readonly chains: number | null;
  readonly pages: number | null;
  readonly requests: number | null;
  readonly round_trip_ms: number | null;
  readonly seconds: number | null;
  /**
   * How `partition_by: auto` splits the list, or would split it (`used`): the attributes and the number of parts. Null if reading it as
   * now is best.
   */
  readonly split: {
    readonly by: readonly string[];
    readonly chains: number;
    readonly used: boolean;
  } | null;
  /** The progress of an earlier run that this one would resume. */
  readonly resumes: { readonly run_id: string; readonly records: number; readonly pages: number } | null;
  readonly held: { readonly run_id: string; readonly findings: readonly { guard: string; message: string }[] } | null;
  /** Streams that its query reads. */
  readonly needs: readonly string[];
  readonly sample: {
    readonly records: number;
    readonly rejected: number;
    /** Compared with the snapshot; null if there is none. */
    readonly new: number | null;
    readonly changed: number | null;
    readonly unchanged: number | null;
    readonly columns_added: StreamSample['columnsAdded'];
    readonly columns_widened: StreamSample['columnsWidened'];
  } | null;
  readonly error: (ReportedError & { readonly auth: boolean }) | null;
}

/** The result of `cdsync plan` for one job. */
export interface JobPlan {
  /** `failed` if a stream could not be read, or the disk is too small. */
  readonly status: 'ok' | 'failed';
  readonly job: string;
  /** Number of the current snapshot; null before the first. */
  readonly sequence: number | null;
  /** The run that is under way: another one would exit with 75. */
  readonly running: { readonly run_id: string | null; readonly pid: number; readonly host: string } | null;
  readonly workflows: readonly {
    readonly config_id: string;
    readonly would_start: boolean;
    readonly deadline_ms: number;
  }[];
  readonly streams: readonly PlannedStream[];
  readonly budgets: readonly {
    readonly group: ApiGroup;
    /** Requests a second for this run: the configured limit, divided among the processes that share it now. */
    readonly limit: number;
    /** Other processes that share the limit at present. */
    readonly other_processes: number;
    readonly requests: number;
    /** How long they take if only the limit slows them. */
    readonly seconds: number;
  }[];
  readonly requests: number;
  /** Time of the reading, without workflows. */
  readonly seconds: number;
  readonly disk: {
    readonly need: DiskNeed;
    readonly free: number;
    /** Whether that is too little: `perhaps` by these estimates, or so little that a run would be `refused`. */
    readonly short: 'no' | 'perhaps' | 'refused';
  };
  /** Remarks about costs that the figures do not include. */
  readonly notes: readonly string[];
}
