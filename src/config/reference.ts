import { z } from 'zod';
import { allowedWords, type Unwrapped, unwrap } from '../sdk/option.js';
import { fileSchema } from './job-options.js';
import { nameRule } from './names.js';

/** The beginning of the reference page: rules for every option. */
const introduction = `# Configuration

<!-- Generated: change the declarations in src/config and src/sources, then run
     npx tsx src/cli/main.ts schema --docs > docs/configuration.md -->

A configuration is one YAML 1.2 file, or JSON, which is YAML. Commands take it as their first argument; the default is
\`./cdsync.yaml\`. \`configs/\` has examples. \`cdsync schema\` prints the JSON Schema for editors:

\`\`\`yaml
# yaml-language-server: $schema=./cdsync.schema.json
\`\`\`

## What holds everywhere

- **Nothing is ignored.** cdsync reports unknown keys, wrong types, values out of bounds and missing variables all together, each with
  file, line, column, the value found and the values allowed.
- **A key without a value is refused.** Leave the key out to get its default.
- **Relative paths** are relative to the YAML file.
- **Names** of jobs and streams are ${nameRule}. A stream may not be called \`cdsync\`, and no two streams of a job share a name.
- **Anchors, aliases and merge keys** (\`<<\`) work. cdsync refuses tags (\`!name\`), a second document and keys that stand twice.

## Variables

cdsync replaces variables in values, never in keys, after it has parsed the YAML. So a variable can never become a key, a list or a comment.

| written | becomes |
|---|---|
| \`\${NAME}\` | the variable; a problem if it is not set |
| \`\${NAME:-default}\` | the default if the variable is not set or empty |
| \`\${file:PATH}\` | the text of a file, without one line break at its end. A relative path begins at the folder of the YAML file |
| \`$$\` | a dollar |

- A value that is one \`\${…}\` alone, in quotes or not, is read again as a YAML scalar: \`page_size: \${SIZE}\` takes \`SIZE=500\`. Secrets and
  the texts of the next section are not read again.
- What a file holds is a secret: no output, log or report shows it. It may be a part of a value, \`postgres://me:\${file:password}@db/crm\`, and it
  is not read again as a YAML scalar. Files of at most 64 kB in UTF-8; an empty one is a problem. cdsync warns if every user of the machine can
  read it. Docker and Kubernetes put secrets into such files.
- Inside \`{…}\` YAML needs quotes: \`{ client_id: "\${CDS_CLIENT_ID}" }\`.
- Set only the variables that a command uses: \`--job a\` asks for none of job \`b\`, and a command that does not talk to the service asks for
  no credentials. The name of a stream is always needed.
- \`--env-file PATH\` reads \`KEY=VALUE\` lines. \`#\` begins a comment after a blank, and \`export\` may stand in front. A value in \`'…'\` stays
  as it is; in \`"…"\` cdsync replaces \`\\n\`, \`\\r\`, \`\\t\`, \`\\"\`, \`\\\\\` and \`\\$\`. Both may span several lines. A variable
  of the file wins over one of the environment.
- A secret in the file itself works, with a warning.

## Text is kept as written

Filter values, partition values, ids and the tenant are texts, character by character, with quotes or without: \`02134\` is not 2134, and
\`1.50\`, \`yes\`, \`true\`, \`0x10\` and \`2026-01-01\` stay what they are. The same holds for a variable's value, even \`null\` or something in
quotes. Without quotes, \`null\`, \`~\` and nothing at all are no text in YAML, and cdsync refuses them in the file. In quotes they are text.

## Sources

Each \`source\` has its own keys, below, and a page in \`docs/streams/\`.`;

/** One map of the configuration, with the path that leads to it. */
interface Section {
  readonly title: string;
  readonly path: string;
  readonly option: Unwrapped;
}

/** The reference page of all options, in Markdown: docs/configuration.md. */
export function configReference(): string {
  const sections = allSections();
  const pages = sections.map((section) => sectionText(section, sections));
  return `${[introduction, ...pages].join('\n\n')}\n`;
}

function allSections(): Section[] {
  const found: Section[] = [];
  const documented = new Set<z.core.$ZodType>();
  const visit = (title: string, path: string, option: Unwrapped): void => {
    const { core } = option;
    if (documented.has(core)) return;
    if (core instanceof z.ZodObject) {
      documented.add(core);
      found.push({ title, path, option });
      for (const [key, schema] of Object.entries(core.shape)) {
        const below = path === '' ? key : `${path}.${key}`;
        visit(below, below, unwrap(schema));
      }
    } else if (core instanceof z.ZodRecord) {
      visit(`${title}.<name>`, `${path}.<name>`, unwrap(core.valueType));
    } else if (core instanceof z.ZodArray) {
      visit(`${title}[]`, `${path}[]`, unwrap(core.element));
    } else if (core instanceof z.ZodDiscriminatedUnion) {
      for (const branch of core.options) {
        const inner = unwrap(branch);
        visit(kindTitle(core, inner), path, inner);
      }
    } else if (core instanceof z.ZodUnion) {
      for (const form of core.options) visit(title, path, unwrap(form));
    }
  };
  visit('The file', '', unwrap(fileSchema));
  return found;
}

/** The title of one kind of maps: `source: segments`. */
function kindTitle(union: z.ZodDiscriminatedUnion, branch: Unwrapped): string {
  return `${union.def.discriminator}: ${tagOf(union, branch)}`;
}

function tagOf(union: z.ZodDiscriminatedUnion, branch: Unwrapped): string {
  return ((branch.core as z.ZodObject).shape[union.def.discriminator] as z.ZodLiteral<string>).value;
}

function sectionText({ title, path, option }: Section, sections: readonly Section[]): string {
  const entries = Object.entries((option.core as z.ZodObject).shape).map(([key, schema]) => ({
    key,
    option: unwrap(schema),
  }));
  const heading = path === '' ? `## ${title}` : `## \`${title}\``;
  const parts = [heading];
  if (option.facts !== undefined) parts.push(option.facts.description);
  const rows = entries.map((entry) => `| ${row(entry.key, entry.option, sections).join(' | ')} |`);
  parts.push(['| key | value | default | meaning |', '|---|---|---|---|', ...rows].join('\n'));
  return parts.join('\n\n');
}

function row(key: string, option: Unwrapped, sections: readonly Section[]): string[] {
  const { facts, required } = option;
  const unit = facts?.unit === undefined ? '' : `, in ${facts.unit}`;
  const example =
    facts?.example === undefined || facts.example === option.fallback ? '' : ` Example: ${code(facts.example)}.`;
  const secret = facts?.secret ? ' Secret: name a variable.' : '';
  const meaning = `${facts?.description ?? 'Selects this kind.'}${secret}${example}`;
  return [
    `\`${key}\``,
    `${valueText(option, sections)}${unit}`,
    required ? 'required' : fallbackText(option),
    meaning,
  ].map((cell) => cell.replaceAll('|', '\\|'));
}

function fallbackText({ core, fallback }: Unwrapped): string {
  if (core instanceof z.ZodObject) return '';
  return fallback === undefined ? 'none' : code(fallback);
}

function valueText(option: Unwrapped, sections: readonly Section[]): string {
  const { core } = option;
  if (core instanceof z.ZodObject) {
    const section = sections.find((candidate) => candidate.option.core === core);
    return section === undefined ? 'a map' : `[a map](#${anchor(section.title)})`;
  }
  if (core instanceof z.ZodRecord) {
    const inner = unwrap(core.valueType);
    return inner.core instanceof z.ZodObject ? `${valueText(inner, sections)} for each name` : 'a map of texts';
  }
  if (core instanceof z.ZodArray) {
    const inner = unwrap(core.element);
    if (inner.core instanceof z.ZodObject) return `a list, each ${valueText(inner, sections)}`;
    return inner.core instanceof z.ZodDiscriminatedUnion
      ? `a list of maps: ${valueText(inner, sections)}`
      : 'a list of texts';
  }
  if (core instanceof z.ZodDiscriminatedUnion) {
    const kinds = core.options.map((branch) => unwrap(branch));
    const links = kinds.map((kind) => `[${tagOf(core, kind)}](#${anchor(kindTitle(core, kind))})`);
    return [...links, ...(option.facts?.otherKinds ? [option.facts.otherKinds] : [])].join(', ');
  }
  if (core instanceof z.ZodUnion) return core.options.map((form) => valueText(unwrap(form), sections)).join(' or ');
  return allowedWords(option);
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
