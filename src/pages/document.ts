import { createHash } from 'node:crypto';
import { type Html, html, Html as Raw } from './html.js';
import { style } from './style.js';

/** The page may load nothing, send nothing and run nothing: it has one style sheet, known by its hash. */
function policy(): string {
  const hash = createHash('sha256').update(style).digest('base64');
  return `default-src 'none'; style-src 'sha256-${hash}'; base-uri 'none'; form-action 'none'`;
}

/** A whole page: one file that needs no other. */
export function pageDocument({
  title,
  header,
  main,
  footer,
}: Record<'header' | 'main' | 'footer', Html> & { title: string }): string {
  const page = html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${policy()}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<meta name="robots" content="noindex">
<title>${title}</title>
<style>${new Raw(style)}</style>
</head>
<body>
<header>
${header}
</header>
<main>
${main}
</main>
<footer>
${footer}
</footer>
</body>
</html>
`;
  return page.text;
}
