CREATE SCHEMA schema_of_fixture;
CREATE FUNCTION schema_of_fixture.append_commits(units integer[], ids text[], versions integer[], seens double precision[], entry_commits integer[], entry_versions integer[], entry_ats double precision[], entry_keys text[], entry_bodies text[], heading_commits integer[], heading_ids text[], heading_environments text[], heading_opened double precision[], heading_parents text[], heading_parent_versions integer[], heading_ended text[], heading_touched double precision[], snapshot_commits integer[], snapshot_versions integer[], snapshot_bodies text[]) RETURNS text
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET enable_bitmapscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    SET jit TO 'off'
    SET lock_timeout TO '4s'
    AS $$
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
        SELECT c.place, s.n FROM unnest(ids) WITH ORDINALITY c (id, place) JOIN "schema_of_fixture".sessions s ON s.id = c.id
        ORDER BY s.id FOR NO KEY UPDATE OF s
      LOOP
        numbers[place] := number;
      END LOOP;
      -- Statements after the locks, as each sees what was committed before it began.
      FOR place IN
        SELECT c.place FROM unnest(versions, seens) WITH ORDINALITY c (version, seen, place)
        LEFT JOIN LATERAL (
          SELECT e.version, e.at FROM "schema_of_fixture".events e WHERE e.session = numbers[c.place::integer]
          ORDER BY e.version DESC LIMIT 1) newest ON true
        WHERE c.version <> coalesce(newest.version, 0) OR (c.seen <> 'NaN' AND c.seen <> newest.at)
      LOOP
        answers[place] := 1;
        refused := true;
      END LOOP;
      FOR place IN
        SELECT c.place FROM unnest(entry_commits, entry_keys) c (place, key)
        WHERE c.key IS NOT NULL AND (
          SELECT 1 FROM "schema_of_fixture".events e WHERE e.session = numbers[c.place]
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
          numbers[place] := nextval('"schema_of_fixture".session_numbers');
          opening := opening + 1;
        END IF;
      END LOOP;
      IF opening > 0 THEN
        INSERT INTO "schema_of_fixture".sessions (n, id, environment, opened, parent, parent_version, ended, touched)
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
      IF cardinality(heading_commits) > 0 THEN
      INSERT INTO "schema_of_fixture".counts AS k (environment, share, open)
        SELECT d.environment, pg_backend_pid() % 16, sum(d.change) FROM (
          SELECT s.environment, -1 AS change FROM unnest(heading_commits) h (place)
            JOIN "schema_of_fixture".sessions s ON s.n = numbers[h.place] WHERE versions[h.place] > 0 AND s.ended IS NULL
          UNION ALL
          SELECT h.environment, 1 FROM unnest(heading_commits, heading_environments, heading_ended) h (place, environment, ended)
            WHERE numbers[h.place] > 0 AND h.ended IS NULL) d
        GROUP BY d.environment HAVING sum(d.change) <> 0 ORDER BY d.environment
        ON CONFLICT (environment, share) DO UPDATE SET open = k.open + excluded.open;
        UPDATE "schema_of_fixture".sessions s SET environment = h.environment, opened = h.opened, parent = h.parent,
            parent_version = h.parent_version, ended = h.ended
          FROM unnest(heading_commits, heading_environments, heading_opened, heading_parents, heading_parent_versions,
            heading_ended) h (place, environment, opened, parent, parent_version, ended)
          WHERE versions[h.place] > 0 AND s.n = numbers[h.place];
      END IF;
      INSERT INTO "schema_of_fixture".events (session, version, at, key, body)
        SELECT numbers[e.place], e.version, e.at, e.key, e.body
        FROM unnest(entry_commits, entry_versions, entry_ats, entry_keys, entry_bodies) e (place, version, at, key, body)
        WHERE numbers[e.place] > 0;
      -- Two processes may find the same snapshot due.
      IF cardinality(snapshot_commits) > 0 THEN
        INSERT INTO "schema_of_fixture".snapshots (session, version, body)
          SELECT numbers[p.place], p.version, p.body
          FROM unnest(snapshot_commits, snapshot_versions, snapshot_bodies) p (place, version, body)
          WHERE numbers[p.place] > 0 ON CONFLICT DO NOTHING;
      END IF;
      RETURN array_to_string(answers, '');
    END $$;
CREATE FUNCTION schema_of_fixture.delete_session(session_id text, end_version integer, seen double precision) RETURNS boolean
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET enable_bitmapscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    SET jit TO 'off'
    SET lock_timeout TO '4s'
    AS $$
    DECLARE
      log bigint;
    BEGIN
      SELECT s.n INTO log FROM "schema_of_fixture".sessions s WHERE s.id = session_id FOR UPDATE;
      IF NOT FOUND THEN RETURN false; END IF;
      IF end_version IS NOT NULL THEN
        PERFORM FROM (
          SELECT e.version, e.at FROM "schema_of_fixture".events e WHERE e.session = log ORDER BY e.version DESC LIMIT 1) newest
        WHERE newest.version = end_version AND newest.at = coalesce(seen, newest.at);
        IF NOT FOUND THEN RETURN false; END IF;
      END IF;
      DELETE FROM "schema_of_fixture".events e WHERE e.session = log;
      DELETE FROM "schema_of_fixture".snapshots p WHERE p.session = log;
      
      INSERT INTO "schema_of_fixture".counts AS k (environment, share, open)
        SELECT d.environment, pg_backend_pid() % 16, sum(d.change) FROM (SELECT s.environment, -1 AS change FROM "schema_of_fixture".sessions s WHERE s.n = log AND s.ended IS NULL) d
        GROUP BY d.environment HAVING sum(d.change) <> 0 ORDER BY d.environment
        ON CONFLICT (environment, share) DO UPDATE SET open = k.open + excluded.open;
      DELETE FROM "schema_of_fixture".sessions s WHERE s.n = log;
      RETURN true;
    END $$;
CREATE FUNCTION schema_of_fixture.find_entry(session_id text, wanted text) RETURNS TABLE(number integer, content text)
    LANGUAGE plpgsql STABLE
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET enable_bitmapscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    SET jit TO 'off'
    SET lock_timeout TO '4s'
    AS $$
    BEGIN
      RETURN QUERY SELECT e.version, e.body FROM "schema_of_fixture".sessions s JOIN "schema_of_fixture".events e ON e.session = s.n
        AND hashtextextended(e.key, 0) = hashtextextended(wanted, 0) AND e.key = wanted WHERE s.id = session_id;
    END $$;
CREATE FUNCTION schema_of_fixture.load_log(session_id text, newest integer) RETURNS TABLE(part integer, number integer, content text)
    LANGUAGE plpgsql STABLE
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET enable_bitmapscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    SET jit TO 'off'
    SET lock_timeout TO '4s'
    AS $$
    DECLARE
      log bigint;
      start integer := 0;
    BEGIN
      SELECT s.n INTO log FROM "schema_of_fixture".sessions s WHERE s.id = session_id;
      IF NOT FOUND THEN RETURN; END IF;
      part := 0;
      RETURN NEXT;
      SELECT 1, p.version, p.body INTO part, number, content FROM "schema_of_fixture".snapshots p
        WHERE p.session = log AND p.version <= newest ORDER BY p.version DESC LIMIT 1;
      IF FOUND THEN
        start := number;
        RETURN NEXT;
      END IF;
      RETURN QUERY SELECT 2, e.version, e.body FROM "schema_of_fixture".events e
        WHERE e.session = log AND e.version > start AND e.version <= newest ORDER BY e.version;
    END $$;
CREATE FUNCTION schema_of_fixture.read_log(session_id text, start integer, most integer) RETURNS TABLE(part integer, number integer, content text)
    LANGUAGE plpgsql STABLE
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET enable_bitmapscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    SET jit TO 'off'
    SET lock_timeout TO '4s'
    AS $$
    DECLARE
      log bigint;
    BEGIN
      SELECT s.n INTO log FROM "schema_of_fixture".sessions s WHERE s.id = session_id;
      IF NOT FOUND THEN RETURN; END IF;
      part := 0;
      RETURN NEXT;
      RETURN QUERY SELECT 2, e.version, e.body FROM "schema_of_fixture".events e
        WHERE e.session = log AND e.version > start ORDER BY e.version LIMIT most;
    END $$;
CREATE TABLE schema_of_fixture.counts (
    environment text NOT NULL COLLATE pg_catalog."C",
    share integer NOT NULL,
    open bigint NOT NULL
)
WITH (fillfactor='50');
CREATE TABLE schema_of_fixture.events (
    session bigint NOT NULL,
    at double precision NOT NULL,
    version integer NOT NULL,
    key text COLLATE pg_catalog."C",
    body text NOT NULL COLLATE pg_catalog."C"
);
CREATE TABLE schema_of_fixture.holdfast (
    version integer NOT NULL
);
CREATE SEQUENCE schema_of_fixture.session_numbers
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
CREATE TABLE schema_of_fixture.sessions (
    n bigint NOT NULL,
    id text NOT NULL COLLATE pg_catalog."C",
    environment text NOT NULL COLLATE pg_catalog."C",
    opened double precision NOT NULL,
    parent text COLLATE pg_catalog."C",
    parent_version integer,
    ended text COLLATE pg_catalog."C",
    touched double precision NOT NULL
);
CREATE TABLE schema_of_fixture.snapshots (
    session bigint NOT NULL,
    version integer NOT NULL,
    body text NOT NULL COLLATE pg_catalog."C"
);
INSERT INTO schema_of_fixture.counts VALUES ('agent:crew', 13, 1);
INSERT INTO schema_of_fixture.counts VALUES ('agent:office-killed', 13, 4);
INSERT INTO schema_of_fixture.counts VALUES ('holdfast:shared', 13, 3);
INSERT INTO schema_of_fixture.counts VALUES ('agent:desk-killed', 13, 1);
INSERT INTO schema_of_fixture.counts VALUES ('ledger', 13, 3);
INSERT INTO schema_of_fixture.events VALUES (1, 1794816730777, 1, NULL, '{"type":"session.opened","at":1794816730777,"environment":"ledger","labels":{},"randomness":{"seed":6,"turn":0},"delta":[{"op":"replace","path":"","value":{"total":0,"marks":{},"luck":0,"note":"","at":0}}]}');
INSERT INTO schema_of_fixture.events VALUES (1, 1794816730777, 2, NULL, '{"type":"session.seeded","at":1794816730777,"task":{"start":1,"goal":10},"randomness":{"seed":6,"turn":1},"delta":[{"op":"replace","path":"","value":{"total":1,"marks":{},"luck":0.5098217296748085,"note":"","at":0}}],"episode":1,"labels":{}}');
INSERT INTO schema_of_fixture.events VALUES (1, 1794816730801, 3, 'call 1 a-1', '{"type":"tool.called","at":1794816730801,"episode":1,"tool":"add","input":{"n":1},"outcome":{"ok":true,"output":{"total":2}},"delta":[{"op":"replace","path":"/total","value":2},{"op":"replace","path":"/luck","value":0.08243873233640964},{"op":"add","path":"/marks/a-1","value":1}],"log":["added 1"],"call":"a-1","began":1794816730798}');
INSERT INTO schema_of_fixture.events VALUES (1, 1794816730802, 4, 'call 1 s-1', '{"type":"tool.claimed","at":1794816730802,"episode":1,"call":"s-1","tool":"send","input":{"n":5},"until":1794816731902}');
INSERT INTO schema_of_fixture.events VALUES (2, 1794816729491, 1, NULL, '{"type":"session.opened","at":1794816729491,"environment":"ledger","labels":{},"randomness":{"seed":11,"turn":0},"delta":[{"op":"replace","path":"","value":{"total":0,"marks":{},"luck":0,"note":"","at":0}}]}');
INSERT INTO schema_of_fixture.events VALUES (2, 1794816729491, 2, NULL, '{"type":"session.seeded","at":1794816729491,"task":{"start":0,"goal":12},"randomness":{"seed":11,"turn":1},"delta":[{"op":"replace","path":"","value":{"total":0,"marks":{},"luck":0.5391332465693736,"note":"","at":0}}],"episode":1,"labels":{}}');
INSERT INTO schema_of_fixture.events VALUES (2, 1794816729511, 3, 'call 1 w-1', '{"type":"tool.called","at":1794816729511,"episode":1,"tool":"write","input":{"text":"1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 "},"outcome":{"ok":true,"output":null},"delta":[{"op":"replace","path":"/note","value":"1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 "}],"call":"w-1","began":1794816729510}');
INSERT INTO schema_of_fixture.events VALUES (2, 1794816729512, 4, 'call 1 a-1', '{"type":"tool.called","at":1794816729512,"episode":1,"tool":"add","input":{"n":1},"outcome":{"ok":true,"output":{"total":1}},"delta":[{"op":"replace","path":"/total","value":1},{"op":"replace","path":"/luck","value":0.5826113765797927},{"op":"add","path":"/marks/a-1","value":1}],"log":["added 1"],"call":"a-1","began":1794816729511}');
INSERT INTO schema_of_fixture.events VALUES (2, 1794816729512, 5, 'call 1 w-2', '{"type":"tool.called","at":1794816729512,"episode":1,"tool":"write","input":{"text":"2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 "},"outcome":{"ok":true,"output":null},"delta":[{"op":"replace","path":"/note","value":"2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 "}],"call":"w-2"}');
INSERT INTO schema_of_fixture.events VALUES (2, 1794816729512, 6, 'call 1 a-2', '{"type":"tool.called","at":1794816729512,"episode":1,"tool":"add","input":{"n":1},"outcome":{"ok":true,"output":{"total":2}},"delta":[{"op":"replace","path":"/total","value":2},{"op":"replace","path":"/luck","value":0.6497064776800463},{"op":"add","path":"/marks/a-2","value":1}],"log":["added 1"],"call":"a-2"}');
INSERT INTO schema_of_fixture.events VALUES (2, 1794816729512, 7, 'call 1 w-3', '{"type":"tool.called","at":1794816729512,"episode":1,"tool":"write","input":{"text":"3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 "},"outcome":{"ok":true,"output":null},"delta":[{"op":"replace","path":"/note","value":"3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 "}],"call":"w-3"}');
INSERT INTO schema_of_fixture.events VALUES (2, 1794816729513, 8, 'call 1 a-3', '{"type":"tool.called","at":1794816729513,"episode":1,"tool":"add","input":{"n":1},"outcome":{"ok":true,"output":{"total":3}},"delta":[{"op":"replace","path":"/total","value":3},{"op":"replace","path":"/luck","value":0.3273749245338413},{"op":"add","path":"/marks/a-3","value":1}],"log":["added 1"],"call":"a-3"}');
INSERT INTO schema_of_fixture.events VALUES (2, 1794816729513, 9, 'call 1 w-4', '{"type":"tool.called","at":1794816729513,"episode":1,"tool":"write","input":{"text":"4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 "},"outcome":{"ok":true,"output":null},"delta":[{"op":"replace","path":"/note","value":"4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 "}],"call":"w-4"}');
INSERT INTO schema_of_fixture.events VALUES (2, 1794816729513, 10, 'call 1 a-4', '{"type":"tool.called","at":1794816729513,"episode":1,"tool":"add","input":{"n":1},"outcome":{"ok":true,"output":{"total":4}},"delta":[{"op":"replace","path":"/total","value":4},{"op":"replace","path":"/luck","value":0.015515072906848948},{"op":"add","path":"/marks/a-4","value":1}],"log":["added 1"],"call":"a-4"}');
INSERT INTO schema_of_fixture.events VALUES (2, 1794816729513, 11, 'call 1 w-5', '{"type":"tool.called","at":1794816729513,"episode":1,"tool":"write","input":{"text":"5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 "},"outcome":{"ok":true,"output":null},"delta":[{"op":"replace","path":"/note","value":"5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 "}],"call":"w-5"}');
INSERT INTO schema_of_fixture.events VALUES (2, 1794816729513, 12, 'call 1 a-5', '{"type":"tool.called","at":1794816729513,"episode":1,"tool":"add","input":{"n":1},"outcome":{"ok":true,"output":{"total":5}},"delta":[{"op":"replace","path":"/total","value":5},{"op":"replace","path":"/luck","value":0.21320873718450317},{"op":"add","path":"/marks/a-5","value":1}],"log":["added 1"],"call":"a-5"}');
INSERT INTO schema_of_fixture.events VALUES (2, 1794816729513, 13, 'call 1 w-6', '{"type":"tool.called","at":1794816729513,"episode":1,"tool":"write","input":{"text":"6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 "},"outcome":{"ok":true,"output":null},"delta":[{"op":"replace","path":"/note","value":"6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 "}],"call":"w-6"}');
INSERT INTO schema_of_fixture.events VALUES (2, 1794816729514, 14, 'call 1 a-6', '{"type":"tool.called","at":1794816729514,"episode":1,"tool":"add","input":{"n":1},"outcome":{"ok":true,"output":{"total":6}},"delta":[{"op":"replace","path":"/total","value":6},{"op":"replace","path":"/luck","value":0.6019245803585934},{"op":"add","path":"/marks/a-6","value":1}],"log":["added 1"],"call":"a-6","began":1794816729513}');
INSERT INTO schema_of_fixture.events VALUES (2, 1794816729515, 25, 'call 1 w-12', '{"type":"tool.called","at":1794816729515,"episode":1,"tool":"write","input":{"text":"12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 "},"outcome":{"ok":true,"output":null},"delta":[{"op":"replace","path":"/note","value":"12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 "}],"call":"w-12"}');
INSERT INTO schema_of_fixture.events VALUES (2, 1794816729528, 26, 'call 1 a-12', '{"type":"tool.called","at":1794816729528,"episode":1,"tool":"add","input":{"n":1},"outcome":{"ok":true,"output":{"total":12}},"delta":[{"op":"replace","path":"/total","value":12},{"op":"replace","path":"/luck","value":0.7986435638321941},{"op":"add","path":"/marks/a-12","value":1}],"log":["added 1"],"call":"a-12","began":1794816729527}');
INSERT INTO schema_of_fixture.events VALUES (2, 1794816729529, 27, 'verified 26 ', '{"type":"session.verified","at":1794816729529,"judged":26,"digest":"","verdict":{"reward":1,"total":12,"calls":24,"answer":null}}');
INSERT INTO schema_of_fixture.events VALUES (2, 1794816729514, 15, 'call 1 w-7', '{"type":"tool.called","at":1794816729514,"episode":1,"tool":"write","input":{"text":"7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 "},"outcome":{"ok":true,"output":null},"delta":[{"op":"replace","path":"/note","value":"7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 "}],"call":"w-7"}');
INSERT INTO schema_of_fixture.events VALUES (2, 1794816729514, 16, 'call 1 a-7', '{"type":"tool.called","at":1794816729514,"episode":1,"tool":"add","input":{"n":1},"outcome":{"ok":true,"output":{"total":7}},"delta":[{"op":"replace","path":"/total","value":7},{"op":"replace","path":"/luck","value":0.8510728413759919},{"op":"add","path":"/marks/a-7","value":1}],"log":["added 1"],"call":"a-7"}');
INSERT INTO schema_of_fixture.events VALUES (2, 1794816729514, 17, 'call 1 w-8', '{"type":"tool.called","at":1794816729514,"episode":1,"tool":"write","input":{"text":"8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 "},"outcome":{"ok":true,"output":null},"delta":[{"op":"replace","path":"/note","value":"8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 "}],"call":"w-8"}');
INSERT INTO schema_of_fixture.events VALUES (2, 1794816729514, 18, 'call 1 a-8', '{"type":"tool.called","at":1794816729514,"episode":1,"tool":"add","input":{"n":1},"outcome":{"ok":true,"output":{"total":8}},"delta":[{"op":"replace","path":"/total","value":8},{"op":"replace","path":"/luck","value":0.8471847352172603},{"op":"add","path":"/marks/a-8","value":1}],"log":["added 1"],"call":"a-8"}');
INSERT INTO schema_of_fixture.events VALUES (2, 1794816729514, 19, 'call 1 w-9', '{"type":"tool.called","at":1794816729514,"episode":1,"tool":"write","input":{"text":"9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 "},"outcome":{"ok":true,"output":null},"delta":[{"op":"replace","path":"/note","value":"9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 "}],"call":"w-9"}');
INSERT INTO schema_of_fixture.events VALUES (2, 1794816729515, 20, 'call 1 a-9', '{"type":"tool.called","at":1794816729515,"episode":1,"tool":"add","input":{"n":1},"outcome":{"ok":true,"output":{"total":9}},"delta":[{"op":"replace","path":"/total","value":9},{"op":"replace","path":"/luck","value":0.7729318750667576},{"op":"add","path":"/marks/a-9","value":1}],"log":["added 1"],"call":"a-9","began":1794816729514}');
INSERT INTO schema_of_fixture.events VALUES (2, 1794816729515, 21, 'call 1 w-10', '{"type":"tool.called","at":1794816729515,"episode":1,"tool":"write","input":{"text":"10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 "},"outcome":{"ok":true,"output":null},"delta":[{"op":"replace","path":"/note","value":"10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 "}],"call":"w-10"}');
INSERT INTO schema_of_fixture.events VALUES (2, 1794816729515, 22, 'call 1 a-10', '{"type":"tool.called","at":1794816729515,"episode":1,"tool":"add","input":{"n":1},"outcome":{"ok":true,"output":{"total":10}},"delta":[{"op":"replace","path":"/total","value":10},{"op":"replace","path":"/luck","value":0.33312712635166886},{"op":"add","path":"/marks/a-10","value":1}],"log":["added 1"],"call":"a-10"}');
INSERT INTO schema_of_fixture.events VALUES (2, 1794816729515, 23, 'call 1 w-11', '{"type":"tool.called","at":1794816729515,"episode":1,"tool":"write","input":{"text":"11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 "},"outcome":{"ok":true,"output":null},"delta":[{"op":"replace","path":"/note","value":"11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 "}],"call":"w-11"}');
INSERT INTO schema_of_fixture.events VALUES (2, 1794816729515, 24, 'call 1 a-11', '{"type":"tool.called","at":1794816729515,"episode":1,"tool":"add","input":{"n":1},"outcome":{"ok":true,"output":{"total":11}},"delta":[{"op":"replace","path":"/total","value":11},{"op":"replace","path":"/luck","value":0.5109609705395368},{"op":"add","path":"/marks/a-11","value":1}],"log":["added 1"],"call":"a-11"}');
INSERT INTO schema_of_fixture.events VALUES (3, 1794816730097, 1, NULL, '{"type":"session.opened","at":1794816730097,"environment":"agent:crew","randomness":{"seed":3572278116,"turn":0},"labels":{"user":"ann"},"delta":[{"op":"replace","path":"","value":{}}]}');
INSERT INTO schema_of_fixture.events VALUES (3, 1794816730113, 2, NULL, '{"type":"invocation.began","invocation":"15bcd161-fea8-41b3-ade2-938d745e2d51","agent":"crew","items":[{"type":"message","role":"user","content":"go"}],"at":1794816730113}');
INSERT INTO schema_of_fixture.events VALUES (3, 1794816730114, 3, NULL, '{"type":"agent.began","invocation":"15bcd161-fea8-41b3-ade2-938d745e2d51","agent":"crew","path":"crew","at":1794816730114,"delta":[{"op":"add","path":"/shifts","value":1}]}');
INSERT INTO schema_of_fixture.events VALUES (3, 1794816730115, 4, NULL, '{"type":"model.answered","invocation":"15bcd161-fea8-41b3-ade2-938d745e2d51","agent":"left","path":"crew/pair/left","branch":"crew/pair.left","items":[{"type":"function_call","id":"fc_0_0","call_id":"call_0_0","name":"write","arguments":"{\"by\":\"left\"}","status":"completed"}],"model":"scripted","usage":{"input_tokens":37,"output_tokens":5,"total_tokens":42},"response":{"model":"scripted","status":"completed"},"at":1794816730115}');
INSERT INTO schema_of_fixture.events VALUES (3, 1794816730115, 5, NULL, '{"type":"model.answered","invocation":"15bcd161-fea8-41b3-ade2-938d745e2d51","agent":"right","path":"crew/pair/right","branch":"crew/pair.right","items":[{"type":"function_call","id":"fc_0_0","call_id":"call_0_0","name":"write","arguments":"{\"by\":\"right\"}","status":"completed"}],"model":"scripted","usage":{"input_tokens":37,"output_tokens":5,"total_tokens":42},"response":{"model":"scripted","status":"completed"},"at":1794816730115}');
INSERT INTO schema_of_fixture.events VALUES (3, 1794816730126, 6, NULL, '{"type":"tools.answered","invocation":"15bcd161-fea8-41b3-ade2-938d745e2d51","agent":"left","path":"crew/pair/left","branch":"crew/pair.left","items":[{"type":"function_call_output","call_id":"call_0_0","output":"null"}],"at":1794816730126,"delta":[{"op":"add","path":"/written left","value":1}]}');
INSERT INTO schema_of_fixture.events VALUES (3, 1794816730127, 7, NULL, '{"type":"tools.answered","invocation":"15bcd161-fea8-41b3-ade2-938d745e2d51","agent":"right","path":"crew/pair/right","branch":"crew/pair.right","items":[{"type":"function_call_output","call_id":"call_0_0","output":"null"}],"at":1794816730127,"delta":[{"op":"add","path":"/written right","value":1}]}');
INSERT INTO schema_of_fixture.events VALUES (3, 1794816730127, 8, NULL, '{"type":"model.answered","invocation":"15bcd161-fea8-41b3-ade2-938d745e2d51","agent":"left","path":"crew/pair/left","branch":"crew/pair.left","items":[{"type":"message","id":"msg_1_0","role":"assistant","status":"completed","content":[{"type":"output_text","text":"left is done.","annotations":[]}]}],"model":"scripted","usage":{"input_tokens":43,"output_tokens":4,"total_tokens":47},"response":{"model":"scripted","status":"completed"},"at":1794816730127}');
INSERT INTO schema_of_fixture.events VALUES (3, 1794816730132, 9, NULL, '{"type":"model.answered","invocation":"15bcd161-fea8-41b3-ade2-938d745e2d51","agent":"right","path":"crew/pair/right","branch":"crew/pair.right","items":[{"type":"message","id":"msg_1_0","role":"assistant","status":"completed","content":[{"type":"output_text","text":"right is done.","annotations":[]}]}],"model":"scripted","usage":{"input_tokens":43,"output_tokens":4,"total_tokens":47},"response":{"model":"scripted","status":"completed"},"at":1794816730132}');
INSERT INTO schema_of_fixture.events VALUES (3, 1794816730132, 10, NULL, '{"type":"agent.ended","invocation":"15bcd161-fea8-41b3-ade2-938d745e2d51","agent":"left","path":"crew/pair/left","branch":"crew/pair.left","outcome":"answered","at":1794816730132}');
INSERT INTO schema_of_fixture.events VALUES (3, 1794816730132, 11, NULL, '{"type":"agent.ended","invocation":"15bcd161-fea8-41b3-ade2-938d745e2d51","agent":"right","path":"crew/pair/right","branch":"crew/pair.right","outcome":"answered","at":1794816730132}');
INSERT INTO schema_of_fixture.events VALUES (3, 1794816730133, 12, NULL, '{"type":"agent.ended","invocation":"15bcd161-fea8-41b3-ade2-938d745e2d51","agent":"pair","path":"crew/pair","outcome":"answered","at":1794816730133}');
INSERT INTO schema_of_fixture.events VALUES (3, 1794816730133, 13, NULL, '{"type":"model.answered","invocation":"15bcd161-fea8-41b3-ade2-938d745e2d51","agent":"stepper","path":"crew/rounds/1.stepper","items":[{"type":"function_call","id":"fc_0_0","call_id":"call_0_0_2","name":"step","arguments":"{}","status":"completed"}],"model":"scripted","usage":{"input_tokens":75,"output_tokens":2,"total_tokens":77},"response":{"model":"scripted","status":"completed"},"at":1794816730133}');
INSERT INTO schema_of_fixture.events VALUES (3, 1794816730136, 14, NULL, '{"type":"tools.answered","invocation":"15bcd161-fea8-41b3-ade2-938d745e2d51","agent":"stepper","path":"crew/rounds/1.stepper","items":[{"type":"function_call_output","call_id":"call_0_0_2","output":"{\"steps\":1}"}],"at":1794816730136,"delta":[{"op":"add","path":"/steps","value":1}]}');
INSERT INTO schema_of_fixture.events VALUES (3, 1794816730136, 15, NULL, '{"type":"model.answered","invocation":"15bcd161-fea8-41b3-ade2-938d745e2d51","agent":"stepper","path":"crew/rounds/1.stepper","items":[{"type":"message","id":"msg_1_0","role":"assistant","status":"completed","content":[{"type":"output_text","text":"One step.","annotations":[]}]}],"model":"scripted","usage":{"input_tokens":80,"output_tokens":3,"total_tokens":83},"response":{"model":"scripted","status":"completed"},"at":1794816730136}');
INSERT INTO schema_of_fixture.events VALUES (3, 1794816730136, 16, NULL, '{"type":"agent.ended","invocation":"15bcd161-fea8-41b3-ade2-938d745e2d51","agent":"stepper","path":"crew/rounds/1.stepper","outcome":"answered","at":1794816730136}');
INSERT INTO schema_of_fixture.events VALUES (3, 1794816730137, 17, NULL, '{"type":"model.answered","invocation":"15bcd161-fea8-41b3-ade2-938d745e2d51","agent":"stepper","path":"crew/rounds/2.stepper","items":[{"type":"function_call","id":"fc_2_0","call_id":"call_2_0","name":"step","arguments":"{}","status":"completed"}],"model":"scripted","usage":{"input_tokens":82,"output_tokens":2,"total_tokens":84},"response":{"model":"scripted","status":"completed"},"at":1794816730137}');
INSERT INTO schema_of_fixture.events VALUES (3, 1794816730137, 18, NULL, '{"type":"tools.answered","invocation":"15bcd161-fea8-41b3-ade2-938d745e2d51","agent":"stepper","path":"crew/rounds/2.stepper","items":[{"type":"function_call_output","call_id":"call_2_0","output":"{\"steps\":2}"}],"escalate":true,"at":1794816730137,"delta":[{"op":"replace","path":"/steps","value":2}]}');
INSERT INTO schema_of_fixture.events VALUES (3, 1794816730137, 19, NULL, '{"type":"agent.ended","invocation":"15bcd161-fea8-41b3-ade2-938d745e2d51","agent":"stepper","path":"crew/rounds/2.stepper","outcome":"escalated","at":1794816730137}');
INSERT INTO schema_of_fixture.events VALUES (3, 1794816730138, 20, NULL, '{"type":"agent.ended","invocation":"15bcd161-fea8-41b3-ade2-938d745e2d51","agent":"rounds","path":"crew/rounds","outcome":"answered","at":1794816730138}');
INSERT INTO schema_of_fixture.events VALUES (3, 1794816730138, 21, NULL, '{"type":"agent.ended","invocation":"15bcd161-fea8-41b3-ade2-938d745e2d51","agent":"crew","path":"crew","outcome":"answered","last":true,"at":1794816730138}');
INSERT INTO schema_of_fixture.events VALUES (3, 1794816730138, 22, NULL, '{"type":"invocation.began","invocation":"2c3c84df-4344-43d9-936e-866db67bb5ba","agent":"crew","items":[{"type":"message","role":"user","content":"again"}],"at":1794816730138}');
INSERT INTO schema_of_fixture.events VALUES (3, 1794816730139, 23, NULL, '{"type":"agent.began","invocation":"2c3c84df-4344-43d9-936e-866db67bb5ba","agent":"crew","path":"crew","at":1794816730139,"delta":[{"op":"replace","path":"/shifts","value":2}]}');
INSERT INTO schema_of_fixture.events VALUES (3, 1794816730139, 24, NULL, '{"type":"model.answered","invocation":"2c3c84df-4344-43d9-936e-866db67bb5ba","agent":"left","path":"crew/pair/left","branch":"crew/pair.left","items":[{"type":"function_call","id":"fc_2_0","call_id":"call_2_0","name":"write","arguments":"{\"by\":\"left\"}","status":"completed"}],"model":"scripted","usage":{"input_tokens":88,"output_tokens":5,"total_tokens":93},"response":{"model":"scripted","status":"completed"},"at":1794816730139}');
INSERT INTO schema_of_fixture.events VALUES (3, 1794816730146, 25, NULL, '{"type":"model.answered","invocation":"2c3c84df-4344-43d9-936e-866db67bb5ba","agent":"right","path":"crew/pair/right","branch":"crew/pair.right","items":[{"type":"function_call","id":"fc_2_0","call_id":"call_2_0","name":"write","arguments":"{\"by\":\"right\"}","status":"completed"}],"model":"scripted","usage":{"input_tokens":88,"output_tokens":5,"total_tokens":93},"response":{"model":"scripted","status":"completed"},"at":1794816730146}');
INSERT INTO schema_of_fixture.events VALUES (3, 1794816730146, 26, NULL, '{"type":"tools.answered","invocation":"2c3c84df-4344-43d9-936e-866db67bb5ba","agent":"left","path":"crew/pair/left","branch":"crew/pair.left","items":[{"type":"function_call_output","call_id":"call_2_0","output":"null"}],"at":1794816730146,"delta":[{"op":"replace","path":"/written left","value":2}]}');
INSERT INTO schema_of_fixture.events VALUES (3, 1794816730147, 27, NULL, '{"type":"tools.answered","invocation":"2c3c84df-4344-43d9-936e-866db67bb5ba","agent":"right","path":"crew/pair/right","branch":"crew/pair.right","items":[{"type":"function_call_output","call_id":"call_2_0","output":"null"}],"at":1794816730147,"delta":[{"op":"replace","path":"/written right","value":2}]}');
INSERT INTO schema_of_fixture.events VALUES (3, 1794816730147, 28, NULL, '{"type":"model.answered","invocation":"2c3c84df-4344-43d9-936e-866db67bb5ba","agent":"left","path":"crew/pair/left","branch":"crew/pair.left","items":[{"type":"message","id":"msg_3_0","role":"assistant","status":"completed","content":[{"type":"output_text","text":"left is done.","annotations":[]}]}],"model":"scripted","usage":{"input_tokens":93,"output_tokens":4,"total_tokens":97},"response":{"model":"scripted","status":"completed"},"at":1794816730147}');
INSERT INTO schema_of_fixture.events VALUES (3, 1794816730156, 29, NULL, '{"type":"model.answered","invocation":"2c3c84df-4344-43d9-936e-866db67bb5ba","agent":"right","path":"crew/pair/right","branch":"crew/pair.right","items":[{"type":"message","id":"msg_3_0","role":"assistant","status":"completed","content":[{"type":"output_text","text":"right is done.","annotations":[]}]}],"model":"scripted","usage":{"input_tokens":94,"output_tokens":4,"total_tokens":98},"response":{"model":"scripted","status":"completed"},"at":1794816730156}');
INSERT INTO schema_of_fixture.events VALUES (3, 1794816730156, 30, NULL, '{"type":"agent.ended","invocation":"2c3c84df-4344-43d9-936e-866db67bb5ba","agent":"left","path":"crew/pair/left","branch":"crew/pair.left","outcome":"answered","at":1794816730156}');
INSERT INTO schema_of_fixture.events VALUES (3, 1794816730156, 31, NULL, '{"type":"agent.ended","invocation":"2c3c84df-4344-43d9-936e-866db67bb5ba","agent":"right","path":"crew/pair/right","branch":"crew/pair.right","outcome":"answered","at":1794816730156}');
INSERT INTO schema_of_fixture.events VALUES (3, 1794816730157, 32, NULL, '{"type":"agent.ended","invocation":"2c3c84df-4344-43d9-936e-866db67bb5ba","agent":"pair","path":"crew/pair","outcome":"answered","at":1794816730157}');
INSERT INTO schema_of_fixture.events VALUES (3, 1794816730157, 33, NULL, '{"type":"model.answered","invocation":"2c3c84df-4344-43d9-936e-866db67bb5ba","agent":"stepper","path":"crew/rounds/1.stepper","items":[{"type":"function_call","id":"fc_2_0","call_id":"call_2_0_2","name":"step","arguments":"{}","status":"completed"}],"model":"scripted","usage":{"input_tokens":136,"output_tokens":2,"total_tokens":138},"response":{"model":"scripted","status":"completed"},"at":1794816730157}');
INSERT INTO schema_of_fixture.events VALUES (3, 1794816730157, 34, NULL, '{"type":"tools.answered","invocation":"2c3c84df-4344-43d9-936e-866db67bb5ba","agent":"stepper","path":"crew/rounds/1.stepper","items":[{"type":"function_call_output","call_id":"call_2_0_2","output":"{\"steps\":3}"}],"at":1794816730157,"delta":[{"op":"replace","path":"/steps","value":3}]}');
INSERT INTO schema_of_fixture.events VALUES (3, 1794816730157, 35, NULL, '{"type":"model.answered","invocation":"2c3c84df-4344-43d9-936e-866db67bb5ba","agent":"stepper","path":"crew/rounds/1.stepper","items":[{"type":"message","id":"msg_3_0","role":"assistant","status":"completed","content":[{"type":"output_text","text":"One step.","annotations":[]}]}],"model":"scripted","usage":{"input_tokens":140,"output_tokens":3,"total_tokens":143},"response":{"model":"scripted","status":"completed"},"at":1794816730157}');
INSERT INTO schema_of_fixture.events VALUES (3, 1794816730158, 36, NULL, '{"type":"agent.ended","invocation":"2c3c84df-4344-43d9-936e-866db67bb5ba","agent":"stepper","path":"crew/rounds/1.stepper","outcome":"answered","at":1794816730158}');
INSERT INTO schema_of_fixture.events VALUES (3, 1794816730158, 37, NULL, '{"type":"model.answered","invocation":"2c3c84df-4344-43d9-936e-866db67bb5ba","agent":"stepper","path":"crew/rounds/2.stepper","items":[{"type":"function_call","id":"fc_4_0","call_id":"call_4_0","name":"step","arguments":"{}","status":"completed"}],"model":"scripted","usage":{"input_tokens":143,"output_tokens":2,"total_tokens":145},"response":{"model":"scripted","status":"completed"},"at":1794816730158}');
INSERT INTO schema_of_fixture.events VALUES (3, 1794816730158, 38, NULL, '{"type":"tools.answered","invocation":"2c3c84df-4344-43d9-936e-866db67bb5ba","agent":"stepper","path":"crew/rounds/2.stepper","items":[{"type":"function_call_output","call_id":"call_4_0","output":"{\"steps\":4}"}],"escalate":true,"at":1794816730158,"delta":[{"op":"replace","path":"/steps","value":4}]}');
INSERT INTO schema_of_fixture.events VALUES (3, 1794816730158, 39, NULL, '{"type":"agent.ended","invocation":"2c3c84df-4344-43d9-936e-866db67bb5ba","agent":"stepper","path":"crew/rounds/2.stepper","outcome":"escalated","at":1794816730158}');
INSERT INTO schema_of_fixture.events VALUES (3, 1794816730158, 40, NULL, '{"type":"agent.ended","invocation":"2c3c84df-4344-43d9-936e-866db67bb5ba","agent":"rounds","path":"crew/rounds","outcome":"answered","at":1794816730158}');
INSERT INTO schema_of_fixture.events VALUES (3, 1794816730158, 41, NULL, '{"type":"agent.ended","invocation":"2c3c84df-4344-43d9-936e-866db67bb5ba","agent":"crew","path":"crew","outcome":"answered","last":true,"at":1794816730158}');
INSERT INTO schema_of_fixture.events VALUES (4, 1794816731667, 1, NULL, '{"type":"session.opened","at":1794816731667,"environment":"agent:office-killed","randomness":{"seed":1453744541,"turn":0},"labels":{"user":"killed-effect"},"delta":[{"op":"replace","path":"","value":{"task":{"start":1,"goal":10}}}]}');
INSERT INTO schema_of_fixture.events VALUES (4, 1794816731692, 2, NULL, '{"type":"invocation.began","invocation":"1a23a907-dca8-4848-ab42-c86bf452f9eb","agent":"clerk","items":[{"type":"message","role":"user","content":"mixed"}],"at":1794816731692}');
INSERT INTO schema_of_fixture.events VALUES (5, 1794816731694, 1, NULL, '{"type":"session.opened","at":1794816731694,"environment":"holdfast:shared","randomness":{"seed":0,"turn":0},"delta":[{"op":"replace","path":"","value":{}}]}');
INSERT INTO schema_of_fixture.events VALUES (4, 1794816731694, 3, NULL, '{"type":"agent.began","invocation":"1a23a907-dca8-4848-ab42-c86bf452f9eb","agent":"clerk","path":"clerk","at":1794816731694,"delta":[{"op":"add","path":"/begun","value":1}],"shared":[{"op":"add","path":"/user:visits","value":1}]}');
INSERT INTO schema_of_fixture.events VALUES (5, 1794816731694, 2, NULL, '{"type":"shared.changed","at":1794816731694,"session":"killed-effect","delta":[{"op":"add","path":"/visits","value":1}]}');
INSERT INTO schema_of_fixture.events VALUES (4, 1794816731712, 4, NULL, '{"type":"model.answered","invocation":"1a23a907-dca8-4848-ab42-c86bf452f9eb","agent":"clerk","path":"clerk","items":[{"type":"function_call","id":"fc_0_0","call_id":"call_0_0","name":"note","arguments":"{}","status":"completed"},{"type":"function_call","id":"fc_0_1","call_id":"call_0_1","name":"send","arguments":"{}","status":"completed"},{"type":"function_call","id":"fc_0_2","call_id":"call_0_2","name":"gather","arguments":"{}","status":"completed"}],"model":"scripted","usage":{"input_tokens":321,"output_tokens":5,"total_tokens":326},"response":{"model":"scripted","status":"completed"},"at":1794816731712,"delta":[{"op":"add","path":"/asked","value":1},{"op":"add","path":"/answered","value":1}]}');
INSERT INTO schema_of_fixture.events VALUES (4, 1794816731713, 5, NULL, '{"type":"tools.started","invocation":"1a23a907-dca8-4848-ab42-c86bf452f9eb","agent":"clerk","path":"clerk","calls":["call_0_1"],"at":1794816731713}');
INSERT INTO schema_of_fixture.events VALUES (6, 1794816732604, 1, NULL, '{"type":"session.opened","at":1794816732604,"environment":"agent:office-killed","randomness":{"seed":866218463,"turn":0},"labels":{"user":"killed-began"},"delta":[{"op":"replace","path":"","value":{"task":{"start":1,"goal":10}}}]}');
INSERT INTO schema_of_fixture.events VALUES (6, 1794816732619, 2, NULL, '{"type":"invocation.began","invocation":"b6336c6d-bce9-4de0-b37b-1ea893959782","agent":"clerk","items":[{"type":"message","role":"user","content":"note"}],"at":1794816732619}');
INSERT INTO schema_of_fixture.events VALUES (7, 1794816733384, 1, NULL, '{"type":"session.opened","at":1794816733384,"environment":"agent:office-killed","randomness":{"seed":3751385586,"turn":0},"labels":{"user":"killed-answered"},"delta":[{"op":"replace","path":"","value":{"task":{"start":1,"goal":10}}}]}');
INSERT INTO schema_of_fixture.events VALUES (7, 1794816733404, 2, NULL, '{"type":"invocation.began","invocation":"6843676e-b572-4364-9349-dfb02530e048","agent":"clerk","items":[{"type":"message","role":"user","content":"gather"}],"at":1794816733404}');
INSERT INTO schema_of_fixture.events VALUES (8, 1794816733406, 1, NULL, '{"type":"session.opened","at":1794816733406,"environment":"holdfast:shared","randomness":{"seed":0,"turn":0},"delta":[{"op":"replace","path":"","value":{}}]}');
INSERT INTO schema_of_fixture.events VALUES (7, 1794816733406, 3, NULL, '{"type":"agent.began","invocation":"6843676e-b572-4364-9349-dfb02530e048","agent":"clerk","path":"clerk","at":1794816733406,"delta":[{"op":"add","path":"/begun","value":1}],"shared":[{"op":"add","path":"/user:visits","value":1}]}');
INSERT INTO schema_of_fixture.events VALUES (8, 1794816733407, 2, NULL, '{"type":"shared.changed","at":1794816733407,"session":"killed-answered","delta":[{"op":"add","path":"/visits","value":1}]}');
INSERT INTO schema_of_fixture.events VALUES (7, 1794816733419, 4, NULL, '{"type":"model.answered","invocation":"6843676e-b572-4364-9349-dfb02530e048","agent":"clerk","path":"clerk","items":[{"type":"function_call","id":"fc_0_0","call_id":"call_0_0","name":"gather","arguments":"{}","status":"completed"},{"type":"function_call","id":"fc_0_1","call_id":"call_0_1","name":"gather","arguments":"{}","status":"completed"}],"model":"scripted","usage":{"input_tokens":321,"output_tokens":4,"total_tokens":325},"response":{"model":"scripted","status":"completed"},"at":1794816733419,"delta":[{"op":"add","path":"/asked","value":1},{"op":"add","path":"/answered","value":1}]}');
INSERT INTO schema_of_fixture.events VALUES (9, 1794816734171, 1, NULL, '{"type":"session.opened","at":1794816734171,"environment":"agent:office-killed","randomness":{"seed":1161146068,"turn":0},"labels":{"user":"killed-results"},"delta":[{"op":"replace","path":"","value":{"task":{"start":1,"goal":10}}}]}');
INSERT INTO schema_of_fixture.events VALUES (9, 1794816734194, 2, NULL, '{"type":"invocation.began","invocation":"11c55b89-4fbe-46de-a6d1-b33e37bebfc7","agent":"clerk","items":[{"type":"message","role":"user","content":"note"}],"at":1794816734194}');
INSERT INTO schema_of_fixture.events VALUES (10, 1794816734200, 1, NULL, '{"type":"session.opened","at":1794816734200,"environment":"holdfast:shared","randomness":{"seed":0,"turn":0},"delta":[{"op":"replace","path":"","value":{}}]}');
INSERT INTO schema_of_fixture.events VALUES (9, 1794816734195, 3, NULL, '{"type":"agent.began","invocation":"11c55b89-4fbe-46de-a6d1-b33e37bebfc7","agent":"clerk","path":"clerk","at":1794816734195,"delta":[{"op":"add","path":"/begun","value":1}],"shared":[{"op":"add","path":"/user:visits","value":1}]}');
INSERT INTO schema_of_fixture.events VALUES (10, 1794816734200, 2, NULL, '{"type":"shared.changed","at":1794816734200,"session":"killed-results","delta":[{"op":"add","path":"/visits","value":1}]}');
INSERT INTO schema_of_fixture.events VALUES (9, 1794816734209, 4, NULL, '{"type":"model.answered","invocation":"11c55b89-4fbe-46de-a6d1-b33e37bebfc7","agent":"clerk","path":"clerk","items":[{"type":"function_call","id":"fc_0_0","call_id":"call_0_0","name":"note","arguments":"{}","status":"completed"}],"model":"scripted","usage":{"input_tokens":321,"output_tokens":2,"total_tokens":323},"response":{"model":"scripted","status":"completed"},"at":1794816734209,"delta":[{"op":"add","path":"/asked","value":1},{"op":"add","path":"/answered","value":1}]}');
INSERT INTO schema_of_fixture.events VALUES (9, 1794816734220, 5, NULL, '{"type":"tools.answered","invocation":"11c55b89-4fbe-46de-a6d1-b33e37bebfc7","agent":"clerk","path":"clerk","items":[{"type":"function_call_output","call_id":"call_0_0","output":"{\"notes\":1}"}],"at":1794816734220,"delta":[{"op":"add","path":"/before call_0_0","value":"note"},{"op":"add","path":"/notes","value":1},{"op":"add","path":"/after call_0_0","value":"note"}],"shared":[{"op":"add","path":"/user:notes","value":1}]}');
INSERT INTO schema_of_fixture.events VALUES (10, 1794816734220, 3, NULL, '{"type":"shared.changed","at":1794816734220,"session":"killed-results","delta":[{"op":"add","path":"/notes","value":1}]}');
INSERT INTO schema_of_fixture.events VALUES (11, 1794816736529, 1, NULL, '{"type":"session.opened","at":1794816736529,"environment":"agent:desk-killed","randomness":{"seed":408637914,"turn":0},"labels":{"user":"killed-desk"},"delta":[{"op":"replace","path":"","value":{"task":{"start":1,"goal":10}}}]}');
INSERT INTO schema_of_fixture.events VALUES (11, 1794816736540, 2, NULL, '{"type":"invocation.began","invocation":"c3afa706-7929-4c6a-ab6d-3459884baac0","agent":"desk","items":[{"type":"message","role":"user","content":"add 2 and 3"}],"at":1794816736540}');
INSERT INTO schema_of_fixture.events VALUES (11, 1794816736543, 3, NULL, '{"type":"model.answered","invocation":"c3afa706-7929-4c6a-ab6d-3459884baac0","agent":"desk","path":"desk","items":[{"type":"function_call","id":"fc_0_0","call_id":"call_0_0","name":"add","arguments":"{\"n\":2}","status":"completed"},{"type":"function_call","id":"fc_0_1","call_id":"call_0_1","name":"add","arguments":"{\"n\":3}","status":"completed"}],"model":"scripted","usage":{"input_tokens":229,"output_tokens":5,"total_tokens":234},"response":{"model":"scripted","status":"completed"},"at":1794816736543}');
INSERT INTO schema_of_fixture.events VALUES (12, 1794816736544, 1, NULL, '{"type":"session.opened","at":1794816736544,"environment":"ledger","labels":{},"randomness":{"seed":1965122454,"turn":0},"delta":[{"op":"replace","path":"","value":{"total":0,"marks":{},"luck":0,"note":"","at":0}}]}');
INSERT INTO schema_of_fixture.events VALUES (12, 1794816736544, 2, NULL, '{"type":"session.seeded","at":1794816736544,"task":{"start":1,"goal":10},"randomness":{"seed":1965122454,"turn":1},"delta":[{"op":"replace","path":"","value":{"total":1,"marks":{},"luck":0.35328690010932373,"note":"","at":0}}],"episode":1,"labels":{}}');
INSERT INTO schema_of_fixture.events VALUES (12, 1794816736560, 3, 'call 1 3.call_0_0', '{"type":"tool.called","at":1794816736560,"episode":1,"tool":"add","input":{"n":2},"outcome":{"ok":true,"output":{"total":3}},"delta":[{"op":"replace","path":"/total","value":3},{"op":"replace","path":"/luck","value":0.4000762608939896},{"op":"add","path":"/marks/3.call_0_0","value":1}],"log":["added 2"],"call":"3.call_0_0","began":1794816736547}');
INSERT INTO schema_of_fixture.holdfast VALUES (1);
INSERT INTO schema_of_fixture.sessions VALUES (1, 'killed-claimed', 'ledger', 1794816730777, NULL, NULL, NULL, 1794816730777);
INSERT INTO schema_of_fixture.sessions VALUES (2, 'ledger-long', 'ledger', 1794816729491, NULL, NULL, NULL, 1794816729491);
INSERT INTO schema_of_fixture.sessions VALUES (3, 'crew-whole', 'agent:crew', 1794816730097, NULL, NULL, NULL, 1794816730097);
INSERT INTO schema_of_fixture.sessions VALUES (4, 'killed-effect', 'agent:office-killed', 1794816731667, NULL, NULL, NULL, 1794816731667);
INSERT INTO schema_of_fixture.sessions VALUES (5, 'holdfast:user:office-killed:killed-effect', 'holdfast:shared', 1794816731694, NULL, NULL, NULL, 1794816731694);
INSERT INTO schema_of_fixture.sessions VALUES (6, 'killed-began', 'agent:office-killed', 1794816732604, NULL, NULL, NULL, 1794816732604);
INSERT INTO schema_of_fixture.sessions VALUES (7, 'killed-answered', 'agent:office-killed', 1794816733384, NULL, NULL, NULL, 1794816733384);
INSERT INTO schema_of_fixture.sessions VALUES (8, 'holdfast:user:office-killed:killed-answered', 'holdfast:shared', 1794816733406, NULL, NULL, NULL, 1794816733406);
INSERT INTO schema_of_fixture.sessions VALUES (9, 'killed-results', 'agent:office-killed', 1794816734171, NULL, NULL, NULL, 1794816734171);
INSERT INTO schema_of_fixture.sessions VALUES (10, 'holdfast:user:office-killed:killed-results', 'holdfast:shared', 1794816734200, NULL, NULL, NULL, 1794816734200);
INSERT INTO schema_of_fixture.sessions VALUES (11, 'killed-desk', 'agent:desk-killed', 1794816736529, NULL, NULL, NULL, 1794816736529);
INSERT INTO schema_of_fixture.sessions VALUES (12, 'oCsDu5ulLadTepOkR0keyJ2faWi4qS_B', 'ledger', 1794816736544, NULL, NULL, NULL, 1794816736544);
INSERT INTO schema_of_fixture.snapshots VALUES (2, 17, '{"environment":"ledger","version":17,"opened":1794816729491,"touched":1794816729514,"changed":17,"episode":1,"episodes":1,"task":{"start":0,"goal":12},"labels":{},"verified":0,"verdicts":0,"rewinds":[],"randomness":{"seed":11,"turn":16},"state":{"total":7,"marks":{"a-1":1,"a-2":1,"a-3":1,"a-4":1,"a-5":1,"a-6":1,"a-7":1},"luck":0.8510728413759919,"note":"8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 ","at":0}}');
SELECT pg_catalog.setval('schema_of_fixture.session_numbers', 12, true);
ALTER TABLE ONLY schema_of_fixture.counts
    ADD CONSTRAINT counts_pkey PRIMARY KEY (environment, share);
ALTER TABLE ONLY schema_of_fixture.events
    ADD CONSTRAINT events_pkey PRIMARY KEY (session, version);
ALTER TABLE ONLY schema_of_fixture.sessions
    ADD CONSTRAINT sessions_id_key UNIQUE (id);
ALTER TABLE ONLY schema_of_fixture.sessions
    ADD CONSTRAINT sessions_pkey PRIMARY KEY (n);
ALTER TABLE ONLY schema_of_fixture.snapshots
    ADD CONSTRAINT snapshots_pkey PRIMARY KEY (session, version);
CREATE INDEX events_key ON schema_of_fixture.events USING btree (session, hashtextextended(key, (0)::bigint)) WHERE (key IS NOT NULL);
CREATE INDEX sessions_open ON schema_of_fixture.sessions USING btree (environment, touched, n) WHERE (ended IS NULL);
CREATE INDEX sessions_touched ON schema_of_fixture.sessions USING btree (touched, n);
