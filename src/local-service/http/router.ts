import type { Operation } from '../operations/operation.js';
import { notFound, ServiceError } from './response.js';

interface Path {
  readonly segments: readonly string[];
  readonly operations: Map<string, Operation>;
}

/** The operation for a request, and the parameters in its path. */
export interface Route {
  readonly operation: Operation;
  /** The decoded value of each `{…}` in the path. */
  readonly parameters: readonly string[];
  /** The path has a trailing slash that the operation's does not have. */
  readonly slashed: boolean;
}

const isParameter = (segment: string) => segment.startsWith('{');

function decodeSegment(segment: string): string {
  if (!segment.includes('%')) return segment;
  try {
    return decodeURIComponent(segment);
  } catch {
    throw notFound('there is no such path');
  }
}

/** Finds the operation for a method and a path. */
export class Router {
  readonly #paths: Path[] = [];

  constructor(operations: readonly Operation[]) {
    for (const operation of operations) {
      const segments = operation.path.split('/');
      let path = this.#paths.find((one) => one.segments.join('/') === operation.path);
      if (path === undefined) {
        path = { segments, operations: new Map() };
        this.#paths.push(path);
      }
      path.operations.set(operation.method, operation);
    }
  }

  /** @throws {ServiceError} 404 if no operation has the path, 405 if the path has operations, but not of this method */
  find(method: string, path: string): Route {
    const exact = this.#match(path.split('/'));
    const slashed = exact === undefined && path.endsWith('/');
    const segments = (slashed ? path.slice(0, -1) : path).split('/');
    const matchedPath = slashed ? this.#match(segments) : exact;
    if (matchedPath === undefined) throw notFound('there is no such path');
    const operation = matchedPath.operations.get(method);
    if (operation === undefined) {
      const allow = [...matchedPath.operations.keys()].join(', ');
      throw new ServiceError(405, `${method} is not allowed here`, { allow });
    }
    const parameters = segments.filter((_, at) => isParameter(matchedPath.segments[at] ?? '')).map(decodeSegment);
    return { operation, parameters, slashed };
  }

  #match(segments: readonly string[]): Path | undefined {
    return this.#paths.find(
      (one) =>
        one.segments.length === segments.length &&
        one.segments.every((segment, at) => (isParameter(segment) ? segments[at] !== '' : segment === segments[at])),
    );
  }
}
