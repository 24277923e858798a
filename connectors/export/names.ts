import {
  CdsyncError,
  comparableFileName,
  type FileFacts,
  type FileOp,
  type FilePart,
  type OptionValues,
  TemplateFailure,
  TemplateRow,
  TextTemplate,
} from '../../src/sdk/index.js';
import type { ExportShape } from './options.js';

export type ExportOptions = OptionValues<ExportShape>;

/** Most bytes in one part of a path: more than this, no file system takes. */
const maxPartBytes = 255;

/** The date and the time of a moment in a time zone: `2026-11-29` and `2026-11-29T02:00:00`. */
export function localTime(at: number, timeZone: string): { readonly date: string; readonly time: string } {
  const time = new Date(at).toLocaleString('sv-SE', { timeZone }).replace(' ', 'T');
  return { date: time.slice(0, 10), time };
}

/** Properties of a file as the values of a template. */
function rowOf(values: Readonly<Record<string, string | number | undefined>>): TemplateRow {
  const texts = Object.entries(values).map(([name, value]): [string, string] => [name, JSON.stringify(value ?? null)]);
  return new TemplateRow(new Map(texts));
}

/** Renders a template of the options. @throws {CdsyncError} `template_invalid` if a filter cannot take its value */
export function rendered(
  template: string,
  { timeZone }: Pick<ExportOptions, 'timeZone'>,
  { at, ...properties }: FileFacts & Readonly<Record<string, string | number | undefined>>,
): string {
  return text(template, { ...properties, ...localTime(at, timeZone) });
}

function text(template: string, values: Parameters<typeof rowOf>[0]): string {
  try {
    return new TextTemplate(template).render(rowOf(values));
  } catch (cause) {
    if (!(cause instanceof TemplateFailure)) throw cause;
    throw new CdsyncError(`the template ${JSON.stringify(template)} cannot be filled in: ${cause.message}`, {
      code: 'template_invalid',
      hint: 'correct the template; nothing was written',
      cause,
    });
  }
}

function unsafe(name: string): string | undefined {
  const parts = name.split('/');
  if (name.trim() === '') return 'is empty';
  // biome-ignore lint/suspicious/noControlCharactersInRegex: the pattern looks for these.
  if (/[\u0000-\u001f\u007f-\u009f\u2028\u2029]/.test(name)) return 'has a control character';
  if (name.startsWith('/') || /^[A-Za-z]:[\\/]/.test(name)) return 'is an absolute path';
  if (parts.some((part) => part === '..' || part === '.' || part === '')) return 'has a part that is empty, . or ..';
  if (name.includes('\\')) return 'has a backslash';
  if (parts.some((part) => Buffer.byteLength(part) > maxPartBytes))
    return `has a part longer than ${maxPartBytes} bytes`;
  return undefined;
}

/** @throws {CdsyncError} `template_invalid` for a name that could leave the folder, or that no place takes */
function safeName(name: string, option: string): string {
  const problem = unsafe(name);
  if (problem === undefined) return name;
  const shown = JSON.stringify(name.length > 80 ? `${name.slice(0, 77)}…` : name);
  throw new CdsyncError(`\`${option}\` makes the name ${shown}, which ${problem}`, {
    code: 'template_invalid',
    hint: 'correct the template; nothing was written',
  });
}

/** The suffixes that compression and encryption add, the innermost first; of each, the one that is added, and others that do. */
function suffixesOf({ compress, encrypt }: ExportOptions): string[][] {
  const packed = { none: [], gzip: [['.gz']], zip: [['.zip']] }[compress];
  const hidden = encrypt === undefined ? [] : [encrypt.armor ? ['.asc', '.pgp', '.gpg'] : ['.pgp', '.gpg']];
  return [...packed, ...hidden];
}

/** A name without these suffixes, as far as it has them, and those that it had. */
function cut(options: ExportOptions, name: string): { readonly rest: string; readonly suffixes: readonly string[] } {
  return suffixesOf(options).reduceRight<{ rest: string; suffixes: string[] }>(
    ({ rest, suffixes }, [first = '', ...others]) => {
      const suffix = [first, ...others].find((it) => rest.toLowerCase().endsWith(it) && rest.length > it.length);
      const [kept, written] =
        suffix === undefined ? [rest, first] : [rest.slice(0, -suffix.length), rest.slice(-suffix.length)];
      return { rest: kept, suffixes: [written, ...suffixes] };
    },
    { rest: name, suffixes: [] },
  );
}

/** The name of a file of a delivery. */
export function fileName(
  options: ExportOptions,
  properties: FileFacts,
  { op, part }: { readonly op?: FileOp | undefined; readonly part: number },
): string {
  const name = rendered(options.file, options, { ...properties, part, ...(op === undefined ? {} : { op }) });
  const { rest, suffixes } = cut(options, name);
  return safeName(`${rest}${suffixes.join('')}`, 'file');
}

/** The name without what compression and encryption have added: the name of the text inside. */
export function clearName(options: ExportOptions, name: string): string {
  const plain = cut(options, name).rest;
  return plain.slice(plain.lastIndexOf('/') + 1) || 'data';
}

/** The names of the files beside a file: its checksum, and the mark that it is done. */
export function companionNames(options: ExportOptions, name: string, properties: FileFacts) {
  const { checksum, done } = options;
  const mark = typeof done === 'string' ? done : done?.file;
  return {
    checksum: checksum === 'none' ? undefined : safeName(`${name}.${checksum}`, 'checksum'),
    done: mark === undefined ? undefined : safeName(rendered(mark, options, { ...properties, file: name }), 'done'),
  };
}

/**
 * Names of a delivery: those of samples of its files, and of the files beside them.
 * @throws {CdsyncError} `template_invalid` if two of them are the same
 */
export function sampleNames(options: ExportOptions, properties: FileFacts, samples: readonly FilePart[]): string[] {
  const makers = new Map<string, string>();
  const claim = (option: string, name: string) => {
    const other = makers.get(comparableFileName(name));
    if (other !== undefined)
      throw new CdsyncError(`\`${option}\` makes the name "${name}", which \`${other}\` makes too`, {
        code: 'template_invalid',
        hint: 'give each file its own name: {{ file }} in `done`, {{ part }} or {{ op }} where there are several',
      });
    makers.set(comparableFileName(name), option);
  };
  for (const sample of samples) {
    const file = fileName(options, properties, sample);
    claim('file', file);
    for (const [option, name] of Object.entries(companionNames(options, file, properties)))
      if (name !== undefined) claim(option, name);
  }
  const [first = ''] = makers.keys();
  const temporary = temporaryName(options, first);
  const names = [...makers.keys()];
  if (temporary !== undefined) claim('temporary', temporary);
  return names;
}

/** The name under which a file is uploaded; undefined if that is its own. */
export function temporaryName({ temporary, upload }: ExportOptions, name: string): string | undefined {
  if (upload === 'direct') return undefined;
  const slash = name.lastIndexOf('/') + 1;
  const short = text(temporary, { name: name.slice(slash) });
  // A template with a folder is relative to the place, any other is beside the file.
  return safeName(short.includes('/') ? short : `${name.slice(0, slash)}${short}`, 'temporary');
}
