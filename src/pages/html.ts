import { visible } from '../core/printable.js';

/** Text that is HTML already. Everything else that {@link html} gets is escaped. */
export class Html {
  readonly text: string;
  constructor(text: string) {
    this.text = text;
  }
  toString(): string {
    return this.text;
  }
}

type Content = Html | string | number | undefined | readonly Content[];

const entities: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
};

/** Text for an element or for an attribute in double quotes. Characters that a browser would obey or hide are shown as numbers. */
function escaped(text: string): string {
  return visible(text.toWellFormed()).replace(/[&<>"]/g, (character) => entities[character] as string);
}

function written(content: Content): string {
  if (content instanceof Html) return content.text;
  if (content === undefined) return '';
  return typeof content === 'object' ? content.map(written).join('') : escaped(String(content));
}

/** Makes HTML of a template: whatever is put into it is escaped, unless it is HTML. */
export function html(texts: TemplateStringsArray, ...contents: readonly Content[]): Html {
  const parts = contents.map((content, index) => `${written(content)}${texts[index + 1]}`);
  return new Html(`${texts[0]}${parts.join('')}`);
}

/** A name from the data: its direction of writing does not touch the text around it. */
export function name(text: string): Html {
  return html`<bdi>${text}</bdi>`;
}
