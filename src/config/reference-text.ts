import { nameRule } from './names.js';

/** What the reference page says before its tables: what holds for every option. */
export const introduction = `# Configuration

<!-- Generated: change the declarations in src/config and src/streams, then run
     npx tsx src/cli/main.ts schema --docs > docs/configuration.md -->

A configuration is one YAML 1.2 file (or JSON, which is YAML); commands take it as their first argument, and
\`./cdsync.yaml\` where it is left out. \`configs/\` holds examples. \`cdsync schema\` prints the JSON Schema for editors:

\`\`\`yaml
# yaml-language-server: $schema=./cdsync.schema.json
\`\`\`

## What holds everywhere

- **Nothing is ignored.** Unknown keys, wrong types, values out of bounds and missing variables are all reported together,
  each with file, line, column, what was found and what is allowed.
- **A key with nothing behind it is refused**: leave the key out, and its default holds.
- **Relative paths** are relative to the YAML file.
- **Names** of jobs and streams are ${nameRule}. A stream may not be called \`cdsync\`, and no two streams of a job share a name.
- **Anchors, aliases and merge keys** (\`<<\`) work. Tags (\`!name\`), a second document and keys that stand twice are refused.

## Variables

Variables are replaced in values, never in keys, after the YAML has been parsed: what a variable holds can never become
a key, a list or a comment.

| written | becomes |
|---|---|
| \`\${NAME}\` | the variable; a problem where it is not set |
| \`\${NAME:-default}\` | the default where the variable is not set or empty |
| \`$$\` | a dollar |

- A value that is one \`\${…}\` and nothing else, in quotes or not, is read again as a YAML scalar: \`page_size: \${SIZE}\` takes
  \`SIZE=500\`. Secrets are not read again, and neither is what the next section names.
- Inside \`{…}\` YAML wants quotes: \`{ client_id: "\${CDS_CLIENT_ID}" }\`.
- Only the variables of what a command uses need be set: \`--job a\` asks for none of job \`b\`, and commands that do not talk
  to the service ask for no credentials. The name of a stream is always needed.
- \`--env-file PATH\` reads \`KEY=VALUE\` lines: \`#\` comments (after a blank), an \`export\` in front, values in \`'…'\` (as they
  stand) or \`"…"\` (\`\\n\`, \`\\r\`, \`\\t\`, \`\\"\`, \`\\\\\` and \`\\$\` are replaced), both over several lines if need be.
- A secret that stands in the file itself works, with a warning.

## Text is kept as written

Filter values, partition values, ids and the tenant are texts, character by character, with quotes or without: \`02134\`
is not 2134, and \`1.50\`, \`yes\`, \`true\`, \`0x10\` and \`2026-01-01\` stay what they are. The same holds for what a variable
gives, even \`null\` or something in quotes. Only \`null\`, \`~\` and nothing at all, written in the file without quotes, are no
text in YAML: they are refused, and in quotes they are the text.

## Sources

Each \`source\` has its own keys, below, and a page in \`docs/streams/\`.`;
