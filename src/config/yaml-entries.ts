import type { Alias, Document, Node, Pair, Scalar, YAMLMap } from 'yaml';
import type { Path, SourceLocation } from './problem.js';
import { isAlias, isMap, isScalar, isSeq, visit } from './yaml.js';
import type { YamlDocument } from './yaml-document.js';

/** One key of a map, and its value. */
export interface Entry {
  readonly key: string;
  /** The key as messages show it. A word without a colon is shown as `…`, for it may be a misplaced secret. */
  readonly shown: string;
  /** Position of the key. */
  readonly offset: number;
  /** Aliases are followed; null if the key has no value. */
  readonly value: Node | null;
  /** Position of the value, or of its alias. */
  readonly valueOffset: number;
}

type Refuse = (site: SourceLocation, message: string) => void;
type Abandon = (site: SourceLocation, message: string) => never;

type Anchored = Exclude<Node, Alias>;

/** What helps where YAML reads a placeholder as a map. */
export const quotePlaceholders = 'put a placeholder in quotes: "{{ column }}"';

/** More aliases than anyone writes by hand. A file with more is an attempt to exhaust the reader. */
const maxAliases = 1000;

export function offsetOf(node: Node | null, otherwise: number): number {
  return node?.range?.[0] ?? otherwise;
}

/** The kind of a node in YAML's words. */
export function kindOf(node: Node | null): string {
  if (isMap(node)) return 'a map';
  if (isSeq(node)) return 'a list';
  if (!isScalar(node) || isNothing(node)) return 'nothing';
  if (typeof node.value === 'boolean') return 'true or false';
  if (typeof node.value === 'number' || typeof node.value === 'bigint') return 'a number';
  return 'text';
}

/** A scalar that YAML reads as null: nothing at all, `null` or `~`, without quotes. */
export function isNothing(node: Scalar): boolean {
  return node.value === null && (node.type === undefined || node.type === 'PLAIN');
}

/** Reads the maps of one document: follows aliases and merge keys, and refuses duplicate keys. */
export class YamlEntries {
  readonly #parsed: YamlDocument;
  readonly #refuse: Refuse;
  readonly #abandon: Abandon;
  #anchors: readonly Anchored[] | undefined;
  #aliases = 0;

  /** @param abandon refuses the file as a whole: what else is wrong with it would only follow */
  constructor(parsed: YamlDocument, refuse: Refuse, abandon: Abandon) {
    this.#parsed = parsed;
    this.#refuse = refuse;
    this.#abandon = abandon;
  }

  /** The node that an alias refers to; any other node is returned as it is. Undefined if the alias was refused. */
  follow(node: Node | null, path: Path): Node | null | undefined {
    if (!isAlias(node)) return node;
    this.#aliases += 1;
    const offset = offsetOf(node, 0);
    if (this.#aliases > maxAliases) this.#abandon({ path, offset }, `more than ${maxAliases} aliases are followed`);
    const target = this.#target(node);
    if (target === undefined) this.#refuse({ path, offset }, 'no anchor of this name precedes the alias');
    return target;
  }

  /** The last node before the alias that has its name as an anchor. The anchors are collected once, for a file may have many aliases. */
  #target(alias: Alias): Node | undefined {
    if (this.#anchors === undefined) {
      const anchors: Anchored[] = [];
      visit(this.#parsed.document as Document, {
        Node: (_, node) => {
          if (!isAlias(node) && node.anchor !== undefined) anchors.push(node);
        },
      });
      this.#anchors = anchors;
    }
    const before = offsetOf(alias, 0);
    return this.#anchors.findLast((node) => node.anchor === alias.source && offsetOf(node, 0) < before);
  }

  /** The entries of a map, its own first, then those that merge keys (`<<`) add. */
  of(node: YAMLMap, path: Path): Map<string, Entry> {
    const entries = new Map<string, Entry>();
    const merged: (Node | null)[] = [];
    for (const pair of node.items as Pair<Node, Node | null>[]) {
      const entry = this.#entry(pair, path);
      if (entry === undefined) continue;
      const isMerge = entry.key === '<<' && isScalar(pair.key) && pair.key.type === 'PLAIN';
      const first = entries.get(entry.key);
      if (isMerge) merged.push(pair.value ?? null);
      else if (first === undefined) entries.set(entry.key, entry);
      else
        this.#refuse(
          { path: [...path, entry.shown], offset: entry.offset },
          `duplicate key, first on line ${this.#line(first.offset)}`,
        );
    }
    for (const source of merged) this.#merge(source, entries, { path, offset: offsetOf(node, 0) });
    return entries;
  }

  #line(offset: number): number {
    return this.#parsed.position(offset).line;
  }

  #entry({ key, value }: Pair<Node, Node | null>, path: Path): Entry | undefined {
    const name = this.follow(key, path);
    const offset = offsetOf(key, 0);
    if (name === undefined) return undefined;
    if (!isScalar(name)) {
      this.#refuse({ path, offset }, isMap(name) ? `a key must be text; ${quotePlaceholders}` : 'a key must be text');
      return undefined;
    }
    const text = name.source ?? String(name.value);
    const followed = this.follow(value ?? null, [...path, text]);
    if (followed === undefined) return undefined;
    // The parser places an empty value where it stopped reading; a reader looks for the key.
    const empty = isScalar(followed) && isNothing(followed) && (followed.source ?? '') === '';
    const valueOffset = empty && !isAlias(value) ? offset : offsetOf(value, offset);
    return { key: text, shown: value === null ? '…' : text, offset, value: followed, valueOffset };
  }

  #merge(source: Node | null, into: Map<string, Entry>, { path, offset }: SourceLocation): void {
    const here = { path: [...path, '<<'], offset: offsetOf(source, offset) };
    const node = this.follow(source, here.path);
    if (node === undefined) return;
    if (isMap(node)) {
      for (const [key, entry] of this.of(node, path)) if (!into.has(key)) into.set(key, entry);
    } else if (isSeq(node) && node.items.every((item) => isMap(item) || isAlias(item))) {
      for (const item of node.items) this.#merge(item as Node, into, { path, offset });
    } else {
      this.#refuse(here, 'a merge key (<<) takes an alias of a map, or a list of such');
    }
  }
}
