// Opens a published file fifty times a second, like readers do, and prints the result of its query: one line of JSON each time.
import { DuckDBInstance } from '@duckdb/node-api';

const [, , path] = process.argv;
const everyMs = 20;

const query = `SELECT (SELECT max(sequence) FROM cdsync.runs)::INTEGER AS sequence, (SELECT count(*) FROM members)::INTEGER AS rows,
  (SELECT bit_xor(hash(m)) FROM (SELECT COLUMNS(*) FROM members) AS m)::VARCHAR AS hashes,
  (SELECT count(*) FROM members__changes)::INTEGER AS changes`;

async function look() {
  const instance = await DuckDBInstance.create(path, { access_mode: 'READ_ONLY', threads: '1' });
  const connection = await instance.connect();
  try {
    return (await connection.runAndReadAll(query)).getRowObjectsJson()[0];
  } finally {
    connection.closeSync();
    instance.closeSync();
  }
}

let stops = false;
process.on('SIGTERM', () => {
  stops = true;
});
while (!stops) {
  const began = performance.now();
  const line = await look().catch((error) => ({ error: error.message }));
  process.stdout.write(`${JSON.stringify(line)}\n`);
  await new Promise((resolve) => setTimeout(resolve, Math.max(0, everyMs - (performance.now() - began))));
}
