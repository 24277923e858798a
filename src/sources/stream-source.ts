import type { ApiGroup } from '../core/service-options.js';
import { camelKey } from '../sdk/option.js';
import type { ReadOptions, SourceContext, SourceDeclaration, StoredRecord } from './declaration.js';
import { completeSource, type Source } from './source.js';

/** Above this many absent keys a list is read a second time, unless the stream says otherwise. */
const defaultConfirmDeletes = 10_000;

/** The source of one stream, with the stream's options: everything that is known before it is opened. */
export interface StreamSource extends ReadOptions {
  readonly group: ApiGroup | null;
  readonly key: readonly string[];
  readonly brings: 'everything' | 'additions';
  /** The options that decide which records the stream has. */
  readonly definition: Readonly<Record<string, unknown>>;
  /** Records asked for in a page; undefined: `service.page_size` decides. */
  readonly pageSize: number | undefined;
  /** Given if stored records change until they have ended: {@link SourceDeclaration.isUnfinished}. */
  readonly unfinished: { readonly watched: readonly string[]; is(record: StoredRecord): boolean } | undefined;
  /** {@link SourceDeclaration.details} */
  readonly details: readonly string[] | undefined;
  /** Undefined if the stream is a query: {@link ReadOptions.query}. @throws {CdsyncError} as {@link SourceDeclaration.open} */
  readonly open: ((context: SourceContext) => Promise<Source>) | undefined;
}

type Options = Readonly<Record<string, unknown>>;

function definingOptions({ options: shape, notDefining = [] }: SourceDeclaration, options: Options): Options {
  const names = Object.keys(shape).filter((name) => !notDefining.includes(name));
  const given = names.map((name) => [camelKey(name), options[camelKey(name)]] as const);
  return Object.fromEntries(given.filter(([, value]) => value !== undefined));
}

/** @param options of the stream, in camelCase, defaults filled in */
export function streamSource(declaration: SourceDeclaration, options: Options): StreamSource {
  const { name, group, declared, container, brings, pages, watched = [] } = declaration;
  const definition = definingOptions(declaration, options);
  const key = 'option' in declaration.key ? (options[declaration.key.option] as readonly string[]) : declaration.key;
  const facts = { name, declared, container, key, brings };
  const { open, isUnfinished } = declaration;
  return {
    filter: new Map(),
    partitionBy: undefined,
    canPartition: false,
    checkTotal: false,
    confirmDeletes: defaultConfirmDeletes,
    windows: undefined,
    query: undefined,
    ...declaration.manners?.(options),
    group,
    key,
    brings,
    definition,
    pageSize: (options.pageSize as number | undefined) ?? pages?.size,
    details: declaration.details,
    unfinished: isUnfinished && { watched, is: isUnfinished },
    open: open && (async (context) => completeSource(facts, await open(options, context), definition)),
  };
}
