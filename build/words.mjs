// `node build/words.mjs`: words and forms that may only become fewer, files above 400 lines, and exports that nothing imports.
// build/words.json holds the counts. More than there fails, with the word to write instead; `--write` lowers the counts, `--print FILE…`
// shows each place.

import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** Pattern, and the words to write instead. */
const rules = {
  anew: [/\banew\b/gi, 'again, from the start, rewrite'],
  whoever: [/\bwhoever\b/gi, 'the process that'],
  upon: [/\bupon\b/gi, 'on'],
  meanwhile: [/\bmeanwhile\b/gi, 'at the same time'],
  'for-want-of': [/\bfor want of\b|\ball the same\b|\bin vain\b/gi, 'without, still'],
  'of-now': [/\bof now\b/gi, 'current'],
  somebody: [/\b(?:anybody|nobody|somebody|whom)\b/gi, 'the actor: a reader, another process'],
  'gone-on': [/\b(?:gone|went|goes|go) on\b/gi, 'continue, resume'],
  tell: [/\b(?:tell|tells|telling|told)\b/gi, 'report, notify, return'],
  stands: [/\b(?:stand|stands|standing|stood)\b/gi, 'is, stays, applies'],
  'leads-to': [/\bleads? (?:to|there|back|on)\b/gi, 'points to'],
  'lets-go': [/\blets? go of\b|\bletGo\b/g, 'releases'],
  bring: [/\bbrings?\b|\bbrought\b/gi, 'fetch, return, add'],
  come: [/\b(?:comes|came)\b/gi, 'arrives, follows'],
  doubt: [/\bdoubt\w*/gi, 'invalidate'],
  belief: [/\bbeliev\w*/gi, 'trust'],
  'what-it': [
    /\bwhat (?:it|they|is|has|was|were|others?|nobody|a|an|the|this|that|each|cdsync|DuckDB|runs?|readers?|loads?|people)\b/gi,
    'the noun: its rows, the held stream',
  ],
  'who-subject': [/(?:^|[.:;] |\* |\/\/ )Who(?:ever)? (?!\w+\?)/gm, 'the process that'],
  'none-verb': [/\b(?:and|but|if|where|there|or) none (?:is|of|was|are|has|does)\b|\bnone does\b/gi, 'no … does'],
  'so-many': [/\bso (?:many|much|large|long|often)\b(?! as| that)/gi, 'that many'],
  'of-relative': [/\bof (?:which|whom)\b/gi, 'whose, or two sentences'],
  behind: [/\bbehind (?:it|them|that|this|the result)\b/gi, 'after'],
  'where-cond': [/(?:^|[.,;] )[Ww]here (?:nothing|there is|that is|it is|something|a |the |some|one )/gm, 'if, when'],
  'is-to': [/\b(?:is|are) to (?:be|have|know|stay|go|hold)\b/gi, 'must'],
  'at-hand': [/\bat hand\b|\bby itself\b|\bof its own\b/gi, 'available, alone, own'],
  recognise: [/recogni[sz]\w*/gi, 'cached, record cache'],
  'known-x': [
    /\b[kK]nown(?:Set|File|Rows|Header|Paths|Task|Run|Bytes|Records|Hashes)\b|\bNextKnown\b|\bnextKnown\b|\bknown (?:file|set|rows|records?|hashes)\b/g,
    'cache file, hash table',
  ],
  'seen-log': [/\bSeen(?:Log|Run)\b|\bseen\.log\b|\bseenR(?:uns|ows)\b/g, 'cache hits'],
  setback: [/setback\w*/gi, 'retryable failure'],
  errand: [/\berrand\w*/gi, 'request'],
  intake: [/intake\w*/gi, 'page sink'],
  fate: [/\bfates?\b/gi, 'outcome'],
  manners: [/manners\w*/gi, 'read options'],
  wishes: [/\w*wishes\b/gi, 'options'],
  spool: [/\bspool\w*/gi, 'staging file'],
  slices: [/\bPageSlices\b|page-slices|\bslices\b/g, 'record ranges'],
  answer: [/\b(?:Answer\w*|Raw[A-Z]nswer|WholeAnswer\w*|answers?)\b/g, 'response, result'],
  elsewhere: [/\b\w*elsewhere\b/gi, 'remote files'],
  planted: [/\bplanted\b|refusePlanted/gi, 'untrusted links'],
  treated: [/\btreat(?:ed|ments?|s)?\b|isNewlyTreated|ColumnTreatment/gi, 'masked, column rule'],
  judge: [/\b\w*judg\w*/gi, 'check, infer, evaluate'],
  outline: [/\boutline\b|JobOutline/gi, 'job list'],
  facts: [/\bfacts\b/gi, 'properties'],
  given: [/\bgiven\b(?= *[:,})=.])/g, 'options, input'],
  'sharing-nouns': [
    /\b(?:Division|Ledger\w*|MeetingPlace|OwnerRole|MemberRole|SharingRole|Sharers?|sharers|LedgerAway|Claim)\b/g,
    'lease table, participant',
  ],
  limits: [/\b(?:most|least|fewest|longest(?!First)|shortest(?!Float))[A-Z]\w*/g, 'max…, min…'],
  refuse: [/\brefuse(?!All\b|Removals\b)[A-Z]\w*/g, 'assert…, which throws, or check…, which returns findings'],
  fillers: [
    /(?<!\.|^[ \t]*(?:\*|\/\/|\/\*).*)\b(?:each|found|now|known|own|there)(?=[.,)\]}:;?![(]| [=!<>&|?+*-])/gm,
    'the noun that is meant: stream, row, existingTable, nowMs',
  ],
  night: [/\bnights?\b/gi, 'run, incremental run'],
  room: [/\brooms?\b/gi, 'folder, memory'],
};

const scopes = {
  code: { roots: ['src', 'connectors'], ending: /\.ts$/ },
  tests: { roots: ['test'], ending: /\.(?:ts|mjs)$/ },
  docs: { roots: ['docs', 'connectors', 'README.md', 'CONTRIBUTING.md', 'SECURITY.md'], ending: /\.md$/ },
};
const baseline = join(import.meta.dirname, 'words.json');
const maxLines = 400;

function filesOf(path, ending) {
  if (!existsSync(path)) return [];
  if (!statSync(path).isDirectory()) return ending.test(path) ? [path] : [];
  return readdirSync(path, { recursive: true })
    .map((name) => join(path, name))
    .filter((file) => ending.test(file) && !file.includes('node_modules'));
}

function textsOf({ roots, ending }) {
  return new Map(roots.flatMap((root) => filesOf(root, ending)).map((file) => [file, readFileSync(file, 'utf8')]));
}

function wordCounts(texts) {
  const count = (pattern) => [...texts.values()].reduce((sum, text) => sum + (text.match(pattern)?.length ?? 0), 0);
  return Object.fromEntries(Object.entries(rules).map(([name, [pattern]]) => [name, count(pattern)]));
}

/** Files of `src` and `connectors` that are too long, and exports whose name is in no other file. */
function structure(code, tests) {
  const long = [...code].filter(([, text]) => text.split('\n').length > maxLines + 1).map(([file]) => file);
  const words = new Map();
  for (const [file, text] of [...code, ...tests])
    for (const word of new Set(text.match(/[A-Za-z_$][\w$]*/g) ?? []))
      words.set(word, [...(words.get(word) ?? []), file]);
  const declared =
    /^export (?:declare )?(?:abstract )?(?:async )?(?:interface|class|type|function\*?|const|enum) (\w+)/gm;
  const unused = [...code].flatMap(([file, text]) =>
    [...text.matchAll(declared)]
      .filter(([, name]) => words.get(name)?.length === 1)
      .map(([, name]) => `${name} in ${file}`),
  );
  return { long, unused };
}

const texts = Object.fromEntries(Object.entries(scopes).map(([name, scope]) => [name, textsOf(scope)]));
const { long, unused } = structure(texts.code, texts.tests);
const now = {
  ...Object.fromEntries(Object.entries(texts).map(([name, of]) => [name, wordCounts(of)])),
  structure: { 'long-files': long.length, 'unused-exports': unused.length },
};

function print(files) {
  for (const [name, [pattern]] of Object.entries(rules))
    for (const of of Object.values(texts))
      for (const [file, text] of of)
        if (files.length === 0 || files.some((each) => file.startsWith(each)))
          for (const match of text.matchAll(pattern)) {
            const line = text.slice(0, match.index).split('\n').length;
            process.stdout.write(`${file}:${line}: ${name}: ${match[0]}\n`);
          }
  for (const file of long) process.stdout.write(`${file}: above ${maxLines} lines\n`);
  for (const each of unused) process.stdout.write(`${each}: imported nowhere\n`);
}

function check() {
  const most = JSON.parse(readFileSync(baseline, 'utf8'));
  for (const [scope, counts] of Object.entries(now))
    for (const [name, count] of Object.entries(counts)) {
      const limit = most[scope]?.[name] ?? 0;
      if (count <= limit) continue;
      const instead = rules[name] === undefined ? '' : `; write: ${rules[name][1]}`;
      process.stderr.write(`${name} in ${scope}: ${count}, at most ${limit}${instead}\n`);
      process.exitCode = 1;
    }
  if (process.exitCode === 1) process.stderr.write('see each place: node build/words.mjs --print FILE\n');
}

const [flag, ...files] = process.argv.slice(2);
if (flag === '--print') print(files);
else if (flag === '--write') writeFileSync(baseline, `${JSON.stringify(now, null, 2)}\n`);
else check();
