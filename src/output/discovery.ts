import { formatCounted } from '../core/quantities.js';
import type { DiscoveredIndex, DiscoverOptions, Discovery } from '../engine/inspect/discover-service.js';
import type { NotReadable } from '../engine/inspect/explorer.js';
import { table } from './table.js';

/** The requests of discovery besides the lists. */
type Asked = Pick<DiscoverOptions, 'totals' | 'filters'>;

/** Longer types are cut: a struct of many fields would push everything else off the line. */
const maxTypeLength = 48;

/** A name from the service, on one line and without control characters for terminals. */
export function onOneLine(text: string): string {
  return text
    .toWellFormed()
    .replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]+/gu, ' ')
    .trim();
}

function share(part: number): string {
  const percent = part * 100;
  return `${percent > 0 && percent < 10 ? percent.toFixed(1) : Math.round(percent)}%`;
}

function unreadLines({ message, code, hint }: NotReadable): string[] {
  const line = `  not readable: ${message} [${code}]`;
  return hint === null ? [line] : [line, `    ${hint}`];
}

function attributeLines({ attributes, sampled }: DiscoveredIndex, { filters }: Asked): string[] {
  if (sampled === 0) return ['  no profiles'];
  const infers = attributes.some(({ type, inferred }) => inferred !== type);
  const shown = (type: string) => (type.length > maxTypeLength ? `${type.slice(0, maxTypeLength - 1)}…` : type);
  const rows = attributes.map(({ path, type, inferred, null_share, filterable }) => [
    onOneLine(path.replace(/^attributes\./, '')),
    shown(type),
    ...(infers ? [inferred === type ? '' : shown(inferred)] : []),
    share(null_share),
    ...(filters ? [filterable === null ? '' : filterable ? 'yes' : 'no'] : []),
  ]);
  const names = ['attribute', 'type', ...(infers ? ['infer'] : []), 'null', ...(filters ? ['filter'] : [])];
  return table(names, rows).map((line) => `  ${line}`);
}

function indexLines(index: DiscoveredIndex, asked: Asked): string[] {
  const { id, name, description, profiles, sampled, error } = index;
  const title = name === null || name === id ? onOneLine(id) : `${onOneLine(name)} (id ${onOneLine(id)})`;
  const counted = !asked.totals
    ? ''
    : profiles === null
      ? ', not counted by the service'
      : `, ${formatCounted(profiles, 'profile')}`;
  const about = description === null || description === '' ? [] : [`  ${onOneLine(description)}`];
  if (error !== null) return ['', `index ${title}`, ...about, ...unreadLines(error)];
  const seen = sampled === 0 ? '' : `, as seen in ${formatCounted(sampled, 'profile')}`;
  return ['', `index ${title}${counted}${seen}`, ...about, ...attributeLines(index, asked)];
}

function segmentLines({ segments, segments_error }: Discovery): string[] {
  if (segments_error !== null) return ['', 'segments', ...unreadLines(segments_error)];
  if (segments.length === 0) return ['', 'segments: none'];
  const rows = segments.map(({ id, name, status }) => [id, name ?? '', status ?? ''].map(onOneLine));
  return ['', 'segments', ...table(['id', 'name', 'status'], rows).map((line) => `  ${line}`)];
}

/** The result of `cdsync discover`, for people. */
export function discoveryLines(discovery: Discovery, asked: Asked): string[] {
  const { base_url, tenant_id, indexes, indexes_error } = discovery;
  const listed =
    indexes_error !== null
      ? ['', 'indexes', ...unreadLines(indexes_error)]
      : indexes.length === 0
        ? ['', 'indexes: none']
        : indexes.flatMap((index) => indexLines(index, asked));
  const infersAny = indexes.some(({ attributes }) => attributes.some(({ type, inferred }) => inferred !== type));
  const note = indexes.some(({ sampled }) => sampled > 0)
    ? [
        '',
        'Types are those of the sample; a run takes them from every profile, and widens them if it must.',
        ...(infersAny
          ? ['The column infer shows what texts become with `strings: infer`; other texts stay as they are.']
          : []),
      ]
    : [];
  return [`tenant ${tenant_id} at ${base_url}`, ...listed, ...segmentLines(discovery), ...note];
}
