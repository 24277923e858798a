import { join } from 'node:path';
import { readStateFile, type StateFile, writeStateFile } from '../core/durable.js';
import { z } from '../core/zod.js';
import type { JobLayout } from './layout.js';

const acceptedSchema = z.object({ guard: z.string(), of: z.string(), measure: z.number() });

const accepted = z.record(z.string(), z.array(acceptedSchema));

const pendingSchema = z.object({
  /** The held run, and its streams that are approved. */
  run_id: z.string(),
  approved: z.array(z.string()),
  streams: z.array(z.string()),
  accepted,
});

const schema = z.object({
  version: z.literal(1),
  /** Streams that depend on an approved snapshot, and were not read since: their changes follow from it. */
  streams: z.array(z.string()),
  /** What approved snapshots break, by stream. */
  accepted: accepted.default({}),
  /** Additions to the two by an approval whose commit may not count: noted before it, because the process may end right after it. */
  pending: pendingSchema.optional(),
});

/** A limit that an approved snapshot breaks, and by how much: it holds no later run that breaks it no further. */
export type Accepted = z.infer<typeof acceptedSchema>;
type Approvals = z.infer<typeof schema>;

/** A finding of a guard; without `measure` if the next run has no such finding for the same reason. */
interface Measured {
  readonly guard: string;
  readonly of?: string | undefined;
  readonly measure?: number | undefined;
}

function pathOf(layout: JobLayout): string {
  return join(layout.private, 'approved.json');
}

const file: StateFile<Approvals> = {
  schema,
  hint: 'remove it; approved changes that break a limit again are then held again: cdsync approve',
};

/** @throws {CdsyncError} `state_unreadable`: taken for none, it would hold approved changes again without a word */
async function read(layout: JobLayout): Promise<Approvals> {
  return (await readStateFile(pathOf(layout), file)) ?? { version: 1, streams: [], accepted: {} };
}

async function change(layout: JobLayout, next: (before: Approvals) => Omit<Approvals, 'version'>): Promise<void> {
  const before = await read(layout);
  const after = { version: 1 as const, ...next(before) };
  if (JSON.stringify(after) !== JSON.stringify(before)) await writeStateFile(pathOf(layout), after);
}

/** The approvals that concern a stream. @throws {CdsyncError} `state_unreadable` */
export async function approvedFor(
  layout: JobLayout,
  stream: string,
): Promise<{ follows: boolean; accepted: Accepted[] }> {
  const { streams, accepted } = await read(layout);
  return { follows: streams.includes(stream), accepted: accepted[stream] ?? [] };
}

function isSame(one: Measured, other: Measured): boolean {
  return one.guard === other.guard && one.of === other.of;
}

/** Whether an approved snapshot breaks the same limit as much, or more. */
export function isAccepted(measured: Measured, accepted: readonly Accepted[]): boolean {
  const { measure } = measured;
  return (
    measure !== undefined &&
    accepted.some((acceptance) => isSame(measured, acceptance) && measure <= acceptance.measure)
  );
}

/** An approval of a run's held streams. */
interface Approval {
  readonly runId: string;
  /** Findings of the guards in each approved stream. */
  readonly approved: Readonly<Record<string, readonly Measured[]>>;
  /** The streams that depend on them. */
  readonly following: readonly string[];
}

function measuresOf(findings: readonly Measured[]): Accepted[] {
  return findings.flatMap(({ guard, of, measure }) =>
    of === undefined || measure === undefined ? [] : { guard, of, measure },
  );
}

/**
 * Notes an approval that is about to be committed. It counts after {@link settlePending}, also if this process has ended before it.
 * @throws {CdsyncError} `state_unreadable`
 */
export async function notePending(layout: JobLayout, { runId, approved, following }: Approval): Promise<void> {
  const pending = {
    run_id: runId,
    approved: Object.keys(approved),
    streams: [...following],
    accepted: Object.fromEntries(
      Object.entries(approved).map(([stream, findings]) => [stream, measuresOf(findings)] as const),
    ),
  };
  await change(layout, (before) => ({ ...before, pending }));
}

/** Makes a noted approval count if its run has committed its streams, and forgets it otherwise. */
export async function settlePending(
  layout: JobLayout,
  isCommitted: (runId: string, stream: string) => boolean,
): Promise<void> {
  await change(layout, ({ pending, streams, accepted }) => {
    if (pending?.approved.some((stream) => isCommitted(pending.run_id, stream)) !== true) return { streams, accepted };
    const after = { ...accepted };
    for (const [stream, measures] of Object.entries(pending.accepted)) {
      const others = (accepted[stream] ?? []).filter((acceptance) => !measures.some((of) => isSame(of, acceptance)));
      after[stream] = [...others, ...measures];
    }
    return { streams: [...new Set([...streams, ...pending.streams])].sort(), accepted: after };
  });
}

/** Removes what no longer counts for streams that were committed. @param committed with the findings of their guards */
export async function settleApprovals(
  layout: JobLayout,
  committed: Readonly<Record<string, readonly Measured[]>>,
): Promise<void> {
  const still = (stream: string, before: readonly Accepted[]): Accepted[] =>
    before.flatMap((acceptance) => {
      const committedMeasure = committed[stream]?.find((measured) => isSame(measured, acceptance))?.measure;
      return committedMeasure === undefined
        ? []
        : { ...acceptance, measure: Math.min(committedMeasure, acceptance.measure) };
    });
  await change(layout, ({ streams, accepted }) => ({
    streams: streams.filter((name) => !(name in committed)),
    accepted: Object.fromEntries(
      Object.entries(accepted)
        .map(([stream, before]) => [stream, stream in committed ? still(stream, before) : before] as const)
        .filter(([, left]) => left.length > 0),
    ),
  }));
}
