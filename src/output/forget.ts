import { formatCount, formatCounted } from '../core/quantities.js';
import type { ErasureLog, ErasureStatus } from '../delivery/erasure-log.js';
import type { ForgetResult } from '../engine/admin/forget-person.js';
import type { PeoplePlaces } from '../engine/admin/look-for-person.js';

function proof({ searched, remains, also_in: others, keys }: ForgetResult, isEverywhere: boolean): string[] {
  const inOthers = others.length === 0 ? [] : [`rows of ${others.join(', ')} have the key as well`];
  if (others.length > 0 && !isEverywhere)
    return [`not searched: ${inOthers[0]}; forget them there too (or use --everywhere), and the files are searched`];
  if (searched === 0)
    return [...inOthers, 'no file was searched for it: key and values are parts of longer texts in other rows'];
  if (remains.length === 0) {
    const texts = `${formatCounted(searched, 'text')} of ${keys === 1 ? 'the person' : 'these people'}`;
    return [...inOthers, `verified: no published file and no store has one of ${texts}`];
  }
  const waits = remains.some((file) => file.startsWith('.cdsync/deliveries/'));
  const advice = waits
    ? ['rows that wait for a destination stay until they are delivered: cdsync push, then forget again']
    : [];
  return [...inOthers, 'these files still have a trace of it:', ...remains.map((file) => `  ${file}`), ...advice];
}

/** Where the keys stay, and why. It is the last line, so it must be true of everything. */
function waitingLine({ destinations, in_clear: files, remains }: ForgetResult): string {
  const waiting = [...new Set(destinations.filter(({ status }) => status === 'waiting').map(({ name }) => name))];
  const gone = [...new Set(destinations.filter(({ status }) => status === 'not_configured').map(({ name }) => name))];
  const untold = [
    ...new Set(destinations.filter(({ status }) => status === 'sends_no_deletes').map(({ name }) => name)),
  ];
  const words: string[] = [];
  if (waiting.length > 0) {
    const private_ =
      files.length === 0
        ? ''
        : `, and until then the key stays in clear in ${formatCounted(files.length, 'private file')} (.cdsync/erasures), because the delete needs it`;
    words.push(`${waiting.join(', ')} may have the rows until the next delivery (cdsync push)${private_}`);
  }
  if (gone.length > 0)
    words.push(`${gone.join(', ')} may have the rows for good, because the configuration no longer has it`);
  if (untold.length > 0)
    words.push(`${untold.join(', ')} may have the rows for good, because no deletes are sent there`);
  if (remains.length > 0) words.push(`${formatCounted(remains.length, 'file')} above with a trace`);
  return words.length === 0
    ? 'nothing waits: every place of this job is done'
    : `not everywhere yet: ${words.join('; ')}`;
}

/** The erased rows and files, for people. */
export function forgetLines(result: ForgetResult, isEverywhere: boolean): string[] {
  const { streams, keys, rows, history, destinations, job } = result;
  const names = streams
    .map(({ name, configured }) => (configured ? name : `${name} (no longer configured)`))
    .join(', ');
  const nothing = rows + history === 0 ? [`no row of ${names} has this key`] : [];
  const what = isEverywhere ? `${job}: ${names}` : names;
  return [
    `${what}: ${formatCounted(rows, 'row')} and ${formatCount(history)} of history erased, for ${formatCounted(keys, 'key')}`,
    ...nothing,
    `deleted all earlier Parquet files of ${streams.map(({ name }) => name).join(', ')}: they may have contained it`,
    ...proof(result, isEverywhere),
    ...destinations.map(({ name, stream, status, remains }) =>
      status === 'waiting'
        ? `destination ${name}, ${stream}: the next delivery erases it (cdsync push)${remains === null ? '' : `; ${remains}`}`
        : `destination ${name}, ${stream}: ${remains}`,
    ),
    'if the service still has the person, runs leave the record out and say so (forgotten_returned): delete it there',
    waitingLine(result),
  ];
}

/** Where people are, for people. */
export function placesLines({
  job,
  streams,
  destinations,
  erasures_waiting: waiting,
  unfinished,
}: PeoplePlaces): string[] {
  const lines = streams.flatMap((stream) => {
    const { rows, published, changes, history, parquet, rejects, cache, held, unfinished: cut } = stream;
    const counts = {
      rows,
      published,
      changes,
      history,
      'Parquet rows': parquet,
      rejects,
      cache,
      held,
      'cut short': cut,
    };
    const counted = Object.entries(counts).filter(([, count]) => count > 0);
    const gone = stream.configured ? '' : ' (no longer configured)';
    const salt = stream.salt_missing
      ? [`  ${stream.name}: its keys are hashed with a salt that is not configured: name the hash to find a row`]
      : [];
    if (counted.length === 0) return salt;
    return [
      `  ${stream.name}${gone}: ${counted.map(([name, count]) => (/rows$/.test(name) ? formatCounted(count, name.slice(0, -1)) : `${formatCount(count)} ${name}`)).join(', ')}`,
      ...salt,
    ];
  });
  const touched = new Set(
    streams
      .filter((places) => Object.values(places).some((count) => typeof count === 'number' && count > 0))
      .map(({ name }) => name),
  );
  const places = destinations.filter((place) => touched.has(place.stream) || place.outbox + place.rejects > 0);
  return [
    `job ${job}:${lines.length === 0 ? ' nothing' : ''}`,
    ...lines,
    ...places.map(({ name, stream, status, delivered_at: at, outbox, rejects }) => {
      const gone = { waiting: '', not_configured: ' (no longer configured)', sends_no_deletes: ' (gets no deletes)' }[
        status
      ];
      const delivered = at === null ? 'nothing delivered yet' : `may have it, delivered ${at}`;
      const more = [
        outbox > 0 ? `${formatCounted(outbox, 'record')} ${outbox === 1 ? 'waits' : 'wait'}` : '',
        rejects > 0 ? `${formatCounted(rejects, 'reject')}` : '',
      ];
      return `  destination ${name}${gone}, ${stream}: ${[delivered, ...more.filter((part) => part !== '')].join(', ')}`;
    }),
    ...(waiting > 0
      ? [`  ${formatCounted(waiting, 'earlier erasure')} of it not carried out at every destination`]
      : []),
    ...(unfinished ? ['  an erasure of it was cut short: run cdsync forget again'] : []),
  ];
}

function erasureLines({ at, user, reason, keys, everywhere, storage, streams, destinations }: ErasureStatus): string[] {
  const of = streams.map(
    ({ name, rows, history }) => `${name} (${formatCount(rows)}, ${formatCount(history)} of history)`,
  );
  // The bucket may still have objects of the state before the commit.
  const unfinished = storage.run_id === null ? 'cut short: forget again' : 'erased; the bucket waits for cdsync push';
  return [
    `  ${at} by ${user}: ${formatCounted(keys, 'key')}${everywhere ? ', everywhere' : ''}${reason === null ? '' : `, because: ${reason}`}`,
    `    ${of.join(', ')}: ${storage.done_at === null ? unfinished : `erased ${storage.done_at}`}`,
    ...destinations.map(({ destination, stream, configured, untold, done_at: done, removed }) => {
      if (untold) return `    destination ${destination}, ${stream}: gets no deletes: erase the person there yourself`;
      const waits = configured ? 'waits for cdsync push' : 'not configured: delete it there, then cdsync state remove';
      return `    destination ${destination}, ${stream}: ${done === null ? waits : `${removed ? 'taken out' : 'erased'} ${done}`}`;
    }),
  ];
}

/** The log of erasures, for people. */
export function erasureLogLines({ job, erasures, left_out: out, decisions }: ErasureLog): string[] {
  const pending = erasures.filter(({ done }) => !done).length;
  return [
    `job ${job}: ${formatCounted(erasures.length, 'erasure')}, ${pending === 0 ? 'all done' : `${formatCount(pending)} not done everywhere`}; ${formatCounted(out, 'key')} left out of later runs`,
    ...erasures.flatMap(erasureLines),
    ...decisions.map(
      ({ at, user, action, run_id: run }) => `  ${at} by ${user}: ${action}${run === undefined ? '' : ` ${run}`}`,
    ),
  ];
}
