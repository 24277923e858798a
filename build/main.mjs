// `npm run build`: the JavaScript of dist/. What a run needs is in four files, because Node takes half a millisecond of CPU time for
// each file that it imports, and a command that does not need a file does not load it. tsc writes the types beside it.

import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { basename, isAbsolute, join } from 'node:path';
import { rolldown } from 'rolldown';

const root = join(import.meta.dirname, '..');
const out = join(root, 'dist');

/** Files that others name: the program, and what package.json exports. */
const entries = ['src/cli/main', 'src/cli/command-line', 'src/index', 'src/sdk/index', 'src/conformance/index'];

/** Packages that dist/ contains. All others are loaded from node_modules, most of them by one connector only. */
const bundled = new Set(['@duckdb/node-api', 'jose', 'p-limit', 'undici', 'yaml', 'yargs', 'zod']);
/** What a bundled package loads from node_modules: DuckDB itself, which is not JavaScript. */
const native = '@duckdb/node-bindings';

function isExternal(id, importer) {
  if (importer === undefined || id.startsWith('.') || id.startsWith('\0') || isAbsolute(id)) return false;
  if (importer.includes('/node_modules/')) return id === native;
  const [scope, name] = id.split('/');
  return !importer.startsWith(join(root, 'build')) && !bundled.has(scope.startsWith('@') ? `${scope}/${name}` : scope);
}

/**
 * The files that are loaded together, in the order in which they claim modules: what `roots` import, however far. Modules of
 * no group are split by the commands that import them.
 */
const groups = [
  { name: 'core', roots: ['src/cli/program.ts'], only: '/src/core/' },
  { name: 'start', roots: ['src/cli/program.ts'] },
  { name: 'configuration', roots: ['src/cli/run.ts', 'src/cli/load.ts'] },
  {
    name: 'run',
    roots: [
      'src/cli/engine-options.ts',
      'src/cli/interruption.ts',
      'src/cli/show-progress.ts',
      'src/cli/print-report.ts',
      'src/cli/for-each-job.ts',
      'src/engine/job-files.ts',
      'src/engine/open-engine.ts',
      'src/engine/run/run-and-deliver.ts',
      'src/output/summary.ts',
    ],
  },
];

function reachedFrom(roots, graph) {
  const reached = new Set(roots.map((file) => join(root, file)));
  for (const id of reached) for (const imported of graph.getModuleInfo(id)?.importedIds ?? []) reached.add(imported);
  return reached;
}

function chunkGroup({ name, roots, only = '' }, place) {
  let reached;
  return {
    debugName: name,
    priority: groups.length - place,
    name(id, graph) {
      reached ??= reachedFrom(roots, graph);
      return reached.has(id) && id.includes(only) ? name : null;
    },
  };
}

/**
 * Removes the files that only pass on names of another file, as rolldown makes for each module that is imported lazily: whoever
 * imports them imports the other file.
 */
const withoutFacades = {
  name: 'without-facades',
  generateBundle(_options, files) {
    const passedOn = new Map();
    for (const { type, fileName, isEntry, code } of Object.values(files)) {
      const [, names, from] =
        (type === 'chunk' && !isEntry && /^export\{([^}]*)\}from"\.\/([^"]+)";\s*$/.exec(code)) || [];
      if (from !== undefined) passedOn.set(basename(fileName), { from, names: names.split(',') });
    }
    for (const [fileName, chunk] of Object.entries(files)) {
      if (passedOn.has(basename(fileName))) delete files[fileName];
      else if (chunk.type === 'chunk')
        chunk.code = chunk.code.replaceAll(/import\(`(\.[^`]*\/)([^`/]+)`\)/g, (whole, folder, name) => {
          const { from, names } = passedOn.get(name) ?? {};
          if (from === undefined) return whole;
          const members = names.map((each) => each.split(' as ')).map(([own, given = own]) => `${given}:e.${own}`);
          return `import(\`${folder}${from}\`).then(e=>({${members.join(',')}}))`;
        });
    }
  },
};

/** The licences of the packages that dist/ contains: they ask for their text to go where the code goes. */
function notices(chunks) {
  const folders = chunks.flatMap(({ moduleIds }) =>
    moduleIds.flatMap((id) => /^.*\/node_modules\/(?:@[^/]+\/)?[^/]+(?=\/)/.exec(id)?.[0] ?? []),
  );
  const texts = [...new Set(folders)].sort().map((folder) => {
    const { name, version, license } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));
    const file = readdirSync(folder).find((each) => /^licen[cs]e/i.test(each));
    const text = file === undefined ? '' : `\n${readFileSync(join(folder, file), 'utf8').trim()}\n`;
    return `${name} ${version} (${license})\n${text}`;
  });
  return `The files in this folder contain code of these packages.\n\n${texts.join(`\n${'-'.repeat(80)}\n\n`)}`;
}

rmSync(out, { recursive: true, force: true });
const bundle = await rolldown({
  cwd: root,
  input: { ...Object.fromEntries(entries.map((entry) => [entry, `${entry}.ts`])), 'chunks/duckdb': '@duckdb/node-api' },
  platform: 'node',
  tsconfig: false,
  external: isExternal,
  plugins: [withoutFacades],
  resolve: {
    alias: {
      undici$: join(root, 'build', 'undici.mjs'),
      'string-width$': join(root, 'build', 'string-width.mjs'),
      // cdsync tells yargs its version; yargs would search the working folder and all above it for a package.json first.
      'escalade/sync$': join(root, 'build', 'nothing.mjs'),
      // undici loads it for servers of HTTP/2, which cdsync does not offer to speak: 15 ms, most of it for TLS.
      'node:http2$': join(root, 'build', 'nothing.mjs'),
    },
  },
  // A command imports lazily what another imports at once.
  checks: { ineffectiveDynamicImport: false },
});
const { output } = await bundle.write({
  dir: out,
  format: 'esm',
  entryFileNames: '[name].js',
  chunkFileNames: 'chunks/[name]-[hash].js',
  // Less to parse at each start. The licences are in a file of their own.
  comments: { legal: false, jsdoc: false, annotation: true },
  minify: { compress: true, mangle: { keepNames: true }, codegen: { removeWhitespace: true } },
  codeSplitting: { groups: groups.map(chunkGroup) },
});
writeFileSync(join(out, 'chunks', 'LICENSES.txt'), notices(output.filter(({ type }) => type === 'chunk')));
