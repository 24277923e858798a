import type { NotifyOptions, RunEvent } from '../config/config.js';
import type { JobLayout } from '../storage/layout.js';
import type { Anomaly } from './anomalies.js';
import { channelName, deliver, reasonOf } from './channels.js';
import { eventKeysOf, newEvents, nextEventKeys, nextLastStatus } from './events.js';
import { endMessage, type Message, type MessageBody, startMessage } from './message.js';
import { openFailuresAfter, withOpenFailures } from './open-failures.js';
import type { RunResult } from './result.js';
import {
  type ChannelState,
  channelKey,
  type NotificationState,
  nothing,
  queueMessage,
  readNotificationState,
  writeNotificationState,
} from './state.js';
import type { WebhookClient } from './webhook-client.js';

interface NotifierOptions {
  readonly job: string;
  /** The configuration file. */
  readonly file: string;
  readonly notify: readonly NotifyOptions[];
  readonly layout: JobLayout;
  /** Whether the job still has this delivery. */
  readonly delivers: (delivery: { readonly name: string; readonly stream: string }) => boolean;
  readonly http: WebhookClient;
  /** Shows the user a line. */
  readonly notice: (line: string) => void;
  /** All receivers together have so long at the end of a run; those that have not answered by then get the message late. */
  readonly deadlineMs: number;
}

/** Tells the receivers of one job how one run goes. It never throws; a receiver that cannot be reached gets one notice. */
export class Notifier {
  readonly #options: NotifierOptions;
  readonly #stop = new AbortController();
  /** Ends what tells of the beginning, if it still waits for an answer at the end: it must not take the time of the others. */
  readonly #stopStart = new AbortController();
  #starting: Promise<void> = Promise.resolve();

  constructor(options: NotifierOptions) {
    this.#options = options;
  }

  /** Tells of the beginning, in the background: {@link ended} waits for it. */
  started(at: number): void {
    const { notify } = this.#options;
    if (notify.some(({ on }) => on.includes('started'))) this.#starting = this.#tellStart(at);
  }

  async #tellStart(at: number): Promise<void> {
    const { job, notify, layout } = this.#options;
    const { status } = await readNotificationState(layout);
    const body = startMessage(job, at, status);
    await Promise.all(
      notify.map(async (receiver, index) => {
        if (!receiver.on.includes('started')) return;
        // Late news of a beginning helps nobody: it is not kept.
        const outlook = 'and is told no more of this start';
        await this.#try(receiver, index, messageOf(body, ['started']), { outlook, signal: this.#stopStart.signal });
      }),
    );
  }

  /**
   * Tells of the end, and what could not be told before.
   * @param onlyNews tells only if the job is now ok, held or failed, and was not before, or if a delivery added columns
   */
  async ended(done: RunResult, unusual: readonly Anomaly[], { onlyNews = false } = {}): Promise<void> {
    const { file, notify, layout, deadlineMs, delivers } = this.#options;
    const timer = setTimeout(() => this.#stop.abort(), deadlineMs);
    const startTimer = setTimeout(() => this.#stopStart.abort(), deadlineMs / 4);
    try {
      await this.#starting;
      const told = await readNotificationState(layout);
      const settled = told.settled ?? undefined;
      const before = told.deliveries.filter(delivers);
      const deliveries = openFailuresAfter(done, before);
      const end = withOpenFailures(done, before);
      const isSame = nextLastStatus(end.status, settled) === (settled ?? 'ok');
      const addedColumns = done.destinations.some(({ schema_changes: changes = [] }) => changes.length > 0);
      if (onlyNews && isSame && !addedColumns) return await this.#keep({ ...told, deliveries });
      const facts = eventKeysOf(end, settled, unusual);
      const body = endMessage(end, { previous: told.status, found: unusual, file });
      const memories = await Promise.all(
        notify.map((receiver, index) => this.#tellEnd(receiver, index, { facts, body, told })),
      );
      const receivers = Object.fromEntries(memories);
      const after = nextLastStatus(end.status, settled) ?? null;
      await this.#keep({ version: 1, status: end.status, settled: after, receivers, deliveries });
    } finally {
      clearTimeout(timer);
      clearTimeout(startTimer);
    }
  }

  async #keep(told: NotificationState): Promise<void> {
    const { layout, notice } = this.#options;
    await writeNotificationState(layout, told).catch(() =>
      notice('warning: could not save notification state; a message may be sent twice'),
    );
  }

  /** @returns the receiver's key and what it knows now */
  async #tellEnd(
    receiver: NotifyOptions,
    index: number,
    { facts, body, told }: { facts: readonly string[]; body: MessageBody; told: NotificationState },
  ): Promise<[string, ChannelState]> {
    const key = channelKey(receiver);
    const known = told.receivers[key] ?? nothing;
    const events = newEvents(receiver, facts, known.facts);
    const messages = [...known.waiting, ...(events.length === 0 ? [] : [messageOf(body, events)])];
    const now = nextEventKeys(body.status as RunResult['status'], facts, known.facts);
    for (const [at, message] of messages.entries()) {
      const outlook = receiver.ping === undefined ? 'and is told with the next run' : 'and is told of the next run';
      if (await this.#try(receiver, index, message, { outlook, signal: this.#stop.signal })) continue;
      // A health check wants the present state, not an old one: it forgets, so that the next run is news.
      if (receiver.ping !== undefined) return [key, { facts: known.facts, waiting: [] }];
      return [key, { facts: now, waiting: messages.slice(at).reduce<Message[]>(queueMessage, []) }];
    }
    return [key, { facts: now, waiting: [] }];
  }

  /** @returns whether the receiver has the message */
  async #try(
    receiver: NotifyOptions,
    index: number,
    message: Message,
    { outlook, signal }: { readonly outlook: string; readonly signal: AbortSignal },
  ): Promise<boolean> {
    const { http, notice } = this.#options;
    try {
      await deliver(receiver, message, { http, signal });
      return true;
    } catch (error) {
      notice(`warning: ${channelName(receiver, index)} was not reached, ${outlook}: ${reasonOf(error)}`);
      return false;
    }
  }
}

function messageOf(body: MessageBody, events: RunEvent[]): Message {
  return { ...body, events, late: false };
}
