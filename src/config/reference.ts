import { z } from 'zod';
import { allowedWords, type Unwrapped, unwrap } from '../sdk/option.js';
import { fileSchema } from './job-options.js';
import { introduction } from './reference-text.js';

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
