// What the bare Postgres client can do with the bytes of commits: one insert of many rows, into a table that is a log.
import pg from "pg";
import { nextEntry } from "./commits.mjs";

const schema = "bare";
const insert = {
  name: "bare_insert",
  text: `INSERT INTO ${schema}.events (session, version, at, key, body)
    SELECT * FROM unnest($1::text[], $2::integer[], $3::double precision[], $4::text[], $5::text[])`,
};

/** Makes the table: that a version comes once is the only condition. @param {string} url */
export async function makeTable(url) {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  await client.query(`CREATE SCHEMA ${schema}`);
  await client.query(
    `CREATE TABLE ${schema}.events (session text COLLATE "C", version integer, at double precision, key text COLLATE "C",
      body text COLLATE "C", PRIMARY KEY (session, version))`,
  );
  await client.end();
}

/** @param {string} url */
export async function barePostgres(url) {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  return {
    /** Commits to all of the logs at once. @param {import("./commits.mjs").Log[]} logs */
    async commit(logs) {
      const entries = logs.map(nextEntry);
      const { rowCount } = await client.query({
        ...insert,
        values: [
          logs.map(({ id }) => id),
          logs.map(({ version }) => version),
          entries.map(({ at }) => at),
          entries.map(({ key }) => key),
          entries.map(({ body }) => body),
        ],
      });
      if (rowCount !== logs.length) throw new Error(`${rowCount} of ${logs.length} bare commits were made`);
      for (const log of logs) log.version++;
    },
    close: () => client.end(),
  };
}
