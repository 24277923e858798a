import { formatCounted } from '../core/quantities.js';
import type { CheckResult } from '../engine/plan/check-job.js';

/** At most this many columns are named. */
const maxNamed = 20;

function textLines(texts: readonly string[]): string[] {
  const rest = texts.length - maxNamed;
  const more = rest > 0 ? [`          and ${rest} more columns of text`] : [];
  return [...texts.slice(0, maxNamed).map((line) => `          ${line}`), ...more];
}

function contractLines(contracts: NonNullable<CheckResult['contracts']>): string[] {
  if (contracts.length === 0) return ['columns: there is no snapshot yet to compare with'];
  return contracts.flatMap(({ name, records, differences, texts, breaks }) => {
    const sample = `${formatCounted(records, 'record')} that the service has now`;
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

function failed(name: string, message: string, hint: string | null): string[] {
  return [`  failed  ${name}: ${message}`, ...(hint === null ? [] : [`          ${hint}`])];
}

function destinationLines({ name, reached, lacks, untried, error }: CheckResult['destinations'][number]): string[] {
  const place = `destination ${name}`;
  if (error !== null) return failed(place, `${error.message} [${error.code}]`, error.hint);
  const later = untried === null ? '' : `; ${untried}`;
  if (lacks.length === 0) return [`  ok      ${place}: ${reached}${later}`];
  return lacks.flatMap(({ message, hint }) => failed(place, message, hint));
}

/** The result of a check, for people. */
export function checkLines({ job, warnings, streams, destinations, contracts }: CheckResult): string[] {
  const lines = streams.flatMap(({ name, total, untried, error }) => {
    const details = [
      ...(total === null ? [] : [`${formatCounted(total, 'record')}`]),
      ...(untried === null ? [] : [untried]),
    ];
    if (error === null) return [`  ok      ${name}${details.length === 0 ? '' : `: ${details.join('; ')}`}`];
    return failed(name, `${error.message} [${error.code}]`, error.hint);
  });
  const compared = contracts === null ? [] : contractLines(contracts);
  return [
    `job ${job}`,
    ...lines,
    ...destinations.flatMap(destinationLines),
    ...compared,
    ...warnings.map((warning) => `warning: ${warning}`),
  ];
}

/** 4 if everything that failed was refused because of a missing login or permission, else 1. */
export function exitCodeOfCheck({ streams, destinations, contracts }: CheckResult): 1 | 4 {
  const refused = [
    ...streams.flatMap(({ error }) => (error === null ? [] : [error.auth])),
    ...destinations.flatMap(({ status, error }) => (status === 'ok' ? [] : [error === null || error.auth])),
    ...(contracts ?? []).flatMap(({ breaks }) => (breaks ? [false] : [])),
  ];
  return refused.length > 0 && refused.every(Boolean) ? 4 : 1;
}

/** The next step after a check that has failed: never a run, which would fail too. */
export function nextAfterCheck({ streams, destinations, contracts }: CheckResult): string {
  const errors = streams.flatMap(({ error }) => error ?? []);
  if (destinations.some(({ status }) => status === 'failed') && errors.length === 0)
    return 'correct the destination, then: cdsync check';
  if (errors.length === 0 && contracts?.some(({ breaks }) => breaks))
    return "change the stream's `contract:`, or the service's records, then: cdsync check --contract";
  // Without a login, discover fails as well.
  if (errors.length > 0 && errors.every(({ code }) => code === 'forbidden'))
    return 'see what the key may read: cdsync discover';
  return 'correct it, then: cdsync check';
}
