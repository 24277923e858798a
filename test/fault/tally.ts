/** The results of the faults of one kind. */
export interface Tally {
  readonly kind: string;
  /** Faults that struck and broke nothing. */
  survived: number;
  /** Faults that did not strike: the run had ended before, or had no such step this time. */
  missed: number;
  /** A message for each of the other faults: the promise that it broke. */
  readonly broken: string[];
  /** The tool or permission that the machine lacks to try the kind at all. */
  lacks: string | undefined;
  seconds: number;
}

export function emptyTally(kind: string): Tally {
  return { kind, survived: 0, missed: 0, broken: [], lacks: undefined, seconds: 0 };
}

const width = 40;

export function tallyLine({ kind, survived, missed, broken, lacks, seconds }: Tally): string {
  if (lacks !== undefined) return `${kind.padEnd(width)} NOT TRIED: ${lacks}`;
  const figures = `${survived + broken.length} tried, ${broken.length} broke something`;
  return `${kind.padEnd(width)} ${figures}${missed > 0 ? `, ${missed} passed by (not counted)` : ''}, ${Math.round(seconds)} s`;
}

/** One line for each kind, and one for all. */
export function tallyLines(tallies: readonly Tally[], seed: number): string[] {
  const lines = tallies.map(tallyLine);
  const all = tallies.reduce((sum, { survived, broken }) => sum + survived + broken.length, 0);
  const broken = tallies.reduce((sum, tally) => sum + tally.broken.length, 0);
  return [...lines, `${'all'.padEnd(width)} ${all} faults tried, ${broken} broke something, seed ${seed}`];
}
