import { formatCount } from '../core/quantities.js';
import type { ReportedError } from '../core/run.js';

interface Checked {
  readonly job: string;
  readonly warnings: readonly string[];
  readonly streams: readonly {
    readonly name: string;
    readonly total: number | null;
    readonly error: ReportedError | null;
  }[];
}

/** What a check has found, for people. */
export function checkLines({ job, warnings, streams }: Checked): string[] {
  const lines = streams.flatMap(({ name, total, error }) => {
    if (error === null) return [`  ok      ${name}${total === null ? '' : `: ${formatCount(total)} records`}`];
    const failed = `  failed  ${name}: ${error.message} [${error.code}]`;
    return error.hint === null ? [failed] : [failed, `          ${error.hint}`];
  });
  return [`job ${job}`, ...lines, ...warnings.map((warning) => `warning: ${warning}`)];
}
