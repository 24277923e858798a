/** A response that is ready to be sent. */
export interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
  /** Call it when the operating system has taken the body. */
  readonly release?: (() => void) | undefined;
}

const noHeaders = {};
const empty = Buffer.alloc(0);

export function jsonAnswer(value: unknown, status = 200): Answer {
  return { status, headers: noHeaders, body: Buffer.from(JSON.stringify(value)) };
}

/** Status 204, without a body. */
export const doneAnswer: Answer = { status: 204, headers: noHeaders, body: empty };
