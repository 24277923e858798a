import { deflateRawSync } from 'node:zlib';
import pLimit from 'p-limit';
import type { RequestCounts } from '../../api/client.js';
import { type Column, type ColumnField, ColumnSet, type StoredColumn } from '../../columns/columns.js';
import { rowHash, rowKey } from '../../columns/row-hash.js';
import { CdsyncError } from '../../core/errors.js';
import { formatCounted } from '../../core/quantities.js';
import { type SampledRows, sampledRows } from '../../extract/convert/converter.js';
import { KeyedFetcher } from '../../extract/keyed-fetcher.js';
import {
  type FetchContext,
  fetchSinglePage,
  ListFetcher,
  type PageBytes,
  type PageFetcher,
} from '../../extract/page-fetcher.js';
import { RecordScanner } from '../../extract/scan/record-scanner.js';
import { MalformedPageError, type ScannedPage } from '../../extract/scan/scanned-page.js';
import { windowFetcher } from '../../extract/window-fetcher.js';
import { storedKeys } from '../../snapshot/diff.js';
import type { StreamState } from '../../snapshot/stream-state.js';
import type { ListSource, Source } from '../../sources/source.js';
import type { Session } from '../../storage/duckdb.js';
import type { OpenedStream } from '../run/open-stream.js';
import type { RunContext } from '../run-context.js';

/** A sample has about this many records, from two pages at most. */
const sampleRecords = 1000;
const samplePages = 2;
/** The records in a sample of a stream that asks by key. */
const sampleKeys = 10;
/** How often a page is requested if its records are not JSON. */
const attempts = 3;
const comma = Buffer.from(',\n');

/** Figures and columns of a stream, inferred from a few records. It contains none of their values. */
export interface StreamSample {
  /** Records that a run would keep. */
  readonly records: number;
  /** Records that it would reject. */
  readonly rejected: number;
  /** Bytes of a record in a staging file. */
  readonly bytesPerRecord: number;
  /** Its compressed size: an estimate of its size in Parquet, until there is a file. */
  readonly compressedPerRecord: number;
  /** The records compared with the snapshot; null if there is none. A sample cannot show deletes. */
  readonly compared: { readonly new: number; readonly changed: number; readonly unchanged: number } | null;
  /** Columns as a run would keep them. */
  readonly columns: readonly StoredColumn[];
  /** Columns that it would not keep. */
  readonly leftOut: readonly ColumnField[];
  readonly columnsAdded: readonly { readonly column: string; readonly type: string }[];
  readonly columnsWidened: readonly { readonly column: string; readonly from: string; readonly to: string }[];
  /** Whether the sample has all records of the stream. */
  readonly isWhole: boolean;
  /** Time of one request for a whole page, or for one record. */
  readonly roundTripMs: number;
  /** Records per page; fewer than configured if the service refused that many. */
  readonly pageSize: number;
}

interface SampleTask {
  readonly opened: OpenedStream;
  readonly source: Source;
  readonly previous: StreamState | undefined;
  /** The columns to begin with; undefined without a snapshot. */
  readonly columns: readonly StoredColumn[] | undefined;
  readonly pageSize: number;
  readonly filter: ReadonlyMap<string, string>;
  readonly hashVersion: string;
  readonly meter: RequestCounts;
  /** Has the published snapshot attached. */
  readonly session: Session;
}

/** Fetches the pages of the sample; undefined if there is nothing to request. */
function fetcherOf(context: RunContext, task: SampleTask, pageSize: { limit: number }): PageFetcher | undefined {
  const { client, signal, clock } = context;
  const { source, meter, filter, opened } = task;
  const fetching = { client, signal, clock, meter, pageSize };
  if (source.kind === 'keyed') {
    const requests = source.requests.slice(0, sampleKeys);
    const { mayMiss } = source;
    return requests.length === 0 ? undefined : new KeyedFetcher(fetching, requests, { mayMiss, limit: pLimit(1) });
  }
  const { added } = source;
  if (source.kind === 'list') {
    const page = (request: { token: string | null; limit: number }) =>
      source.page({ ...request, filter, withTotal: false });
    const inPages = new ListFetcher(fetching, page, { added, takesLimit: true });
    return source.plain === undefined ? inPages : new WholeOrPages(source, fetching, inPages);
  }
  const window = opened.windows.at(-1);
  if (window === undefined) return undefined;
  return windowFetcher(fetching, source, window);
}

/** Returns the whole list as one page; if that is not proved complete, page by page. */
class WholeOrPages implements PageFetcher {
  readonly #source: ListSource;
  readonly #context: FetchContext;
  readonly #pages: PageFetcher;

  constructor(source: ListSource, context: FetchContext, pages: PageFetcher) {
    this.#source = source;
    this.#context = context;
    this.#pages = pages;
  }

  async fetch(token: string | null): Promise<PageBytes> {
    if (token !== null) return this.#pages.fetch(token);
    const { page, isWhole } = await fetchSinglePage(this.#context, this.#source);
    if (isWhole) return page;
    page.response?.dispose();
    return this.#pages.fetch(null);
  }
}

/** Fetches and scans a page as a run would. @throws {CdsyncError} `malformed_response`, `filter_ignored` */
async function takePage(
  fetcher: PageFetcher,
  token: string | null,
  scanner: RecordScanner,
): Promise<{ page: PageBytes; scanned: ScannedPage }> {
  for (let attempt = 1; ; attempt += 1) {
    const page = await fetcher.fetch(token);
    try {
      return { page, scanned: scanner.scan(page.body, page.start, page.end) };
    } catch (error) {
      page.response?.dispose();
      if (!(error instanceof MalformedPageError) || attempt === attempts) throw error;
    }
  }
}

function assertMatch({ mismatches, mismatchedAttribute }: ScannedPage): void {
  if (mismatches === 0) return;
  throw new CdsyncError(
    `one page has ${formatCounted(mismatches, 'record')} outside of the filter on "${mismatchedAttribute}"`,
    {
      code: 'filter_ignored',
      hint: 'the service seems to ignore the filter: check that the index has this attribute available for filtering',
    },
  );
}

interface Taken {
  /** The records as a staging file has them, separated by commas. */
  readonly text: Buffer;
  readonly records: number;
  readonly rejected: number;
  readonly isWhole: boolean;
  readonly roundTripMs: number;
}

async function take(
  context: RunContext,
  fetcher: PageFetcher,
  task: SampleTask,
  scanner: RecordScanner,
): Promise<Taken> {
  const { clock } = context;
  const pages: PageBytes[] = [];
  const trips: number[] = [];
  let records = 0;
  let token: string | null = null;
  do {
    const began = clock.monotonic();
    const { page, scanned } = await takePage(fetcher, token, scanner);
    page.response?.dispose();
    trips.push(clock.monotonic() - began);
    assertMatch(scanned);
    pages.push(page);
    records += scanned.records;
    token = page.nextToken;
  } while (token !== null && records < sampleRecords && pages.length < samplePages);
  const asked = task.source.kind === 'keyed' ? Math.min(sampleKeys, task.source.requests.length) : 1;
  // The shortest trip counts: the first may have waited for a connection and a login.
  return { ...together(pages, scanner), isWhole: token === null, roundTripMs: Math.min(...trips) / asked };
}

/** Scans all pages once more, now with the final columns: the last page may have turned a column into text. */
function together(pages: readonly PageBytes[], scanner: RecordScanner): Omit<Taken, 'isWhole' | 'roundTripMs'> {
  const scanned = pages.map(({ body, start, end }) => scanner.scan(body, start, end));
  const texts = scanned
    .filter(({ records }) => records > 0)
    .map((page) => {
      const text = Buffer.alloc(page.byteLength);
      page.write(text, 0);
      return text;
    });
  return {
    text: Buffer.concat(texts.flatMap((text, index) => (index === 0 ? [text] : [comma, text]))),
    records: scanned.reduce((sum, page) => sum + page.records, 0),
    rejected: scanned.reduce((sum, page) => sum + page.rejects.length, 0),
  };
}

/** Columns of the sample that are new, or wider than in the snapshot. */
function changedColumns(before: ColumnSet, { list }: ColumnSet): Pick<StreamSample, 'columnsAdded' | 'columnsWidened'> {
  const previousOf = (column: Column) => before.get(column.place, column.field);
  // A column with only nulls so far has no type: its first type is no change.
  const typed = ({ shape, declared }: Column) => shape.kinds !== 0 || declared !== undefined;
  return {
    columnsAdded: list
      .filter((column) => previousOf(column) === undefined)
      .map(({ name, type }) => ({ column: name, type })),
    columnsWidened: list.flatMap((column) => {
      const was = previousOf(column);
      if (was === undefined || !typed(was) || was.type === column.type) return [];
      return [{ column: column.name, from: was.type, to: column.type }];
    }),
  };
}

async function compare(
  { session, previous, source, hashVersion, opened }: SampleTask,
  { query, columns }: SampledRows,
): Promise<StreamSample['compared']> {
  if (previous === undefined) return null;
  const sample = '"planned_sample"';
  await session.run(
    `CREATE OR REPLACE TEMP TABLE ${sample} AS SELECT key, any_value(hash) AS hash FROM (
       SELECT ${rowKey(source.key)} AS key, ${rowHash(columns.list)} AS hash FROM (${query})) GROUP BY key`,
  );
  const stored = storedKeys(
    { stream: opened.config.name, previous, columns: columns.store(), key: source.key, hashVersion },
    sample,
  );
  const [counts] = await session.rows(
    `SELECT count(*) FILTER (o.key IS NULL) AS new, count(*) FILTER (o.key IS NOT NULL AND o.hash <> n.hash) AS changed,
       count(*) FILTER (o.hash = n.hash) AS unchanged
     FROM ${sample} AS n LEFT JOIN (${stored}) AS o ON n.key = o.key`,
  );
  await session.run(`DROP TABLE ${sample}`);
  return { new: Number(counts?.new), changed: Number(counts?.changed), unchanged: Number(counts?.unchanged) };
}

/**
 * Reads some records of a stream as a run would, and compares them with the published snapshot. Writes nothing.
 * @returns undefined if the stream has nothing to read
 */
export async function sampleStream(context: RunContext, task: SampleTask): Promise<StreamSample | undefined> {
  const { source, previous, filter } = task;
  const pageSize = { limit: task.pageSize };
  const fetcher = fetcherOf(context, task, pageSize);
  if (fetcher === undefined) return undefined;
  const { container, key } = source;
  const { rules } = task.opened;
  const read = rules.begin(source.declared, task.columns);
  const taken = await take(context, fetcher, task, new RecordScanner(read, { container, key, filter }));
  const { text, records, rejected, isWhole, roundTripMs } = taken;
  const rows = await sampledRows(task.session, text.toString('utf8'), { read, rules });
  const compared = await compare(task, rows);
  const columns = rows.columns.store();
  const per = (bytes: number) => (records === 0 ? 0 : bytes / records);
  const none = { columnsAdded: [], columnsWidened: [] };
  return {
    records,
    rejected,
    bytesPerRecord: per(text.length),
    compressedPerRecord: per(deflateRawSync(text, { level: 1 }).length),
    compared,
    columns,
    leftOut: rules.leaveOut(read.store()),
    ...(previous === undefined ? none : changedColumns(ColumnSet.restore(previous.columns), rows.columns)),
    isWhole,
    roundTripMs,
    pageSize: pageSize.limit,
  };
}
