// Opens a published file for writing, as some people do, changes it, and keeps it open until it is killed.
import { DuckDBInstance } from '@duckdb/node-api';

const [, , path] = process.argv;
const instance = await DuckDBInstance.create(path);
const connection = await instance.connect();
await connection.run("SET checkpoint_threshold = '1GB'");
await connection.run('CREATE OR REPLACE TABLE mine AS SELECT id FROM members LIMIT 100');
await connection.run("UPDATE members SET first_name = 'changed by an analyst' WHERE id IN (SELECT id FROM mine)");
await connection.run('DELETE FROM members WHERE id IN (SELECT id FROM mine LIMIT 10)');
process.stdout.write('ready\n');
setInterval(() => undefined, 1000);
