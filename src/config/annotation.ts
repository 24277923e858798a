import { type ConfigProblem, describeProblem } from './problem.js';

const escapes: Readonly<Record<string, string>> = { '%': '%25', '\r': '%0D', '\n': '%0A', ':': '%3A', ',': '%2C' };

function escaped(text: string, characters: RegExp): string {
  return text.replace(characters, (character) => escapes[character] ?? character);
}

/** The line by which GitHub Actions shows a problem at its place in the file. */
export function annotation(problem: ConfigProblem): string {
  const { file, line, column } = problem;
  const place = `file=${escaped(file, /[%\r\n:,]/g)},line=${line},col=${column}`;
  return `::error ${place}::${escaped(describeProblem(problem), /[%\r\n]/g)}`;
}
