import { nameRule } from './names.js';

/** The beginning of the reference page: rules for every option. */
export const introduction = `# Configuration

<!-- Generated: change the declarations in src/config and src/streams, then run
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
