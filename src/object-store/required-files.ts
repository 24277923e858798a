/** The one file that changes in place, and can be large. */
export const storePath = '.cdsync/store.duckdb';

/** The purpose of a file, which decides which commands need it. */
export type FileKind = 'small' | 'store' | 'published' | 'rows' | 'known' | 'parts' | 'held' | 'page';

/** The files that a command downloads first. Others stay in the bucket until the command asks for them. */
export type FileSet = 'run' | 'decide' | 'store' | 'deliver' | 'published' | 'small' | 'everything';

export function kindOf(path: string): FileKind {
  const [top, first, second, third, fourth, ...more] = path.split('/');
  if (top === 'published') return 'published';
  if (top === 'reports') return first !== 'index.html' && first?.endsWith('.html') ? 'page' : 'small';
  if (top === 'parquet') return second === 'snapshot' || second === 'changes' ? 'rows' : 'small';
  if (top !== '.cdsync') return 'small';
  if (first === 'store.duckdb') return 'store';
  if (first === 'known') return 'known';
  if (first !== 'runs' || third !== 'streams' || fourth === undefined) return 'small';
  const name = more.join('/');
  if (name === 'journal.jsonl' || name === 'held.json') return 'small';
  return name === 'changes.parquet' ? 'held' : 'parts';
}

const kinds: Readonly<Record<FileSet, readonly FileKind[]>> = {
  small: ['small'],
  deliver: ['small'],
  store: ['small', 'store'],
  published: ['small', 'published'],
  decide: ['small', 'store', 'known', 'parts', 'held'],
  run: ['small', 'store', 'known', 'parts'],
  everything: ['small', 'store', 'published', 'rows', 'known', 'parts', 'held', 'page'],
};

/** The stream's folder in a run that a file belongs to. */
export function streamRunOf(path: string): string {
  return path.split('/').slice(0, 5).join('/');
}

/**
 * Which of a job's files a command needs. A run does not need the parts of streams that a guard holds: it never resumes them.
 */
export function neededBy(need: FileSet, paths: ReadonlySet<string>): (path: string) => boolean {
  const wanted = new Set(kinds[need]);
  return (path) => {
    const kind = kindOf(path);
    if (!wanted.has(kind)) return false;
    return !(need === 'run' && kind === 'parts' && paths.has(`${streamRunOf(path)}/held.json`));
  };
}

/** Whether a file is temporary or only for this machine: the bucket never has it. */
export function isLocal(path: string): boolean {
  const [top, first, , third, , fifth] = path.split('/');
  const name = path.slice(path.lastIndexOf('/') + 1);
  if (/^\..*\.[0-9a-f]{8}\.tmp(\.wal)?$/.test(name) || name.endsWith('.wal')) return true;
  if (path.split('/').some((part) => /^\..*\.[0-9a-f]{8}\.tmp$/.test(part))) return true;
  if (top !== '.cdsync') return false;
  if (first === 'locks' || first === 'restored' || first === 'queries') return true;
  if (first === 'runs') return third === 'streams' && fifth === 'staging';
  return first === 'deliveries' && (third === 'work' || third === 'lock.duckdb' || third === 'lock.json');
}
