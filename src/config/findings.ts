import { type ConfigProblem, type ProblemDetails, pathText } from './problem.js';
import type { Position } from './yaml-document.js';

export type Path = readonly (string | number)[];

/** A part of the configuration: its path, and its offset in the text. */
export interface SourceLocation {
  readonly path: Path;
  readonly offset: number;
}

/** Collects the problems and the warnings of one file. */
export class ConfigProblems {
  readonly problems: ConfigProblem[] = [];
  readonly warnings: string[] = [];
  readonly #file: string;
  readonly #position: (offset: number) => Position;
  readonly #offsets = new Map<string, number>();

  /** @param file as messages show it */
  constructor(file: string, position: (offset: number) => Position) {
    this.#file = file;
    this.#position = position;
  }

  /** Notes where a part stands, for problems that are found later. */
  visit({ path, offset }: SourceLocation): void {
    this.#offsets.set(pathText(path), offset);
  }

  problem({ path, offset }: SourceLocation, fault: ProblemDetails): ConfigProblem {
    return { file: this.#file, ...this.#position(offset), path: pathText(path), ...fault };
  }

  refuse(site: SourceLocation, fault: ProblemDetails): undefined {
    this.problems.push(this.problem(site, fault));
    return undefined;
  }

  /** Refuses a part by its path alone; if the file does not have it, the message shows the nearest part above it. */
  refuseAt(path: Path, fault: ProblemDetails): void {
    this.refuse({ path, offset: this.#offset(path) }, fault);
  }

  /** Whether anything at or below a path has been refused. */
  hasProblemBelow(path: Path): boolean {
    const above = pathText(path);
    return this.problems.some(({ path: below }) => {
      return below === above || below.startsWith(`${above}.`) || below.startsWith(`${above}[`);
    });
  }

  warn(path: Path, message: string): void {
    const { line, column } = this.#position(this.#offset(path));
    this.warnings.push(`${this.#file}:${line}:${column}  ${pathText(path)}: ${message}`);
  }

  #offset(path: Path): number {
    for (let length = path.length; length > 0; length -= 1) {
      const offset = this.#offsets.get(pathText(path.slice(0, length)));
      if (offset !== undefined) return offset;
    }
    return 0;
  }
}
