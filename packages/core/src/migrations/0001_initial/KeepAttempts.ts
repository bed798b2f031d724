/**
 * The functions that create the weekly partitions of `delivery_attempts`, and drop those that are older than a
 * retention. They run with the rights of the schema's owner: the worker, which calls them, owns no table. It calls one
 * after the other in transactions of their own: what keeps old partitions from being dropped keeps no new ones from
 * being created.
 *
 * The default partition takes attempts that fit no other one, because a clock was wrong; a week for which it has rows
 * gets no partition. It has few, because a move of slots creates the partitions of the source before it copies.
 * Readers and writers wait for a fifth of a second at most where a partition's locks are not free; the function then
 * fails, and the next call tries again.
 */
const functions = {
  // the week is given by its Monday at 0:00 UTC
  "create_attempts_partition(week timestamptz)": `
    DECLARE
      name text := 'delivery_attempts_' || to_char(week, 'IYYY"w"IW');
    BEGIN
      PERFORM set_config('lock_timeout', '200ms', true);
      PERFORM pg_advisory_xact_lock(hashtext('keep_delivery_attempts'));
      -- apart from the look into a table, which Citus would take to another server with it
      IF to_regclass(name) IS NOT NULL THEN
        RETURN;
      END IF;
      IF NOT EXISTS (SELECT FROM delivery_attempts_other WHERE at >= week AND at < week + interval '7 days') THEN
        EXECUTE format('CREATE TABLE %I (LIKE delivery_attempts INCLUDING ALL)', name);
        EXECUTE format('ALTER TABLE delivery_attempts ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)',
          name, week, week + interval '7 days');
      END IF;
    END`,
  // this week and the next two
  "create_attempts_partitions()": `
    BEGIN
      IF NOT pg_try_advisory_xact_lock(hashtext('keep_delivery_attempts')) THEN
        RETURN;
      END IF;
      FOR n IN 0..2 LOOP
        PERFORM create_attempts_partition(date_trunc('week', now()) + n * interval '7 days');
      END LOOP;
    END`,
  "keep_delivery_attempts(retention interval)": `
    DECLARE
      name text;
    BEGIN
      IF NOT pg_try_advisory_xact_lock(hashtext('keep_delivery_attempts')) THEN
        RETURN;
      END IF;
      PERFORM set_config('lock_timeout', '200ms', true);
      retention := greatest(retention, interval '1 day');
      FOR name IN SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
        WHERE i.inhparent = 'delivery_attempts'::regclass AND c.relname ~ '^delivery_attempts_[0-9]{4}w[0-9]{2}$'
          AND to_date(right(c.relname, 7), 'IYYY"w"IW') + interval '7 days' < now() - retention
      LOOP
        EXECUTE format('DROP TABLE %I', name);
      END LOOP;
      DELETE FROM delivery_attempts_other WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM delivery_attempts_other WHERE at < now() - retention LIMIT 10000));
    END`
}

/** The statements that create the functions, and the first partitions. */
export const keepAttempts = [
  ...Object.entries(functions).flatMap(([signature, body]) => {
    const name = signature.replace(/(week|retention) /, "")
    return [
      `CREATE FUNCTION ${signature} RETURNS void LANGUAGE plpgsql SECURITY DEFINER AS $$ ${body} $$`,
      // an object of the caller's own schemas is never taken for one of these
      `DO $$ BEGIN
        EXECUTE format('ALTER FUNCTION ${name} SET search_path = %I, pg_temp', current_schema());
      END $$`,
      `ALTER FUNCTION ${name} SET timezone = 'UTC'`,
      `REVOKE ALL ON FUNCTION ${name} FROM PUBLIC`
    ]
  }),
  `SELECT create_attempts_partitions()`
]
