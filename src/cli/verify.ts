import { formatBytes, formatCounted } from '../core/quantities.js';
import type { Verification } from '../engine/inspect/verify-job.js';
import { type Command, configPositional, type JobsArguments, jobsOptions } from './arguments.js';
import { type CommonArguments, Output } from './output.js';

/** The result of a verification, for people. */
function verificationLines({ job, sequence, streams, mismatches }: Verification): string[] {
  const lines = streams.map(({ name, rows, files, bytes }) => {
    const wrong = mismatches.filter(({ stream }) => stream === name).length;
    const of = files === 0 ? 'no Parquet files' : `${formatCounted(files, 'file')}, ${formatBytes(bytes)}`;
    return `  ${wrong === 0 ? 'ok     ' : 'failed '} ${name}: ${formatCounted(rows, 'row')}, ${of}`;
  });
  const problems = mismatches.map(({ file, problem }) => `  ${file === null ? '' : `${file}: `}${problem}`);
  return [`job ${job}: snapshot ${sequence}`, ...lines, ...(problems.length === 0 ? [] : ['', ...problems])];
}

/** `cdsync verify`: checks that all kept and published files are whole, and agree with each other. */
export const verifyCommand: Command<CommonArguments, JobsArguments> = {
  builder: (parser) =>
    jobsOptions(configPositional(parser)).epilogue(
      'Reads every value of every Parquet file, with a reader other than DuckDB. Exit codes: 0 all is well, 1 something is not.',
    ),
  handler: async (args) => {
    const { loadLocalJobs } = await import('./load.js');
    const { readJobFiles } = await import('../engine/job-files.js');
    const { withStorage } = await import('../engine/open-engine.js');
    const { remedyOf, verifyJob } = await import('../engine/inspect/verify-job.js');
    const { JobLayout } = await import('../storage/layout.js');
    const { forEachJob } = await import('./for-each-job.js');
    const output = new Output(args);
    const { config, jobs } = await loadLocalJobs(args, output);
    const { storage } = config;
    process.exitCode = await forEachJob(
      { command: 'verify', args, output, storage, jobs },
      {
        work: (job) =>
          readJobFiles({ config, job: job.name, need: 'everything', notice: (line) => output.notice(line) }, (place) =>
            withStorage(config, (engine) => verifyJob(engine, job), place),
          ),
        document: (verified) => verified,
        print: (verified) => {
          for (const line of verificationLines(verified)) output.advice(line);
          if (verified.status === 'ok') return { code: 0 };
          return { code: 1, remedy: remedyOf(new JobLayout(storage, verified.job), verified) };
        },
      },
    );
  },
};
