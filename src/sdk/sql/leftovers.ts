import type { SqlSession } from './dialect.js';

/** Runs statements that drop tables of staged rows. If a stop has ended the session, these are gone already. @returns those that failed */
export async function dropLeftovers(
  session: SqlSession,
  statements: readonly string[],
  { aborted }: AbortSignal,
): Promise<string[]> {
  if (aborted && session.tidy === undefined) return [];
  const failed: string[] = [];
  for (const sql of statements) await (session.tidy?.(sql) ?? session.run(sql)).catch(() => failed.push(sql));
  return failed;
}
