// Another process than the one that delivers: opens a DuckDB file for each statement, and closes it again before it responds.
import { DuckDBInstance } from '@duckdb/node-api';

async function run({ path, sql, writes }) {
  const instance = await DuckDBInstance.create(path, writes || path === ':memory:' ? {} : { access_mode: 'READ_ONLY' });
  const connection = await instance.connect();
  try {
    await connection.run("SET TimeZone = 'UTC'");
    return (await connection.runAndReadAll(sql)).getRowObjectsJson();
  } finally {
    connection.closeSync();
    instance.closeSync();
  }
}

process.on('message', async (question) => {
  try {
    process.send({ rows: await run(question) });
  } catch (error) {
    process.send({ error: String(error) });
  }
});
