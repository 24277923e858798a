import type { Socket } from 'node:net';

/** Longer lines are from nobody who speaks this language. */
const longestLine = 4_096;

/** What a process says about itself, and what the owner answers; either may say that the service asked to wait. */
export interface Message {
  readonly report: {
    readonly pid: number;
    readonly limit: number;
    readonly part: number;
    readonly held: number;
    readonly used: number;
    readonly waiting: boolean;
    /** Answers since the last report, and how many of them were 429s. */
    readonly answered: number;
    readonly refused: number;
  };
  readonly part: {
    readonly permits: number;
    /** All that is divided at present. */
    readonly total: number;
    /** Processes that share it, this one included. */
    readonly sharers: number;
  };
  readonly pauseMs: number;
  /** Somebody who shares nothing asks who does. */
  readonly look: true;
  readonly shares: readonly Share[];
}

/** The part of one process. */
export interface Share {
  readonly pid: number;
  readonly permits: number;
}

/** Calls `onMessage` for each line of JSON that comes; a peer that sends anything else is cut off. */
export function readMessages(socket: Socket, onMessage: (message: Partial<Message>) => void): void {
  let rest = '';
  socket.setEncoding('utf8');
  socket.on('data', (text: string) => {
    const lines = (rest + text).split('\n');
    rest = lines.pop() as string;
    if (rest.length > longestLine) socket.destroy();
    for (const line of lines) {
      if (socket.destroyed) return;
      const message = parsed(line);
      if (message === undefined) socket.destroy();
      else onMessage(message);
    }
  });
}

export function sendMessage(socket: Socket, message: Partial<Message>): void {
  if (!socket.destroyed) socket.write(`${JSON.stringify(message)}\n`);
}

function parsed(line: string): Partial<Message> | undefined {
  try {
    const message: unknown = JSON.parse(line);
    return typeof message === 'object' && message !== null ? message : undefined;
  } catch {
    return undefined;
  }
}
