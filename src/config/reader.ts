import type { Node, YAMLMap, YAMLSeq } from 'yaml';
import { holdsSecret } from '../core/secret.js';
import { meant } from '../core/suggestions.js';
import { z } from '../core/zod.js';
import { allowedWords, type OptionInfo, option as optionOf, type Unwrapped, unwrap } from '../sdk/option.js';
import { nameFault, nameRule } from './names.js';
import { ConfigError, type ConfigProblem, type ConfigProblems, openToAll, type SourceLocation } from './problem.js';
import { readScalar } from './scalar.js';
import { expand, type Replacements } from './variables.js';
import { isMap, isScalar, isSeq } from './yaml.js';
import type { YamlDocument } from './yaml-document.js';
import { type Entry, isNothing, kindOf, offsetOf, quotePlaceholders, YamlEntries } from './yaml-entries.js';

/** A value that a variable makes wrong. It is a problem only if a command uses the value. */
export class UnresolvedVariable {
  constructor(readonly problem: ConfigProblem) {}
}

/** Whether a value is a map as the reader makes it: no list, no {@link UnresolvedVariable}. */
export function isPlainMap(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && Object.getPrototypeOf(value) === Object.prototype;
}

type Entries = ReadonlyMap<string, Entry>;

function below({ path, offset }: SourceLocation, key: string | number): SourceLocation {
  return { path: [...path, key], offset };
}

/** Reads a YAML document by a schema, and adds each fault to {@link ConfigProblems}. */
export class YamlSchemaReader {
  readonly #findings: ConfigProblems;
  readonly #replacements: Replacements;
  readonly #entries: YamlEntries;
  /** Words for kinds of maps that no schema is known for, where `otherKinds` allows more than the known ones. */
  readonly otherKinds: { readonly word: string; readonly site: SourceLocation }[] = [];
  /** Names of the variables that secrets use. */
  readonly secretVariables = new Set<string>();

  constructor(parsed: YamlDocument, findings: ConfigProblems, replacements: Replacements) {
    this.#findings = findings;
    this.#replacements = replacements;
    const refuse = (site: SourceLocation, message: string) => findings.refuse(site, { message });
    this.#entries = new YamlEntries(parsed, refuse, (site, message) => {
      throw new ConfigError([findings.problem(site, { message })]);
    });
  }

  /**
   * The plain value of a node, with keys as in the YAML and without defaults; undefined if it was refused. Parts that a
   * variable makes wrong are {@link UnresolvedVariable}.
   */
  read(schema: z.core.$ZodType, node: Node | null, site: SourceLocation): unknown {
    const option = unwrap(schema);
    this.#findings.visit(site);
    const value = this.#part(schema, option, node, site);
    this.#check(option.info, value, site);
    return value;
  }

  #part(schema: z.core.$ZodType, option: Unwrapped, node: Node | null, site: SourceLocation): unknown {
    const { core, info } = option;
    if (core instanceof z.ZodArray) return this.#list(core, option, node, site);
    const allowed = core instanceof z.ZodObject ? Object.keys(core.shape).join(', ') : info?.allowed;
    if (core instanceof z.ZodObject)
      return this.#map(node, { site, allowed }, (map) => this.#object(core, info, map, site));
    if (core instanceof z.ZodRecord)
      return this.#map(node, { site, allowed: 'names, each with a colon and its value' }, (map) =>
        this.#record(core, info, map, site),
      );
    if (core instanceof z.ZodDiscriminatedUnion)
      return this.#map(node, { site, allowed }, (map) => this.#union(core, info, map, site));
    if (core instanceof z.ZodUnknown) return this.#anything(schema, option, node, site);
    if (core instanceof z.ZodUnion) return this.#oneForm(core, option, node, site);
    return this.#scalar(schema, option, node, site);
  }

  #check(info: OptionInfo | undefined, value: unknown, site: SourceLocation): void {
    if (value === undefined || value instanceof UnresolvedVariable) return;
    for (const { path, message, missing, placeholder, code } of info?.check?.(value) ?? []) {
      // A problem of the whole may be caused by a problem in a part of it.
      if (missing !== undefined && this.#findings.hasProblemBelow([...site.path, missing])) continue;
      if (path.length === 0 && this.#findings.hasProblemBelow(site.path)) continue;
      this.#findings.reportAt([...site.path, ...path], { message, code }, placeholder);
    }
  }

  #map(
    node: Node | null,
    { site, allowed }: { readonly site: SourceLocation; readonly allowed?: string | undefined },
    read: (entries: Entries) => unknown,
  ): unknown {
    if (isMap(node)) return read(this.#entries.of(node as YAMLMap, site.path));
    const message = site.path.length === 0 ? 'the file must hold a map' : 'must be a map';
    return this.#findings.refuse(site, { message, found: kindOf(node), allowed });
  }

  #list(core: z.ZodArray, option: Unwrapped, node: Node | null, site: SourceLocation): unknown {
    if (!isSeq(node)) {
      const allowed = isMap(node) ? 'entries that each begin with "- "' : 'entries in […], or each after "- "';
      return this.#findings.refuse(site, { message: 'must be a list', found: kindOf(node), allowed });
    }
    const items = (node as YAMLSeq<Node | null>).items;
    if (items.length === 0 && !z.safeParse(core, []).success) {
      return this.#findings.refuse(site, { message: `must be ${allowedWords(option)}`, found: 'an empty list' });
    }
    return items.map((item, index) => {
      const path = [...site.path, index];
      const followed = this.#entries.follow(item, path);
      if (followed === undefined) return undefined;
      return this.read(core.element, followed, { path, offset: offsetOf(item, site.offset) });
    });
  }

  /** A value of any depth, with its variables replaced. */
  #anything(schema: z.core.$ZodType, option: Unwrapped, node: Node | null, site: SourceLocation): unknown {
    const anyOption = optionOf(z.unknown(), { description: '', template: option.info?.template ?? false });
    if (isMap(node))
      return this.#map(node, { site }, (map) => this.#record(z.record(z.string(), anyOption), undefined, map, site));
    if (isSeq(node)) return this.#list(z.array(anyOption), option, node, site);
    if (node === null || (isScalar(node) && isNothing(node))) return null;
    return this.#scalar(schema, option, node, site);
  }

  /** A value that may be written as a list, as a map or as a word, each at most once; the node decides. */
  #oneForm(core: z.ZodUnion, option: Unwrapped, node: Node | null, site: SourceLocation): unknown {
    const kinds = isSeq(node) ? [z.ZodArray] : isMap(node) ? [z.ZodObject] : [z.ZodLiteral, z.ZodEnum, z.ZodString];
    const form = core.options.find((option) => kinds.some((kind) => unwrap(option).core instanceof kind));
    if (form === undefined || node === null || (isScalar(node) && isNothing(node)))
      return this.#findings.refuse(site, { message: `must be ${allowedWords(option)}`, found: kindOf(node) });
    if (!isScalar(node)) return this.read(form, node, site);
    return this.#scalar(form, { ...unwrap(form), info: option.info }, node, site);
  }

  #object(core: z.ZodObject, info: OptionInfo | undefined, entries: Entries, site: SourceLocation): unknown {
    const value: Record<string, unknown> = {};
    for (const entry of entries.values()) {
      const schema = Object.hasOwn(core.shape, entry.key) ? core.shape[entry.key] : undefined;
      const here = { path: [...site.path, entry.shown], offset: entry.offset };
      if (schema === undefined) this.#unknownKey(core, info, entry, here);
      else value[entry.key] = this.read(schema, entry.value, { path: here.path, offset: entry.valueOffset });
    }
    for (const [key, schema] of Object.entries(core.shape)) {
      if (unwrap(schema).required && !entries.has(key)) this.#missing(below(site, key), unwrap(schema));
    }
    if (info?.forms !== undefined) this.#forms(info.forms, entries, site);
    return value;
  }

  #missing(site: SourceLocation, option: Unwrapped): void {
    const structure = option.core instanceof z.ZodObject || option.core instanceof z.ZodDiscriminatedUnion;
    this.#findings.refuse(site, { message: 'missing', allowed: structure ? 'a map' : allowedWords(option) });
  }

  #unknownKey(core: z.ZodObject, info: OptionInfo | undefined, { key }: Entry, site: SourceLocation): void {
    const usable = Object.keys(core.shape);
    const replacement = info?.replaced?.[key];
    if (replacement !== undefined) {
      const message = `unknown key: \`${replacement}\` has taken its place`;
      this.#findings.refuse(site, { message, nearest: replacement, allowed: usable.join(', ') });
      return;
    }
    const [, name = ''] = /^([\w-]+):\S/.exec(key) ?? [];
    if (usable.includes(name)) {
      this.#findings.refuse(site, { message: `a space is missing after "${name}:"` });
      return;
    }
    const belongs = rightPath(key, site);
    if (belongs !== undefined) {
      this.#findings.refuse(site, { message: `unknown key here; ${belongs}` });
      return;
    }
    const near = meant(/^[\w.-]*/.exec(key)?.[0] || key, usable);
    this.#findings.refuse(site, { message: 'unknown key', nearest: near, allowed: usable.join(', ') });
  }

  #forms(forms: readonly (readonly string[])[], entries: Entries, site: SourceLocation): void {
    const touched = forms.filter((form) => form.some((key) => entries.has(key)));
    const allowed = `exactly one of: ${forms.map((form) => form.join(' and ')).join(', or ')}`;
    if (touched.length === 0) this.#findings.refuse(site, { message: 'incomplete', allowed });
    if (touched.length > 1) this.#findings.refuse(site, { message: 'use only one of these forms', allowed });
    if (touched.length !== 1) return;
    for (const key of touched[0] ?? []) {
      if (!entries.has(key)) this.#findings.refuse(below(site, key), { message: 'missing', allowed });
    }
  }

  #union(core: z.ZodDiscriminatedUnion, info: OptionInfo | undefined, entries: Entries, site: SourceLocation): unknown {
    const key = core.def.discriminator;
    const branches = core.options.map((branch) => {
      const { core: inner, info: about } = unwrap(branch);
      const object = inner as z.ZodObject;
      return { object, about, tag: (object.shape[key] as z.ZodLiteral<string>).value };
    });
    const tags = z.enum(branches.map((branch) => branch.tag));
    const option: Unwrapped = { ...unwrap(tags), info };
    const entry = entries.get(key);
    const here = { path: [...site.path, key], offset: entry?.valueOffset ?? site.offset };
    const knownNames = new Set(branches.flatMap(({ object }) => Object.keys(object.shape)));
    if (entry === undefined && !this.#misspelt(key, knownNames, entries, site)) this.#missing(here, option);
    const tag = entry === undefined ? undefined : this.#scalar(tags, option, entry.value, here);
    if (tag === undefined && entry !== undefined && info?.otherKinds !== undefined) this.#note(entry.value, here);
    if (tag instanceof UnresolvedVariable) return tag;
    const chosen = branches.find((branch) => branch.tag === tag);
    const objects = branches.map(({ object }) => object);
    if (chosen === undefined) return this.#common(objects, entries, site);
    const value = this.#object(chosen.object, chosen.about, entries, site);
    this.#check(chosen.about, value, site);
    this.#check(info, value, site);
    return value;
  }

  /** Whether a key was meant that is written otherwise: then its problem is that one, not that the right one is missing. */
  #misspelt(wanted: string, knownNames: ReadonlySet<string>, entries: Entries, site: SourceLocation): boolean {
    const wrong = [...entries.values()].find(({ key }) => !knownNames.has(key) && meant(key, [wanted]) !== undefined);
    if (wrong === undefined) return false;
    const here = { path: [...site.path, wrong.shown], offset: wrong.offset };
    this.#findings.refuse(here, { message: 'unknown key', nearest: wanted });
    return true;
  }

  /** Notes the word of an unknown kind. The caller may know it, or load it. */
  #note(node: Node | null, site: SourceLocation): void {
    if (!isScalar(node)) return;
    const { text, missing, faults } = expand(node.source ?? String(node.value), this.#replacements);
    if (missing.length === 0 && faults.length === 0) this.otherKinds.push({ word: text, site });
  }

  /** Checks the keys that all branches share, if it is not known which branch is meant. */
  #common(branches: readonly z.ZodObject[], entries: Entries, site: SourceLocation): undefined {
    for (const [key, schema] of Object.entries(branches[0]?.shape ?? {})) {
      const entry = entries.get(key);
      if (entry === undefined || !branches.every(({ shape }) => shape[key] === schema)) continue;
      this.read(schema, entry.value, { path: [...site.path, key], offset: entry.valueOffset });
    }
    return undefined;
  }

  #record(core: z.ZodRecord, info: OptionInfo | undefined, entries: Entries, site: SourceLocation): unknown {
    const value: Record<string, unknown> = {};
    for (const entry of entries.values()) {
      const path = [...site.path, entry.shown];
      const message = keyFault(core, info, entry.key);
      if (message !== undefined) this.#findings.refuse({ path, offset: entry.offset }, { message });
      else value[entry.key] = this.read(core.valueType, entry.value, { path, offset: entry.valueOffset });
    }
    return value;
  }

  #scalar(schema: z.core.$ZodType, option: Unwrapped, node: Node | null, site: SourceLocation): unknown {
    if (node !== null && !isScalar(node)) {
      const isPlaceholder = isMap(node) && node.items.some(({ key }) => isMap(key));
      const written = isPlaceholder ? `a map; ${quotePlaceholders}` : kindOf(node);
      return this.#findings.refuse(site, { message: `must be ${allowedWords(option)}`, found: written });
    }
    const { value, fault, variables, exposed = [] } = readScalar(schema, option, node, this.#replacements);
    if (option.info?.secret || option.info?.template) for (const name of variables) this.secretVariables.add(name);
    if (fault !== undefined) {
      if (variables.length > 0) return new UnresolvedVariable(this.#findings.problem(site, fault));
      return this.#findings.refuse(site, fault);
    }
    for (const path of exposed) this.#findings.warn(site.path, openToAll(path));
    const { secret, holdsSecret: isOne = holdsSecret } = option.info ?? {};
    if (secret && variables.length === 0 && isOne(String(node?.value))) {
      this.#findings.warn(site.path, `plain-text secret in the file; write \${NAME} and set the variable`);
    }
    return value;
  }
}

const ofSchedulers: ReadonlySet<string> = new Set(['schedule', 'cron', 'interval', 'every', 'timezone']);
const ofJobs: ReadonlySet<string> = new Set([
  ...['streams', 'destinations', 'guards', 'notify', 'publish', 'keep', 'parquet', 'metrics', 'recognition'],
  ...['before', 'after', 'resume_within', 'select', 'strings'],
]);

/** Where a key belongs that is known, but not here. */
function rightPath(key: string, { path }: SourceLocation): string | undefined {
  if (ofSchedulers.has(key)) return 'cdsync does not schedule runs: cron, systemd or CI does (docs/deployment.md)';
  if (path.length !== 1 || !ofJobs.has(key)) return undefined;
  return `it belongs to a job (jobs.NAME.${key}), or to all jobs (defaults.${key})`;
}

function keyFault(core: z.ZodRecord, info: OptionInfo | undefined, key: string): string | undefined {
  if (key.includes(`\${`)) return 'variables are not replaced in keys';
  if (key === '__proto__') return 'this cannot be a key';
  const result = z.safeParse(core.keyType, key);
  if (result.success) return undefined;
  const [issue] = result.error.issues;
  if (issue?.code === 'custom') return issue.message;
  const allowed = info?.allowed ?? 'text that is not empty';
  return (allowed.startsWith(nameRule) ? nameFault(key) : undefined) ?? `a key must be ${allowed}`;
}
