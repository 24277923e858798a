import { asCdsyncError, CdsyncError, interrupted, isSystemError } from '../core/errors.js';
import { withoutSecretForms } from '../core/printable.js';
import { noteSecrets, redactor, secretsIn, withoutNotedSecrets } from '../core/secret.js';
import type { Connector } from '../sdk/destination.js';
import { ColumnNotWidened } from '../sdk/errors.js';

interface Guard {
  asError(thrown: unknown): CdsyncError;
  /** Of a text that the connector returns for people. */
  hide(text: string): string;
}

/** Such a text is the connector's own, and may quote a whole record. */
function foreignError(connector: string, thrown: unknown): CdsyncError {
  const kind = thrown instanceof Error ? thrown.name : typeof thrown;
  return new CdsyncError(`connector "${connector}" failed with an error that it does not explain (${kind})`, {
    code: 'connector_failed',
    hint: 'report it to the author of the connector; --verbose --show-values shows its text, which may quote values',
    cause: thrown,
    causeQuotesValues: true,
  });
}

/** An error of a connector as an error of this copy of cdsync, in words without any secret of the destination. */
function errorOf(connector: string, thrown: unknown, hide: (text: string) => string): CdsyncError {
  if (thrown instanceof Error && thrown.name === 'AbortError') return interrupted(thrown);
  const isOurs = thrown instanceof CdsyncError;
  if (!isOurs && !isSystemError(thrown)) return foreignError(connector, thrown);
  const error = isOurs ? thrown : systemError(connector, thrown);
  const [message, hint] = [hide(error.message), error.hint && hide(error.hint)];
  const isUnchanged = message === error.message && hint === error.hint;
  if (isUnchanged && Object.getPrototypeOf(error) === CdsyncError.prototype) return error;
  if (error instanceof ColumnNotWidened && isUnchanged) return error;
  const { code, kind, cause, stream, destination, requestId, causeQuotesValues } = error;
  const details = { kind, hint, cause, stream, destination, requestId, causeQuotesValues };
  const copy = new CdsyncError(message, { ...details, code: code as 'unexpected' });
  return error instanceof ColumnNotWidened ? new ColumnNotWidened(error.column, copy) : copy;
}

/** A code of cdsync's own storage would send people to the wrong disk. */
const ofDestination: Readonly<Record<string, 'destination_refused' | 'destination_permission'>> = {
  disk_full: 'destination_refused',
  storage_failed: 'destination_refused',
  storage_permission: 'destination_permission',
};

/** A failed file operation of the connector: the disk, the folder and the remedy are those of the destination. */
function systemError(connector: string, thrown: unknown): CdsyncError {
  const { code, message, cause } = asCdsyncError(thrown);
  return new CdsyncError(`connector "${connector}": ${message}`, {
    code: ofDestination[code] ?? (code as 'too_many_files'),
    hint: 'mend that at the destination, then: cdsync push',
    cause,
  });
}

const shownParts: readonly string[] = ['reason', 'message', 'hint', 'reached', 'untried'];

/** A part of a result that people read: why a record or a value is refused, the rights that a login lacks. */
function withoutSecrets(part: unknown, hide: (text: string) => string): unknown {
  if (typeof part !== 'object' || part === null) return part;
  // There is a result for each record: most have no such text.
  if (!shownParts.some((name) => name in part)) return part;
  const texts = Object.entries(part).filter(([name, text]) => shownParts.includes(name) && typeof text === 'string');
  return texts.length === 0
    ? part
    : { ...part, ...Object.fromEntries(texts.map(([name, text]) => [name, hide(text)])) };
}

/** The same object, whose functions throw only errors of {@link errorOf}; objects with functions that they return, too. */
function guarded<T extends object>(target: T, guard: Guard): T {
  const { asError, hide } = guard;
  const guardResult = (result: unknown): unknown => {
    if (Array.isArray(result)) return result.map((part) => withoutSecrets(part, hide));
    if (typeof result !== 'object' || result === null) return result;
    return hasFunctions(result) ? guarded(result, guard) : withoutSecrets(result, hide);
  };
  return new Proxy(target, {
    get(object, property) {
      const member: unknown = Reflect.get(object, property, object);
      if (typeof member !== 'function') return member;
      return (...values: unknown[]) => {
        try {
          const result: unknown = member.apply(object, values);
          if (!(result instanceof Promise)) return guardResult(result);
          return result.then(guardResult, (thrown: unknown) => {
            throw asError(thrown);
          });
        } catch (thrown) {
          throw asError(thrown);
        }
      };
    },
  });
}

function hasFunctions(object: object): boolean {
  if (object instanceof Map || object instanceof Set || object instanceof Date || ArrayBuffer.isView(object))
    return false;
  const prototype: unknown = Object.getPrototypeOf(object);
  const isInstance = prototype !== null && prototype !== Object.prototype;
  return isInstance || Object.values(object).some((member) => typeof member === 'function');
}

/** Hides the secrets of a destination's options in a text, and secrets that can be told by their form. */
export function hideSecretsOf(options: unknown): (text: string) => string {
  const hide = redactor(secretsIn(options));
  return (text) => withoutSecretForms(withoutNotedSecrets(hide(text)));
}

/**
 * A connector whose errors are safe to report: it may be someone else's code, with its own copy of cdsync. Everything above this line
 * (reports, pages, notifications, the library's result) shows messages as they are.
 */
export function guardConnector<C extends Connector>(connector: C, options: unknown): C {
  noteSecrets(secretsIn(options));
  const hide = hideSecretsOf(options);
  return guarded(connector, { hide, asError: (thrown) => errorOf(connector.name, thrown, hide) });
}
