import type { ConfigProblem, ConfigProblems, ProblemDetails } from './problem.js';
import { isPlainMap } from './reader.js';

type PlainMap = Record<string, unknown>;

/** A stream whose file was read, but not its variables. */
export interface LintedStream {
  readonly name: string;
  /** Undefined if it has none, or one with a variable that is not set. */
  readonly query: string | undefined;
  readonly source: unknown;
  /** A problem of the query, at its place in the file. */
  readonly problem: (fault: ProblemDetails) => ConfigProblem;
}

/** The streams of the chosen jobs. Jobs with a stream whose name is not known are left out. */
export function lintedJobs(
  jobs: PlainMap,
  chosen: readonly string[] | undefined,
  findings: ConfigProblems,
): LintedStream[][] {
  const wanted = chosen ?? Object.keys(jobs);
  return wanted.flatMap((job) => {
    const part = jobs[job];
    const streams: unknown[] = isPlainMap(part) && Array.isArray(part.streams) ? part.streams : [];
    const linted = streams.flatMap((stream, index) => {
      if (!isPlainMap(stream) || typeof stream.name !== 'string') return [];
      const lists: [string, unknown][] = ['ids', 'keys'].map((key) => [key, stream[key]]);
      const [from] = lists.filter(([, list]) => isPlainMap(list) && list.sql !== undefined);
      const [at, query] =
        from === undefined ? [['query'], stream.query] : [[from[0], 'sql'], (from[1] as PlainMap).sql];
      const site = findings.site(['jobs', job, 'streams', index, ...at]);
      const problem = (fault: ProblemDetails) => findings.problem(site, fault);
      return [
        { name: stream.name, source: stream.source, query: typeof query === 'string' ? query : undefined, problem },
      ];
    });
    return linted.length === streams.length ? [linted] : [];
  });
}
