import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { type FinishedRunState, type FinishedStreamState, removable } from '../../../src/engine/run/removable.js';

const [older, old, own] = ['20261101T000000Z-aaaaaa', '20261102T000000Z-bbbbbb', '20261103T000000Z-cccccc'];

function end(streams: readonly FinishedStreamState[], more: Partial<FinishedRunState> = {}): FinishedRunState {
  const folders = [{ runId: own, streams: streams.map(({ name }) => name) }];
  return { runId: own, streams, isInterrupted: false, isPart: false, folders, held: [], ...more };
}

const states = ['committed', 'held', 'wrong', 'failed', 'unopened'] as const;
const names = ['a', 'b', 'c'];

/** Any content of the folders of three runs when the third has ended. */
const ends: fc.Arbitrary<FinishedRunState> = fc
  .record({
    streams: fc
      .subarray(names, { minLength: 1 })
      .chain((chosen) =>
        fc.tuple(
          ...chosen.map((name) => fc.constantFrom(...states).map((state): FinishedStreamState => ({ name, state }))),
        ),
      ),
    isInterrupted: fc.boolean(),
    isPart: fc.boolean(),
    inFolders: fc.tuple(fc.subarray(names), fc.subarray(names), fc.subarray(names)),
    held: fc.subarray([older, old].flatMap((runId) => names.map((stream) => ({ runId, stream })))),
  })
  .map(({ inFolders, streams, held, ...rest }) => {
    const folders = [older, old, own].map((runId, index) => ({ runId, streams: inFolders[index] ?? [] }));
    const lies = ({ runId, stream }: { runId: string; stream: string }) =>
      folders.some((folder) => folder.runId === runId && folder.streams.includes(stream));
    const ofOwn = streams.filter(({ state }) => state === 'held').map(({ name }) => ({ runId: own, stream: name }));
    return { ...rest, runId: own, streams, folders, held: [...held, ...ofOwn].filter(lies) };
  });

describe('the staged data of a run', () => {
  test('goes with its folder when all streams are committed', () => {
    expect(removable(end([{ name: 'a', state: 'committed' }]))).toEqual({ runs: [own], streams: [] });
  });

  test('stays for a failed stream, and goes for a committed one', () => {
    const streams: FinishedStreamState[] = [
      { name: 'a', state: 'committed' },
      { name: 'b', state: 'failed' },
    ];
    expect(removable(end(streams))).toEqual({ runs: [], streams: [{ runId: own, stream: 'a' }] });
  });

  test('goes if the reading is wrong: resuming it would fail again', () => {
    expect(removable(end([{ name: 'a', state: 'wrong' }])).runs).toEqual([own]);
  });

  test('stays whole after an interruption, in any case', () => {
    const streams: FinishedStreamState[] = [{ name: 'a', state: 'failed' }];
    const folders = [
      { runId: old, streams: ['b'] },
      { runId: own, streams: ['a'] },
    ];
    expect(removable(end(streams, { isInterrupted: true, folders }))).toEqual({ runs: [], streams: [] });
  });

  test('stays if a guard holds it, until the stream is committed or held again', () => {
    const folders = [{ runId: old, streams: ['a'] }];
    const held = [{ runId: old, stream: 'a' }];
    const goneAfter = (state: FinishedStreamState['state']) =>
      removable(end([{ name: 'a', state }], { folders, held })).runs;
    expect(states.filter((state) => goneAfter(state).includes(old))).toEqual(['committed', 'held']);
  });

  test('goes only for those held streams that ended otherwise', () => {
    const folders = [{ runId: old, streams: ['a', 'b'] }];
    const held = ['a', 'b'].map((stream) => ({ runId: old, stream }));
    const streams: FinishedStreamState[] = [
      { name: 'a', state: 'committed' },
      { name: 'b', state: 'failed' },
    ];
    expect(removable(end(streams, { folders, held }))).toEqual({
      runs: [],
      streams: [{ runId: old, stream: 'a' }],
    });
  });

  test('goes for earlier runs only after a run that looked at every stream in full', () => {
    const folders = [
      { runId: older, streams: ['a'] },
      { runId: old, streams: ['b'] },
    ];
    const goneAfter = (state: FinishedStreamState['state'], isPart: boolean) =>
      removable(end([{ name: 'a', state }], { folders, isPart })).runs;
    expect(goneAfter('committed', false)).toEqual([older, old]);
    expect(goneAfter('failed', false)).toEqual([older, old]);
    expect(goneAfter('committed', true)).toEqual([]);
    expect(goneAfter('unopened', false)).toEqual([]);
  });

  test('keeps every undecided held stream, and every checkpoint that a run may resume', () => {
    fc.assert(
      fc.property(ends, (input) => {
        const { runs, streams } = removable(input);
        const goes = (runId: string, stream: string) =>
          runs.includes(runId) || streams.some((each) => each.runId === runId && each.stream === stream);
        const stateOf = new Map(input.streams.map(({ name, state }) => [name, state]));
        for (const { runId, streams: inFolder } of input.folders) {
          for (const stream of inFolder) {
            const state = stateOf.get(stream);
            const isHeld = input.held.some((each) => each.runId === runId && each.stream === stream);
            if (input.isInterrupted) expect(goes(runId, stream)).toBe(false);
            else if (runId === own) expect(goes(runId, stream)).toBe(state === 'committed' || state === 'wrong');
            else if (isHeld) expect(goes(runId, stream)).toBe(state === 'committed' || state === 'held');
            else if (input.isPart || [...stateOf.values()].includes('unopened'))
              expect(goes(runId, stream)).toBe(false);
          }
        }
      }),
      { numRuns: 1000 },
    );
  });

  test('leaves no empty folder', () => {
    fc.assert(
      fc.property(ends, (input) => {
        const { runs, streams } = removable(input);
        for (const { runId, streams: inFolder } of input.folders) {
          const gone = streams.filter((each) => each.runId === runId).map(({ stream }) => stream);
          const isEmpty = inFolder.every((stream) => gone.includes(stream));
          if (isEmpty && !input.isInterrupted) expect(runs).toContain(runId);
        }
      }),
    );
  });
});
