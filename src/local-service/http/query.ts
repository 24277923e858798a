import { badRequest } from './service-error.js';

/** The parameters of a query string. */
export type Query = readonly (readonly [name: string, value: string])[];

function decoded(text: string): string {
  if (!text.includes('%') && !text.includes('+')) return text;
  try {
    return decodeURIComponent(text.replaceAll('+', ' '));
  } catch {
    throw badRequest('the query string is not percent-encoded UTF-8');
  }
}

/** Parses the text after the question mark. @throws {ServiceError} 400 */
export function parseQuery(text: string): Query {
  if (text === '') return [];
  return text
    .split('&')
    .filter((part) => part !== '')
    .map((part) => {
      const equals = part.indexOf('=');
      return equals < 0
        ? ([decoded(part), ''] as const)
        : ([decoded(part.slice(0, equals)), decoded(part.slice(equals + 1))] as const);
    });
}

/** The value of a parameter that may occur only once. @throws {ServiceError} 400 */
export function single(query: Query, name: string): string | undefined {
  let found: string | undefined;
  for (const [other, value] of query) {
    if (other !== name) continue;
    if (found !== undefined) throw badRequest(`${name} is given more than once`);
    found = value;
  }
  return found;
}

/** A parameter that is `true` or `false`; false if it is missing. @throws {ServiceError} 400 */
export function flag(query: Query, name: string): boolean {
  const value = single(query, name);
  if (value !== undefined && value !== 'true' && value !== 'false') throw badRequest(`${name} must be true or false`);
  return value === 'true';
}
