import type { NotifyOptions } from '../config/config.js';
import { callAfter } from '../core/clock.js';
import type { JobLayout } from '../storage/layout.js';
import type { Anomaly } from './anomalies.js';
import { channelName, deliver, reasonOf } from './channels.js';
import { type ChannelUpdate, nextState } from './events.js';
import { type Message, startMessage } from './message.js';
import type { RunResult } from './result.js';
import { type ChannelState, readNotificationState, writeNotificationState } from './state.js';
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
  /** All receivers together have this long at the end of a run; those that have not answered by then get the message late. */
  readonly deadlineMs: number;
}

/** Notifies the receivers of one job about one run. It never throws; a receiver that cannot be reached gets one notice. */
export class Notifier {
  readonly #options: NotifierOptions;
  readonly #stop = new AbortController();
  /** Ends the notification of the beginning, if it still waits for a response at the end: it must not take the time of the others. */
  readonly #stopStart = new AbortController();
  #starting: Promise<void> = Promise.resolve();

  constructor(options: NotifierOptions) {
    this.#options = options;
  }

  /** Notifies of the beginning, in the background: {@link ended} waits for it. */
  started(at: number): void {
    const { notify } = this.#options;
    if (notify.some(({ on }) => on.includes('started'))) this.#starting = this.#notifyStart(at);
  }

  async #notifyStart(at: number): Promise<void> {
    const { job, notify, layout } = this.#options;
    const { status } = await readNotificationState(layout);
    const message: Message = { ...startMessage(job, at, status), events: ['started'], late: false };
    await Promise.all(
      notify.map(async (receiver, index) => {
        if (!receiver.on.includes('started')) return;
        // Late news of a beginning helps no one: it is not kept.
        const consequence = 'and gets no more about this start';
        await this.#try(receiver, index, message, { consequence, signal: this.#stopStart.signal });
      }),
    );
  }

  /**
   * Notifies of the end, and sends the messages that failed before.
   * @param onlyNews see {@link nextState}
   */
  async ended(done: RunResult, unusual: readonly Anomaly[], { onlyNews = false } = {}): Promise<void> {
    const { file, notify, layout, deadlineMs, delivers, notice } = this.#options;
    const cancel = callAfter(deadlineMs, () => this.#stop.abort());
    const cancelStart = callAfter(deadlineMs / 4, () => this.#stopStart.abort());
    try {
      await this.#starting;
      const saved = await readNotificationState(layout);
      const before = { ...saved, deliveries: saved.deliveries.filter(delivers) };
      const { state, updates } = nextState(before, done, { notify, unusual, file, onlyNews });
      const sent = await Promise.all(updates.map((update, index) => this.#send(update, index)));
      await writeNotificationState(layout, {
        ...state,
        receivers: { ...state.receivers, ...Object.fromEntries(sent) },
      }).catch(() => notice('warning: could not save notification state; a message may be sent twice'));
    } finally {
      cancel();
      cancelStart();
    }
  }

  /** @returns the receiver's key and its new state */
  async #send({ key, messages, after }: ChannelUpdate, index: number): Promise<[string, ChannelState]> {
    const receiver = this.#options.notify[index] as NotifyOptions;
    const consequence =
      receiver.ping === undefined ? 'and is notified with the next run' : 'and is notified of the next run';
    for (const [sent, message] of messages.entries())
      if (!(await this.#try(receiver, index, message, { consequence, signal: this.#stop.signal })))
        return [key, after(sent)];
    return [key, after(messages.length)];
  }

  /** @returns whether the receiver has the message */
  async #try(
    receiver: NotifyOptions,
    index: number,
    message: Message,
    { consequence, signal }: { readonly consequence: string; readonly signal: AbortSignal },
  ): Promise<boolean> {
    const { http, notice } = this.#options;
    try {
      await deliver(receiver, message, { http, signal });
      return true;
    } catch (error) {
      notice(`warning: ${channelName(receiver, index)} was not reached, ${consequence}: ${reasonOf(error)}`);
      return false;
    }
  }
}
