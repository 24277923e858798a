import { describe, expect, test } from 'vitest';
import { lintConfig } from '../../../src/config/parse.js';
import { builtIn, file, head, problemsOf } from './sample.js';

test('a folder of Windows is refused on another system: it would be a folder of that name here', () => {
  const yaml = `${head}jobs:\n  a:\n    streams: [{ name: s, source: indexes }]\n`;
  expect(problemsOf(yaml.replace('./data', 'C:\\Users\\me\\data'))).toEqual([
    'cdsync.yaml:6:10  storage: a path of Windows, and this is another system: write /srv/data, or ./data beside this file',
  ]);
});

const place = (path: string) =>
  `${head.replace('./data', path)}jobs:\n  a:\n    streams: [{ name: s, source: indexes }]\n    destinations: [{ name: d, connector: duckdb, path: ${path} }]\n`;

test.each([
  ['~/data', 'only a shell knows ~ as a folder: write ${HOME} in its place'],
  ['"./a\\u0007b"', 'has a character that no output shows: ./a\\x07b'],
  ['"./a\\u202Eb"', 'has a character that no output shows: ./a\\u202eb'],
  [`./${'ä'.repeat(128)}`, 'a name of more than 255 bytes, which file systems refuse'],
  [`./${'abcdefg/'.repeat(128)}`, 'a path of more than 1023 bytes'],
])('the path %s is refused, of storage and of other options', (path, message) => {
  expect(problemsOf(place(path)).map((line) => line.replace(/^\S+ +/, ''))).toEqual([
    `storage: ${message}`,
    `jobs.a.destinations[0].path: ${message}`,
  ]);
});

test.each(['./~', './a~/b', './über/Daten 1', `./${'ä'.repeat(127)}`])('the path %s is usual', (path) => {
  expect(problemsOf(place(path).replace('path: .', 'path: ./other'))).toEqual([]);
});

describe('one file of two destinations', () => {
  const two = (first: string, second: string) => {
    const job = (name: string, connector: string) =>
      `  ${name}: { streams: [{ name: s, source: indexes }], destinations: [{ name: d, ${connector} }] }\n`;
    return problemsOf(`${head}jobs:\n${job('a', first)}${job('b', second)}`, {}, { destinations: true }).map((line) =>
      line.replace(/^\S+ +/, ''),
    );
  };
  const duckdb = 'connector: duckdb, path: ./w.duckdb';
  const refusal =
    'jobs.b.destinations[0]: jobs.a.destinations, "d" already writes the file /srv/sync/w.duckdb; allowed: a file of its own';

  test.each([
    [duckdb, 'connector: ducklake, catalog: { duckdb: ./w.duckdb }, data_path: ./lake'],
    ['connector: ducklake, catalog: { sqlite: ./w.duckdb }, data_path: ./lake, schema: o', duckdb],
  ])('is refused: %s | %s', (first, second) => {
    expect(two(first, second)).toEqual([refusal]);
  });

  test('is theirs if they are of one kind and write other tables', () => {
    expect(two(duckdb, `${duckdb}, schema: other`)).toEqual([]);
    expect(two(duckdb, 'connector: duckdb, path: ./x/../w.duckdb, table: "x_{stream}"')).toEqual([]);
    expect(two(duckdb, duckdb)).toEqual([expect.stringContaining('already writes table "s" of the same place')]);
  });

  test('is refused as a table where it is no single file', () => {
    expect(two('connector: files, path: ./w', 'connector: files, path: ./w, format: csv')).toEqual([
      'jobs.b.destinations[0]: jobs.a.destinations, "d" already writes table "s" of the same place',
    ]);
    expect(two('connector: files, path: ./w', 'connector: files, path: ./w, table: "x_{stream}"')).toEqual([]);
    expect(two(duckdb, duckdb.replace('w.', 'v.'))).toEqual([]);
  });

  test('is refused for files of one name, also in all but case, and of two streams', () => {
    const named = (path: string, name: string) => `connector: export, path: ${path}, file: "${name}"`;
    const clash = expect.stringContaining('already writes files of the same name to this place');
    expect(two(named('./out', 'l_{{ sequence }}.csv'), named('./out', 'L_{{sequence}}.csv'))).toEqual([clash]);
    expect(two(named('./out', 'in/l.csv'), named('./out/in', 'l.csv'))).toEqual([clash]);
    expect(two(named('./out', '{{ job }}.csv'), named('./out', '{{ job }}.csv'))).toEqual([]);
    expect(two(named('./out', 'l.csv'), named('./other', 'l.csv'))).toEqual([]);
    expect(two(named('./out', '\u00e9.csv'), named('./out', 'e\u0301.csv'))).toEqual([clash]);
    const sftp = (url: string) => `connector: export, url: "${url}", agent: true, host_key: "SHA256:x", file: l.csv`;
    expect(two(sftp('sftp://u@h:22/in/'), sftp('sftp://u@H/in'))).toEqual([clash]);
    expect(two(sftp('sftp://u@h:23/in'), sftp('sftp://u@h/in'))).toEqual([]);
  });

  test('is refused once for files of one name by two streams of a destination', () => {
    const streams = '[{ name: s, source: indexes }, { name: t, source: indexes }]';
    const yaml = `${head}jobs:\n  a:\n    streams: ${streams}\n    destinations: [{ name: d, connector: export, path: ./out, file: l.csv, checksum: md5 }]\n`;
    expect(problemsOf(yaml, {}, { destinations: true })).toEqual([
      expect.stringContaining('two of its files have the same name, such as "l.csv": name {{ stream }}'),
    ]);
  });

  test('may have a place, a pin and a name that only variables without a value would say', () => {
    const options =
      'connector: export, url: "${U}", password: "${P}", host_key: ["${H}"], file: "${F}", split: { rows: 1 }';
    const yaml = `${head}jobs:\n  a:\n    streams: [{ name: s, source: indexes }]\n    destinations: [{ name: d, ${options} }]\n`;
    expect(lintConfig(yaml, file, { connectors: builtIn, env: {} }).unset).toEqual(expect.arrayContaining(['U', 'F']));
  });

  test('is no file of an export whose name leaves the folder: the line is named', () => {
    const yaml = (options: string) =>
      `${head}jobs:\n  a:\n    streams: [{ name: s, source: indexes }]\n    destinations:\n      - name: d\n        connector: export\n        path: ./out\n${options}`;
    const written = (options: string) => problemsOf(yaml(options), {}, { destinations: true });
    expect(written('        file: ../l.csv\n')).toEqual([
      expect.stringMatching(/^cdsync\.yaml:\d+:15 {2}jobs\.a\.destinations\[0\]\.file: `file` makes the name/),
    ]);
    expect(written('        file: l.csv\n        done: ../l.csv\n')[0]).toContain('destinations[0].done: `done` makes');
  });
});
