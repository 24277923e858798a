import { ServiceError } from '../../api/client.js';
import { type Column, columnPath } from '../../columns/columns.js';
import { optionalTotal } from '../../extract/list-total.js';
import { cutOrRetry, ListFetcher } from '../../extract/page-fetcher.js';
import { ColumnSample } from '../../extract/scan/column-sample.js';
import { cutPageExactly } from '../../extract/scan/page-cutter.js';
import { profilesOfIndex } from '../../sources/index-profiles.js';
import type { ListSource } from '../../sources/source.js';
import type { ServiceBrowser } from './explorer.js';

/** One attribute as a sample shows it, without any of its values. */
export interface SampledAttribute {
  /** Its place in a profile: `attributes.email`. */
  readonly path: string;
  readonly column: string;
  /** DuckDB type of the column in a run over the same profiles. */
  readonly type: string;
  /** The type that it would have with `strings: infer`. */
  readonly inferred: string;
  /** Share of the sampled profiles that lack it, from 0 to 1. */
  readonly null_share: number;
  /** Null if the service was not asked. */
  readonly filterable: boolean | null;
}

/** Pages may be smaller than asked for, or empty. After this many more pages, the sample is complete as it is. */
const sparePages = 10;

const noFilter: ReadonlyMap<string, string> = new Map();

function newSample({ declared, container, key }: ListSource): ColumnSample {
  return new ColumnSample(declared, { container, key, filter: noFilter });
}

async function readSample(explorer: ServiceBrowser, source: ListSource, size: number): Promise<ColumnSample> {
  const { client, meter, signal, clock, service } = explorer;
  const sample = newSample(source);
  const limit = Math.min(size, service.pageSize);
  const fetcher = new ListFetcher(
    { client, meter, signal, clock, pageSize: { limit } },
    ({ token, limit: asked }) => source.page({ token, limit: asked, filter: noFilter, withTotal: false }),
    { added: source.added, takesLimit: true },
  );
  let token: string | null = null;
  let pages = Math.ceil(size / limit) + sparePages;
  do {
    const page = await fetcher.fetch(token);
    sample.take(page.body, page.start, page.end);
    page.response?.dispose();
    token = page.nextToken;
    pages -= 1;
  } while (token !== null && sample.records < size && pages > 0);
  return sample;
}

/** Enough profiles that a service which ignores the filter returns some that do not match. */
const probeLimit = 10;

interface Probe {
  readonly field: string;
  readonly value: string;
  readonly seen: boolean;
}

/** The type of a column whose texts stay texts. */
function keptType({ type, form }: Column): string {
  return form === undefined ? type : 'VARCHAR';
}

/** A filter to try. URLs are logged, so its value is one that many profiles share, or an invented one. */
function probe(sample: ColumnSample, column: Column): Probe | undefined {
  const { place, field } = column;
  const type = keptType(column);
  if (place !== 'attribute' || !/^(VARCHAR|BOOLEAN|BIGINT|HUGEINT|DOUBLE)$/.test(type)) return undefined;
  const shared = sample.sharedValue(column);
  if (shared !== undefined) return { field, value: shared, seen: true };
  const invented = type === 'VARCHAR' ? 'cdsync-filter-probe' : type === 'BOOLEAN' ? 'true' : '-987654321';
  return { field, value: invented, seen: false };
}

/** Whether the service accepts a filter on an attribute and applies it (specification, section 4.4). */
async function isFilterable(
  { client, signal, meter }: ServiceBrowser,
  source: ListSource,
  { field, value, seen }: Probe,
): Promise<boolean> {
  const filter = new Map([[field, value]]);
  const operation = source.page({ token: null, limit: probeLimit, filter, withTotal: false });
  const sample = newSample(source);
  try {
    const page = await client.send(operation, (body) => cutOrRetry(body, cutPageExactly), { signal, meter });
    sample.take(page.body, page.start, page.end);
  } catch (error) {
    if (error instanceof ServiceError && error.status === 400) return false;
    throw error;
  }
  const column = sample.columns.get('attribute', field);
  const matching = column === undefined ? 0 : sample.holders(column, value);
  return matching === sample.records && (sample.records > 0 || !seen);
}

/** Reads some profiles of an index. If `filters` is set, also asks which of their attributes can be filtered. */
export async function sampleIndex(
  explorer: ServiceBrowser,
  indexId: string,
  { size, filters }: { size: number; filters: boolean },
): Promise<{ readonly profiles: number; readonly attributes: readonly SampledAttribute[] }> {
  const source = profilesOfIndex(indexId);
  const sample = await readSample(explorer, source, size);
  const declared = new Set(source.declared.map(({ field }) => field));
  const columns = sample.columns.list.filter(({ place, field }) => place === 'attribute' || !declared.has(field));
  const describe = async (column: Column): Promise<SampledAttribute> => {
    const tried = filters ? probe(sample, column) : undefined;
    return {
      path: columnPath(column),
      column: column.name,
      type: keptType(column),
      inferred: column.type,
      null_share: sample.nulls(column) / sample.records,
      filterable: tried === undefined ? null : await isFilterable(explorer, source, tried),
    };
  };
  return { profiles: sample.records, attributes: await Promise.all(columns.map(describe)) };
}

/** Number of profiles of an index, by the service's own count; null if it gives none. Counting can be expensive for it. */
export async function countProfiles(
  { client, signal, meter }: ServiceBrowser,
  indexId: string,
): Promise<number | null> {
  const source = profilesOfIndex(indexId);
  const operation = source.page({ token: null, limit: 1, filter: noFilter, withTotal: true });
  return optionalTotal(client, operation, { signal, meter });
}
