// The SQL functions of the Postgres store: append a group of commits, read a page, find a key, delete a session.

/** The number of rows over which an environment's count of open sessions is split. */
const shares = 16;

/**
 * `append_units` returns a digit for each commit: 0 ok, 1 conflict, 2 duplicate. Commits in one unit get the same
 * digit.
 *
 * All callers take locks in the same order, so that there are no deadlocks: existing sessions by id, then ids of new
 * sessions by id, then counts by environment. Arrays that are accessed by index hold only numbers and no nulls: with
 * other values, access to later elements is slower.
 */
export function functionsOf(schema: string, settings: string): string {
  const count = (what: string): string => `
      INSERT INTO ${schema}.counts AS k (environment, share, open)
        SELECT d.environment, pg_backend_pid() % ${shares}, sum(d.change) FROM (${what}) d
        GROUP BY d.environment HAVING sum(d.change) <> 0 ORDER BY d.environment
        ON CONFLICT (environment, share) DO UPDATE SET open = k.open + excluded.open;`;
  return `
    CREATE FUNCTION ${schema}.append_units(
      units integer[], ids text[], versions integer[], seen_chains text[], seen_times double precision[],
      entry_commits integer[], entry_versions integer[], entry_ats double precision[], entry_keys text[], entry_bodies text[],
      entry_chains text[],
      heading_commits integer[], heading_ids text[], heading_environments text[], heading_opened double precision[],
      heading_parents text[], heading_parent_versions integer[], heading_ended text[], heading_touched double precision[],
      snapshot_commits integer[], snapshot_versions integer[], snapshot_bodies text[]
    ) RETURNS text LANGUAGE plpgsql ${settings} AS $function$
    DECLARE
      -- The number of each commit's session: 0 if it has none, -1 once it is refused.
      numbers bigint[] := array_fill(0::bigint, ARRAY[cardinality(ids)]);
      answers integer[] := array_fill(0, ARRAY[cardinality(ids)]);
      place integer;
      number bigint;
      answer integer;
      refused boolean := false;
      opening integer := 0;
      opened integer;
    BEGIN
      FOR place, number IN
        SELECT c.place, s.n FROM unnest(ids) WITH ORDINALITY c (id, place) JOIN ${schema}.sessions s ON s.id = c.id
        ORDER BY s.id FOR NO KEY UPDATE OF s
      LOOP
        numbers[place] := number;
      END LOOP;

      -- Statements after the locks, as each sees what was committed before it began.
      FOR place IN
        SELECT c.place FROM unnest(versions, seen_chains, seen_times) WITH ORDINALITY c (version, chain, seen, place)
        LEFT JOIN LATERAL (
          SELECT e.version, e.at, e.chain FROM ${schema}.events e WHERE e.session = numbers[c.place::integer]
          ORDER BY e.version DESC LIMIT 1) newest ON true
        WHERE c.version <> coalesce(newest.version, 0) OR (c.chain <> '' AND c.chain IS DISTINCT FROM newest.chain)
          OR (c.seen <> 'NaN' AND (newest.chain IS NOT NULL OR c.seen <> newest.at))
      LOOP
        answers[place] := 1;
        refused := true;
      END LOOP;
      FOR place IN
        SELECT c.place FROM unnest(entry_commits, entry_keys) c (place, key)
        WHERE c.key IS NOT NULL AND (
          SELECT 1 FROM ${schema}.events e WHERE e.session = numbers[c.place]
          AND hashtextextended(e.key, 0) = hashtextextended(c.key, 0) AND e.key = c.key LIMIT 1) IS NOT NULL
      LOOP
        answers[place] := 2;
        refused := true;
      END LOOP;
      IF refused AND cardinality(units) > 0 THEN
        FOR place, answer IN
          SELECT c.place, max(answers[c.place::integer]) OVER (PARTITION BY c.unit)
          FROM unnest(units) WITH ORDINALITY c (unit, place)
        LOOP
          answers[place] := answer;
        END LOOP;
      END IF;
      FOR place IN 1 .. cardinality(ids) LOOP
        IF answers[place] > 0 THEN
          numbers[place] := -1;
        ELSIF numbers[place] = 0 THEN
          numbers[place] := nextval('${schema.replaceAll("'", "''")}.session_numbers');
          opening := opening + 1;
        END IF;
      END LOOP;

      IF opening > 0 THEN
        INSERT INTO ${schema}.sessions (n, id, environment, opened, parent, parent_version, ended, touched)
          SELECT numbers[h.place], h.id, h.environment, h.opened, h.parent, h.parent_version, h.ended, h.touched
          FROM unnest(heading_commits, heading_ids, heading_environments, heading_opened, heading_parents,
            heading_parent_versions, heading_ended, heading_touched)
            h (place, id, environment, opened, parent, parent_version, ended, touched)
          WHERE numbers[h.place] > 0 AND versions[h.place] = 0 ORDER BY h.id COLLATE "C" ON CONFLICT (id) DO NOTHING;
        GET DIAGNOSTICS opened = ROW_COUNT;
        IF opened <> opening THEN
          RAISE EXCEPTION USING ERRCODE = 'serialization_failure', MESSAGE = 'a session was opened by another meanwhile';
        END IF;
      END IF;
      IF cardinality(heading_commits) > 0 THEN${count(`
          SELECT s.environment, -1 AS change FROM unnest(heading_commits) h (place)
            JOIN ${schema}.sessions s ON s.n = numbers[h.place] WHERE versions[h.place] > 0 AND s.ended IS NULL
          UNION ALL
          SELECT h.environment, 1 FROM unnest(heading_commits, heading_environments, heading_ended) h (place, environment, ended)
            WHERE numbers[h.place] > 0 AND h.ended IS NULL`)}
        UPDATE ${schema}.sessions s SET environment = h.environment, opened = h.opened, parent = h.parent,
            parent_version = h.parent_version, ended = h.ended
          FROM unnest(heading_commits, heading_environments, heading_opened, heading_parents, heading_parent_versions,
            heading_ended) h (place, environment, opened, parent, parent_version, ended)
          WHERE versions[h.place] > 0 AND s.n = numbers[h.place];
      END IF;
      INSERT INTO ${schema}.events (session, version, at, key, body, chain)
        SELECT numbers[e.place], e.version, e.at, e.key, e.body, e.chain
        FROM unnest(entry_commits, entry_versions, entry_ats, entry_keys, entry_bodies, entry_chains)
          e (place, version, at, key, body, chain)
        WHERE numbers[e.place] > 0;
      -- Two processes may find the same snapshot due.
      IF cardinality(snapshot_commits) > 0 THEN
        INSERT INTO ${schema}.snapshots (session, version, body)
          SELECT numbers[p.place], p.version, p.body
          FROM unnest(snapshot_commits, snapshot_versions, snapshot_bodies) p (place, version, body)
          WHERE numbers[p.place] > 0 ON CONFLICT DO NOTHING;
      END IF;
      RETURN array_to_string(answers, '');
    END $function$;

    -- Without a version whatever it is at. A chain of null is that of an event whose mark is its time.
    CREATE FUNCTION ${schema}.delete_log(session_id text, end_version integer, end_chain text, end_time double precision)
      RETURNS boolean LANGUAGE plpgsql ${settings} AS $function$
    DECLARE
      log bigint;
    BEGIN
      SELECT s.n INTO log FROM ${schema}.sessions s WHERE s.id = session_id FOR UPDATE;
      IF NOT FOUND THEN RETURN false; END IF;
      IF end_version IS NOT NULL THEN
        PERFORM FROM (
          SELECT e.version, e.at, e.chain FROM ${schema}.events e WHERE e.session = log ORDER BY e.version DESC LIMIT 1) newest
        WHERE newest.version = end_version AND (end_chain IS NULL OR newest.chain = end_chain)
          AND (end_time IS NULL OR (newest.chain IS NULL AND newest.at = end_time));
        IF NOT FOUND THEN RETURN false; END IF;
      END IF;
      DELETE FROM ${schema}.events e WHERE e.session = log;
      DELETE FROM ${schema}.snapshots p WHERE p.session = log;
      ${count(`SELECT s.environment, -1 AS change FROM ${schema}.sessions s WHERE s.n = log AND s.ended IS NULL`)}
      DELETE FROM ${schema}.sessions s WHERE s.n = log;
      RETURN true;
    END $function$;

    -- All of it is one picture: a function that is STABLE sees what its caller sees. Part 0 is the end of the log.
    CREATE FUNCTION ${schema}.read_page(
      session_id text, start integer, up_to integer, most integer, most_bytes integer, from_snapshot boolean
    ) RETURNS TABLE (part integer, number integer, at double precision, key text, content text)
      LANGUAGE plpgsql STABLE ${settings} AS $function$
    DECLARE
      log bigint;
      first integer := start;
      bytes integer := most_bytes;
    BEGIN
      SELECT s.n INTO log FROM ${schema}.sessions s WHERE s.id = session_id;
      IF NOT FOUND THEN RETURN; END IF;
      SELECT 0, e.version, e.at, e.chain, log::text INTO part, number, at, key, content FROM ${schema}.events e
        WHERE e.session = log ORDER BY e.version DESC LIMIT 1;
      RETURN NEXT;
      IF from_snapshot THEN
        SELECT 1, p.version, 0, NULL, p.body INTO part, number, at, key, content FROM ${schema}.snapshots p
          WHERE p.session = log AND p.version > start AND p.version <= up_to ORDER BY p.version DESC LIMIT 1;
        IF FOUND THEN
          first := number;
          RETURN NEXT;
        END IF;
      END IF;
      FOR part, number, at, key, content IN
        SELECT 2, e.version, e.at, e.key, e.body FROM ${schema}.events e
        WHERE e.session = log AND e.version > first AND e.version <= up_to ORDER BY e.version LIMIT most
      LOOP
        RETURN NEXT;
        bytes := bytes - octet_length(content);
        EXIT WHEN bytes <= 0;
      END LOOP;
    END $function$;

    CREATE FUNCTION ${schema}.find_key(session_id text, wanted text)
      RETURNS TABLE (number integer, at double precision, key text, content text)
      LANGUAGE plpgsql STABLE ${settings} AS $function$
    BEGIN
      RETURN QUERY SELECT e.version, e.at, e.key, e.body FROM ${schema}.sessions s JOIN ${schema}.events e ON e.session = s.n
        AND hashtextextended(e.key, 0) = hashtextextended(wanted, 0) AND e.key = wanted WHERE s.id = session_id;
    END $function$;`;
}
