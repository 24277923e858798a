import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Acknowledgements } from '../../../../src/delivery/records/acknowledgements.js';
import type { StoredRecord } from '../../../../src/delivery/records/outbox.js';
import { type SendTask, sendRecords } from '../../../../src/delivery/records/record-sender.js';
import type { OutgoingRecord, RecordCapabilities, RecordResult } from '../../../../src/sdk/destination.js';
import { JumpingClock, turn } from '../../api/clocks.js';

export const ok: RecordResult = { type: 'acknowledged' };

export type Respond = (batch: readonly OutgoingRecord[]) => readonly RecordResult[] | Promise<readonly RecordResult[]>;

/** Records of several commits, given as one list of keys for each commit. */
export function outbox(
  commits: readonly (readonly string[])[],
  json = (key: string) => `{"id":"${key}"}`,
): StoredRecord[] {
  const all = commits.flatMap((keys, index) => keys.map((key) => ({ key, sequence: index + 1 })));
  return all.map(({ key, sequence }, offset) => ({
    offset,
    sequence,
    id: `${key}@${sequence}`,
    stream: 'members',
    op: 'update',
    key,
    json: json(key),
    syncedAt: '2026-01-01T00:00:00.000Z',
    runId: `run-${sequence}`,
  }));
}

type Asked = RecordCapabilities & Partial<Pick<SendTask, 'onReject' | 'signal' | 'owed' | 'patienceMs'>>;

/** A destination that handles each batch as the test says, and the acknowledgements of an outbox. */
export class Sending {
  readonly clock = new JumpingClock();
  readonly #folder: string;
  acknowledged: Acknowledgements;
  /** The batches of the last delivery. */
  sent: OutgoingRecord[][] = [];
  /** The keys that the last delivery still owes. */
  owed: ReadonlySet<string> = new Set();

  private constructor(folder: string, acknowledged: Acknowledgements) {
    this.#folder = folder;
    this.acknowledged = acknowledged;
  }

  static async open(): Promise<Sending> {
    const folder = await mkdtemp(join(tmpdir(), 'cdsync-sender-'));
    return new Sending(folder, await Acknowledgements.open(join(folder, 'acknowledged.jsonl')));
  }

  /** @returns the ids of each batch */
  async send(
    records: readonly StoredRecord[],
    respond: Respond,
    {
      onReject = 'continue',
      signal = new AbortController().signal,
      owed = new Map(),
      patienceMs,
      ...capabilities
    }: Asked = {},
  ): Promise<string[][]> {
    const { acknowledged, clock } = this;
    this.sent = [];
    async function* waiting() {
      for (const record of records) if (!acknowledged.has(record.offset)) yield [record];
    }
    this.owed = await sendRecords({
      destination: {
        send: async (batch) => {
          this.sent.push([...batch]);
          await turn();
          return respond(batch);
        },
        close: async () => undefined,
      },
      capabilities,
      outbox: { acknowledged, records: waiting },
      stream: 'members',
      ...{ onReject, clock, signal, owed, patienceMs },
      progress: () => undefined,
    });
    return this.ids;
  }

  get ids(): string[][] {
    return this.sent.map((batch) => batch.map(({ id }) => id));
  }

  /** Forgets the acknowledgements. */
  async reset(): Promise<void> {
    await this.acknowledged.close();
    await rm(join(this.#folder, 'acknowledged.jsonl'));
    this.acknowledged = await Acknowledgements.open(join(this.#folder, 'acknowledged.jsonl'));
  }

  async close(): Promise<void> {
    await this.acknowledged.close();
    await rm(this.#folder, { recursive: true });
  }
}
