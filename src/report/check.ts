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
  readonly contracts:
    | readonly {
        readonly name: string;
        readonly records: number;
        readonly differences: readonly string[];
        readonly texts: readonly string[];
        readonly breaks: boolean;
      }[]
    | null;
}

/** So many columns are named. */
const mostNamed = 20;

function textLines(texts: readonly string[]): string[] {
  const rest = texts.length - mostNamed;
  const more = rest > 0 ? [`          and ${rest} more columns of text`] : [];
  return [...texts.slice(0, mostNamed).map((line) => `          ${line}`), ...more];
}

function contractLines(contracts: NonNullable<Checked['contracts']>): string[] {
  if (contracts.length === 0) return ['columns: there is no snapshot yet to compare with'];
  return contracts.flatMap(({ name, records, differences, texts, breaks }) => {
    const sample = `${formatCount(records)} records that the service has now`;
    if (records === 0) return [`  ok      ${name}: the service has no records to compare with the last snapshot`];
    if (differences.length === 0)
      return [`  ok      ${name}: columns and types of ${sample} are those of the last snapshot`, ...textLines(texts)];
    const verdict = breaks ? '  breaks ' : '  changes';
    return [
      `${verdict} ${name}: ${sample}`,
      ...differences.map((difference) => `          ${difference}`),
      ...textLines(texts),
    ];
  });
}

/** The result of a check, for people. */
export function checkLines({ job, warnings, streams, contracts }: Checked): string[] {
  const lines = streams.flatMap(({ name, total, error }) => {
    if (error === null) return [`  ok      ${name}${total === null ? '' : `: ${formatCount(total)} records`}`];
    const failed = `  failed  ${name}: ${error.message} [${error.code}]`;
    return error.hint === null ? [failed] : [failed, `          ${error.hint}`];
  });
  const compared = contracts === null ? [] : contractLines(contracts);
  return [`job ${job}`, ...lines, ...compared, ...warnings.map((warning) => `warning: ${warning}`)];
}
