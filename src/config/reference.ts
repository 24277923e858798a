import { z } from '../core/zod.js';
import { allowedWords, type Unwrapped, unwrap } from '../sdk/option.js';
import { fileSchema } from './complete-schema.js';
import { nameRule } from './names.js';

/** The beginning of the reference page: rules for every option. */
const introduction = `# Configuration

<!-- Generated: change the declarations in src/config and src/sources, then: npm run reference -->

A configuration is one YAML 1.2 file, or JSON, which is YAML. Commands take it as their first argument; the default is
\`./cdsync.yaml\`. \`configs/\` has examples. \`cdsync schema\` prints the JSON Schema for editors:

\`\`\`yaml
# yaml-language-server: $schema=./cdsync.schema.json
\`\`\`

## General rules

- **No key is ignored.** cdsync reports unknown keys, wrong types, values out of bounds and missing variables together, each with file, line,
  column, the value found and the values allowed.
- **A key without a value is an error.** Leave the key out to get its default.
- **Relative paths** are relative to the YAML file.
- **Names** of jobs, streams and destinations are ${nameRule}. No stream is called \`cdsync\`, and no two share a name.
- **A duration** is a number and ms, s, m, h, d or w, such as \`90s\` or \`12h\`.
- **Anchors, aliases and merge keys** (\`<<\`) work. Tags (\`!name\`), a second document and duplicate keys are errors.

## Variables

cdsync replaces variables in values, never in keys, after it has parsed the YAML. A variable never becomes a key, a list or a comment.

| written | becomes |
|---|---|
| \`\${NAME}\` | the variable; an error if it is not set |
| \`\${NAME:-default}\` | the default if the variable is not set or empty |
| \`\${file:PATH}\` | the text of a file without its last line break; the path is relative to the YAML file |
| \`$$\` | a dollar |

- A value that is one \`\${…}\` alone, quoted or not, is read again as a YAML scalar: \`page_size: \${SIZE}\` takes \`SIZE=500\`. Secrets, and texts that
  are kept as written (below), are not read again.
- The text of a file is a secret: no output, log or report shows it. It may be part of a value, \`postgres://me:\${file:password}@db/crm\`. A file has
  at most 64 kB of UTF-8 and is not empty. cdsync warns if every user of the machine can read it. Docker and Kubernetes put secrets into such files.
- Inside \`{…}\` YAML needs quotes: \`{ client_id: "\${CDS_CLIENT_ID}" }\`.
- Only variables that a command uses must be set: \`--job a\` needs none of job \`b\`, and a command that sends no requests to the service needs no
  credentials. Names of streams must always be known.
- \`--env-file PATH\` reads \`NAME=value\` lines. \`#\` after a blank begins a comment, and \`export\` may precede the name. A value in \`'…'\` is
  literal; in \`"…"\` cdsync replaces \`\\n\`, \`\\r\`, \`\\t\`, \`\\"\`, \`\\\\\` and \`\\$\`. Both may span lines. A variable of the file overrides one of
  the environment.
- A plain-text secret in the YAML works, with a warning.

## Text is kept as written

Filter values, partition values, ids and the tenant are texts, character by character, quoted or not: \`02134\` is not 2134, and \`1.50\`, \`yes\`,
\`true\`, \`0x10\` and \`2026-01-01\` are not converted. The same holds for a variable's value, even \`null\` or a quoted text. Without quotes, \`null\`,
\`~\` and an empty value in the file are errors; in quotes they are text.`;

interface Key {
  readonly key: string;
  readonly option: Unwrapped;
}

/** One map of the configuration, with the path that points to it. */
interface Section {
  readonly title: string;
  readonly path: string;
  readonly option: Unwrapped;
  /** The connector that alone has it. */
  readonly connector?: string;
  /** For a section of common keys: the kinds that share them. */
  readonly union?: z.ZodDiscriminatedUnion;
  /** The keys that its table has. */
  readonly keys: readonly Key[];
}

/** Where a link points to, if the section is on the page. */
type Href = (section: Section) => string;

/** The reference page of all options in Markdown. Options of a single connector are on that connector's page, unless `all`. */
export function configReference({ all = false } = {}): string {
  const sections = allSections();
  const shown = sections.filter(({ connector }) => all || connector === undefined);
  const href: Href = ({ title, connector }) =>
    all || connector === undefined ? `#${anchor(title)}` : `../connectors/${connector}/README.md#options`;
  return `${[introduction, ...shown.map((section) => sectionText(section, sections, href))].join('\n\n')}\n`;
}

/** The tables of the options that only this connector has, for its page. */
export function connectorReference(name: string): string {
  const sections = allSections();
  const ofConnector = sections.filter(({ connector }) => connector === name);
  const title = ({ path }: Section) => path.slice(path.lastIndexOf('.') + 1);
  const href: Href = (section) =>
    section.connector === name ? `#${anchor(title(section))}` : `../../docs/configuration.md#${anchor(section.title)}`;
  return ofConnector
    .flatMap((section, index) => [
      ...(index === 0 ? [] : [`### \`${title(section)}\``]),
      table(section, sections, href),
    ])
    .join('\n\n');
}

/** A connector's page with these tables between its two marks. */
export function withOptions(page: string, tables: string): string {
  return page.replace(
    /(<!-- options: npm run reference -->\n)[\s\S]*?(<!-- end of options -->)/,
    (_, begin, end) => `${begin}\n${tables}\n\n${end}`,
  );
}

function allSections(): Section[] {
  const reached: Section[] = [];
  const documented = new Set<z.core.$ZodType>();
  const visitKeys = (keys: readonly Key[], path: string, connector?: string): void => {
    for (const { key, option } of keys) {
      const below = path === '' ? key : `${path}.${key}`;
      visit(below, below, option, connector);
    }
  };
  const visit = (title: string, path: string, option: Unwrapped, connector?: string): void => {
    const { core } = option;
    if (documented.has(core)) return;
    if (core instanceof z.ZodObject) {
      documented.add(core);
      const keys = keysOf(option);
      reached.push({ title, path, option, keys, ...(connector !== undefined && { connector }) });
      visitKeys(keys, path, connector);
    } else if (core instanceof z.ZodRecord) {
      visit(`${title}.<name>`, `${path}.<name>`, unwrap(core.valueType), connector);
    } else if (core instanceof z.ZodArray) {
      visit(`${title}[]`, `${path}[]`, unwrap(core.element), connector);
    } else if (core instanceof z.ZodDiscriminatedUnion) {
      visitKinds(core, path, option);
    } else if (core instanceof z.ZodUnion) {
      for (const form of core.options) visit(title, path, unwrap(form), connector);
    }
  };
  const visitKinds = (union: z.ZodDiscriminatedUnion, path: string, option: Unwrapped): void => {
    documented.add(union);
    const common = commonKeys(union);
    const keys = [...common.values()];
    reached.push({ title: commonTitle(union), path, option, union, keys });
    visitKeys(keys, path);
    for (const branch of union.options) {
      const inner = unwrap(branch);
      const keys = keysOf(inner).filter((key) => !common.has(wordsOf(key)) && key.key !== union.def.discriminator);
      const connector = union.def.discriminator === 'connector' ? { connector: tagOf(union, inner) } : {};
      const title = `${union.def.discriminator}: ${tagOf(union, inner)}`;
      reached.push({ title, path, option: inner, keys, ...connector });
      visitKeys(keys, path, connector.connector);
    }
  };
  visit('The file', '', unwrap(fileSchema));
  return reached;
}

function keysOf({ core }: Unwrapped): Key[] {
  return Object.entries((core as z.ZodObject).shape).map(([key, schema]) => ({ key, option: unwrap(schema) }));
}

/** The words that document a key, without links. */
function wordsOf(key: Key): string {
  return row(key, [], () => '').join();
}

/** The keys that at least half of the kinds have in the same words, by these words. */
function commonKeys(union: z.ZodDiscriminatedUnion): Map<string, Key> {
  const kindsOf = new Map<string, { key: Key; kinds: number }>();
  for (const branch of union.options)
    for (const key of keysOf(unwrap(branch))) {
      const words = wordsOf(key);
      kindsOf.set(words, { key, kinds: (kindsOf.get(words)?.kinds ?? 0) + 1 });
    }
  const shared = [...kindsOf].filter(([, { kinds }]) => kinds * 2 >= union.options.length);
  return new Map(shared.map(([words, { key }]) => [words, key]));
}

function commonTitle(union: z.ZodDiscriminatedUnion): string {
  return union.def.discriminator === 'source' ? 'Sources' : 'Destinations';
}

function tagOf(union: z.ZodDiscriminatedUnion, branch: Unwrapped): string {
  return ((branch.core as z.ZodObject).shape[union.def.discriminator] as z.ZodLiteral<string>).value;
}

function sectionText(section: Section, sections: readonly Section[], href: Href): string {
  const { title, path, option, union } = section;
  const parts = [path === '' || union !== undefined ? `## ${title}` : `## \`${title}\``];
  if (union !== undefined) parts.push(commonText(union, sections, href));
  else if (option.info !== undefined) parts.push(option.info.description);
  if (section.keys.length === 0) parts[parts.length - 1] += ' It has only the [keys of every source](#sources).';
  else parts.push(table(section, sections, href));
  return parts.join('\n\n');
}

function commonText(union: z.ZodDiscriminatedUnion, sections: readonly Section[], href: Href): string {
  const { discriminator } = union.def;
  const kinds = kindLinks(union, sections, href).join(', ');
  const where =
    discriminator === 'source'
      ? 'Each `source` has these keys, and those of its section below. [sources.md](sources.md) describes each'
      : 'Each `connector` has these keys, and those of its page';
  return `${where}: ${kinds}.`;
}

function table(section: Section, sections: readonly Section[], href: Href): string {
  const { union } = section;
  const lines = section.keys.map((key) => {
    const cells = row(key, sections, href);
    const without = union === undefined ? [] : kindsWithout(union, key);
    if (without.length > 0) cells[3] += ` Not for ${without.map((kind) => `\`${kind}\``).join(', ')}.`;
    return `| ${cells.join(' | ')} |`;
  });
  return ['| key | value | default | meaning |', '|---|---|---|---|', ...lines].join('\n');
}

/** The kinds that have no such key. */
function kindsWithout(union: z.ZodDiscriminatedUnion, { key }: Key): string[] {
  return union.options
    .map((branch) => unwrap(branch))
    .filter((kind) => keysOf(kind).every((other) => other.key !== key))
    .map((kind) => tagOf(union, kind));
}

function row({ key, option }: Key, sections: readonly Section[], href: Href): string[] {
  const { info, required } = option;
  const unit = info?.unit === undefined ? '' : `, in ${info.unit}`;
  const example =
    info?.example === undefined || info.example === option.fallback ? '' : ` Example: ${code(info.example)}.`;
  const secret = info?.secret ? ' Secret: name a variable.' : '';
  const meaning = `${info?.description ?? 'Selects this kind.'}${secret}${example}`;
  return [
    `\`${key}\``,
    `${valueText(option, sections, href)}${unit}`,
    required ? 'required' : fallbackText(option),
    meaning,
  ].map((cell) => cell.replaceAll('|', '\\|'));
}

function fallbackText({ core, fallback }: Unwrapped): string {
  if (core instanceof z.ZodObject) return '';
  return fallback === undefined ? 'none' : code(fallback);
}

function valueText(option: Unwrapped, sections: readonly Section[], href: Href): string {
  const { core } = option;
  if (core instanceof z.ZodObject) {
    const section = sections.find((candidate) => candidate.option.core === core);
    return section === undefined ? 'a map' : `[a map](${href(section)})`;
  }
  if (core instanceof z.ZodRecord) {
    const inner = unwrap(core.valueType);
    return inner.core instanceof z.ZodObject ? `${valueText(inner, sections, href)} for each name` : 'a map of texts';
  }
  if (core instanceof z.ZodArray) {
    const inner = unwrap(core.element);
    if (inner.core instanceof z.ZodObject) return `a list, each ${valueText(inner, sections, href)}`;
    return inner.core instanceof z.ZodDiscriminatedUnion
      ? `a list of maps: [one for each](#${anchor(commonTitle(inner.core))})`
      : 'a list of texts';
  }
  if (core instanceof z.ZodUnion)
    return core.options.map((form) => valueText(unwrap(form), sections, href)).join(' or ');
  return shortened(allowedWords(option));
}

/** Rules that the beginning of the page explains. */
function shortened(words: string): string {
  return words.replace(nameRule, 'a name').replace(/a duration: a number and .+$/, 'a duration');
}

function kindLinks(union: z.ZodDiscriminatedUnion, sections: readonly Section[], href: Href): string[] {
  const links = union.options.map((branch) => {
    const kind = unwrap(branch);
    const section = sections.find(({ option }) => option.core === kind.core) as Section;
    return `[${tagOf(union, kind)}](${href(section)})`;
  });
  const others = sections.find((section) => section.union === union)?.option.info?.otherKinds;
  return others === undefined ? links : [...links, others];
}

/** A heading's anchor as Markdown renderers make it. */
function anchor(title: string): string {
  return title
    .toLowerCase()
    .replace(/[^\w\- ]/g, '')
    .replaceAll(' ', '-');
}

function code(value: unknown): string {
  return `\`${typeof value === 'string' ? value : JSON.stringify(value)}\``;
}
