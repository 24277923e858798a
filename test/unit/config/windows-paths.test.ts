import { expect, test } from 'vitest';
import { head, problemsOf } from './sample.js';

test('a folder of Windows is refused on another system: it would be a folder of that name here', () => {
  const yaml = `${head}jobs:\n  a:\n    streams: [{ name: s, source: indexes }]\n`;
  expect(problemsOf(yaml.replace('./data', 'C:\\Users\\me\\data'))).toEqual([
    'cdsync.yaml:6:10  storage: a path of Windows, and this is another system: write /srv/data, or ./data beside this file, found C:\\Users\\me\\data',
  ]);
});
