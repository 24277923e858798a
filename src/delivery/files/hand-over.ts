import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { FileConnector } from '../../sdk/destination.js';
import type { FileFacts, FilePlace, FilePolicy } from '../../sdk/file-destination.js';
import type { StreamTask } from '../delivery.js';
import {
  contentOf,
  type ExportState,
  type FilePlan,
  plannedFolder,
  readExportState,
  writeExportState,
} from './file-state.js';
import { thrownFor } from './taken-names.js';

interface Work {
  readonly task: StreamTask<FileConnector>;
  /** The folder of the state, and of planned bytes. */
  readonly kept: string;
  readonly policy: FilePolicy;
  readonly properties: FileFacts;
}

interface Handed {
  readonly name: string;
  readonly rows: number;
  readonly isReadBack: boolean;
}

/** The state once a plan is carried out. Files of earlier tries whose names it no longer has are owed. */
export function doneState(state: ExportState, plan: FilePlan): ExportState {
  const { former, files, number, at } = plan;
  const left = former.filter(({ name }) => !files?.some((file) => file.name === name));
  const entries = new Map(state.files.map((file) => [file.name, file]));
  for (const { companions, ...file } of left)
    entries.set(file.name, { number, rows: 0, at, companions, ...entries.get(file.name), ...file, is_owed: true });
  return { ...state, last: contentOf(plan), plan: null, files: [...entries.values()] };
}

/** The state once a plan's files were handed over. */
export function handedState(state: ExportState, plan: FilePlan, policy: Pick<FilePolicy, 'day'>): ExportState {
  const moved = { number: plan.number, day: policy.day(plan.at), day_number: plan.day_number };
  return { ...doneState(state, plan), ...(plan.name === undefined ? moved : {}) };
}

/** Hands a plan's files over, each noted before and after, then moves sequence and position. */
export async function* handOver(
  plan: FilePlan,
  { task, kept, policy, properties }: Work,
  opened: () => Promise<FilePlace>,
): AsyncGenerator<Handed> {
  const { progress, context } = task;
  progress.phase = 'loading';
  const place = await opened();
  const files = (plan.files ?? []).map((file) => ({ ...file }));
  const note = async (change: Partial<ExportState> = {}) =>
    writeExportState(kept, { ...(await readExportState(kept)), plan: { ...plan, files }, ...change });
  for (const file of files) {
    if (file.is_sent) continue;
    context.signal.throwIfAborted();
    const { is_tried: isTried, uploaded_to: uploadedTo } = file;
    file.is_tried = true;
    if (!isTried) await note();
    const state = (await readExportState(kept)).files;
    const handing = place.handOver({
      ...{ file, path: join(plannedFolder(kept), file.local), properties, isTried },
      uploadedTo: uploadedTo ?? undefined,
      companions: state.flatMap((other) => other.companions),
      replaceable: [...state, ...plan.former].filter(({ name }) => name === file.name),
      uploaded: async (to) => {
        file.uploaded_to = to;
        await note();
      },
      // Else the next try would take a file that is nowhere for one that was fetched and, if cdsync may not list the place, the
      // file of others for a torn one of cdsync.
      refused: async () => {
        Object.assign(file, { is_tried: isTried, uploaded_to: null });
        await note();
      },
      beside: async (name) => {
        if (file.companions.includes(name)) return;
        file.companions = [...file.companions, name];
        await note();
      },
    });
    const { companions, isReadBack } = await handing.catch((error) => thrownFor(kept, { ...plan, files }, error));
    file.is_sent = true;
    const { name, bytes, sha256, rows } = file;
    const times = { at: plan.at, handed_at: context.clock.now() };
    const handed = { name, bytes, sha256, rows, number: plan.number, ...times, companions: [...companions] };
    await note({ files: [...state.filter((other) => other.name !== name), handed] });
    progress.rows += rows;
    yield { name, rows, isReadBack };
  }
  await writeExportState(kept, handedState(await readExportState(kept), plan, policy));
  await rm(plannedFolder(kept), { recursive: true, force: true });
}
