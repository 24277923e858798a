import { describe, expect, it } from 'vitest';
import { documentOfJobs, exitCodeOfJobs, type JobResult, jobsLine, worstEnds } from '../../../src/cli/for-each-job.js';
import { CdsyncError } from '../../../src/core/errors.js';

const locked = new CdsyncError('job "b" is being run', { code: 'locked', kind: 'locked', hint: 'wait' });
const notBegun = new CdsyncError('not begun', { code: 'not_begun', kind: 'interrupted' });

function ends(...codes: readonly (readonly [code: number, hasDone?: boolean])[]): JobResult[] {
  return codes.map(([code, hasDone = false], index) => ({ job: 'abcdef'[index] as string, code, hasDone, result: {} }));
}

describe('one exit code for several jobs', () => {
  it.each<[number, [number, boolean?][]]>([
    [0, [[0, true], [0]]],
    [75, [[0, true], [75]]],
    [3, [[75], [3, true], [0, true]]],
    [1, [[1], [4], [3]]],
    [4, [[4], [4], [0]]],
    [5, [[4], [0, true]]],
    [5, [[1], [3, true]]],
    [5, [[5, true], [4]]],
    [130, [[5, true], [130], [130]]],
    [2, [[2], [2]]],
    [5, [[2], [0, true]]],
    [1, [[2], [75]]],
  ])('is %i for jobs that ended with %j', (code, jobs) => {
    expect(exitCodeOfJobs(ends(...jobs))).toBe(code);
  });
});

const lockedEnd: JobResult = { job: 'b', code: 75, error: locked };

it('each job has an entry of the same shape in the document, also one that another run has locked', () => {
  const document = documentOfJobs([...ends([0, true], [1]), lockedEnd]);
  expect(document).toMatchObject({
    status: 'partial',
    jobs: [
      {},
      {},
      { job: 'b', run_id: null, status: 'locked', streams: [], destinations: [], error: { code: 'locked' } },
    ],
    error: null,
  });
});

it.each([
  ['the one job', [lockedEnd]],
  ['one of two', [...ends([0, true]), lockedEnd]],
])('with exit code 75 the document has no jobs and an error, if another run has locked %s', (_, all) => {
  expect(documentOfJobs(all)).toEqual({
    status: 'locked',
    retry: true,
    jobs: [],
    error: { code: 'locked', message: 'job "b" is being run', hint: 'wait', request_id: null },
  });
});

it.each<[boolean, number, JobResult[]]>([
  [
    true,
    1,
    [
      { job: 'a', code: 0 },
      { job: 'b', code: 1, retry: true },
    ],
  ],
  [
    true,
    130,
    [
      { job: 'a', code: 0 },
      { job: 'b', code: 130, error: notBegun },
    ],
  ],
  [true, 1, [{ job: 'a', code: 1, retry: true }, { ...lockedEnd }]],
  [
    false,
    1,
    [
      { job: 'a', code: 1, retry: true },
      { job: 'b', code: 4, retry: false },
    ],
  ],
  [false, 3, [{ job: 'a', code: 3, retry: false }]],
  [false, 0, [{ job: 'a', code: 0 }]],
])('retry is %s if the command alone may mend every job (exit code %i)', (retry, code, all) => {
  expect([documentOfJobs(all).retry, exitCodeOfJobs(all)]).toEqual([retry, code]);
});

it('the next command is about a job that needs a person, before one that a repetition may mend', () => {
  const all: JobResult[] = [
    { job: 'away', code: 1, retry: true },
    { job: 'refused', code: 4, retry: false },
    { job: 'held', code: 3, retry: false },
  ];
  expect(worstEnds(all).map(({ job }) => job)).toEqual(['refused']);
  expect(worstEnds(all.filter(({ job }) => job !== 'refused')).map(({ job }) => job)).toEqual(['held']);
});

it('the line about all jobs has the statuses of --json, and the names of jobs that are not ok', () => {
  const all: JobResult[] = [
    ...ends([0], [1], [0], [130]),
    { job: 'e', code: 130, error: notBegun },
    { job: 'f', code: 130, error: notBegun },
  ];
  expect(jobsLine(all)).toBe('6 jobs: 2 ok, 1 failed (b), 3 interrupted (d, e, f)');
});

it('the next command is about all jobs that need the same one; held runs are decided one by one', () => {
  const names = (of: readonly JobResult[]) => of.map(({ job }) => job);
  expect(names(worstEnds(ends([0], [1], [3], [1])))).toEqual(['b', 'd']);
  expect(names(worstEnds(ends([3], [75], [3])))).toEqual(['a']);
  const [a, b] = ends([5], [5]) as [JobResult, JobResult];
  expect(names(worstEnds([{ ...a, undelivered: true }, b]))).toEqual(['a']);
});
