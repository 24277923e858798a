import { formatBytes, formatCounted } from '../core/quantities.js';

interface Verified {
  readonly job: string;
  readonly sequence: number;
  readonly streams: readonly { name: string; rows: number; files: number; bytes: number }[];
  readonly mismatches: readonly { stream: string | null; file: string | null; problem: string }[];
}

/** The result of a verification, for people. */
export function verificationLines({ job, sequence, streams, mismatches }: Verified): string[] {
  const lines = streams.map(({ name, rows, files, bytes }) => {
    const wrong = mismatches.filter(({ stream }) => stream === name).length;
    const of = files === 0 ? 'no Parquet files' : `${formatCounted(files, 'file')}, ${formatBytes(bytes)}`;
    return `  ${wrong === 0 ? 'ok     ' : 'failed '} ${name}: ${formatCounted(rows, 'row')}, ${of}`;
  });
  const problems = mismatches.map(({ file, problem }) => `  ${file === null ? '' : `${file}: `}${problem}`);
  return [`job ${job}: snapshot ${sequence}`, ...lines, ...(problems.length === 0 ? [] : ['', ...problems])];
}
