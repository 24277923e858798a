import type { StreamConfig } from '../../config/config.js';
import { formatNames } from '../../core/quantities.js';
import type { StreamSample } from './sample-stream.js';

const maxNamed = 10;

type Waiting = { readonly name: string; readonly missing: readonly string[] };

/** One line for all streams whose requests depend on the same streams, which no run has read. */
export function unknownRequests(streams: readonly Waiting[]): string[] {
  const byMissing = new Map<string, string[]>();
  for (const { name, missing } of streams) {
    const needed = missing.join(' and ');
    byMissing.set(needed, [...(byMissing.get(needed) ?? []), name]);
  }
  return [...byMissing].map(([needed, names]) => {
    const whose = names.length === 1 ? 'its' : 'their';
    return `${formatNames(names, maxNamed)}: ${whose} requests depend on the records of ${needed}`;
  });
}

type Reading = Pick<StreamConfig, 'name' | 'source'> & {
  readonly reads: Pick<StreamConfig['reads'], 'filter' | 'definition'>;
};

/** Streams whose records another stream of the same index reads too: a query over that one needs no request. */
export function repeatedReadings(streams: readonly Reading[]): string[] {
  const byIndex = new Map<string, Reading[]>();
  for (const stream of streams) {
    if (stream.source !== 'index_profiles') continue;
    const index = String(stream.reads.definition.index);
    byIndex.set(index, [...(byIndex.get(index) ?? []), stream]);
  }
  return [...byIndex].flatMap(([index, readings]) => {
    const whole = readings.find(({ reads }) => reads.filter.size === 0);
    const others = readings.filter((stream) => stream !== whole).map(({ name }) => name);
    if (whole === undefined || others.length === 0) return [];
    const [streams, them] = others.length === 1 ? ['stream', 'it'] : ['streams', 'them'];
    return [
      `${formatNames(others, maxNamed)}: ${whole.name} reads the whole index ${index} too; read it once, and make ${them} \`sql\` ${streams} over ${whole.name}`,
    ];
  });
}

/** How the stream's contract would handle the new columns and values of a sample. */
export function contractNotes(
  { name, contract }: Pick<StreamConfig, 'name' | 'contract'>,
  { columnsAdded, columnsWidened }: Pick<StreamSample, 'columnsAdded' | 'columnsWidened'>,
): string[] {
  const effects = {
    freeze: 'the run would fail the stream',
    discard_value: 'the run would leave the values out',
    discard_row: 'the run would leave the rows out',
  };
  const { columns, types } = contract;
  return [
    ...(columns === 'evolve'
      ? []
      : columnsAdded.map(
          ({ column, type }) =>
            `${name}: ${column} is new (${type}), and \`contract.columns\` is ${columns}: ${effects[columns]}`,
        )),
    ...(types === 'evolve'
      ? []
      : columnsWidened.map(
          ({ column, from, to }) =>
            `${name}: ${column} has values that ${from} does not hold (${to}), and \`contract.types\` is ${types}: ${effects[types]}`,
        )),
  ];
}
