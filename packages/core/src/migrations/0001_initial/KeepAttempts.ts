/**
 * The function that creates the partitions of `delivery_attempts` for this week and the next two, and drops those that
 * are older than a retention. It runs with the rights of the schema's owner: the worker, which calls it, owns no table.
 *
 * The default partition takes attempts that fit no other one, because a clock was wrong; a week for which it has rows
 * gets no partition. Readers and writers wait for a fifth of a second at most where a partition's locks are not free;
 * the function then fails, and the next call tries again.
 */
export const keepAttempts = [
  `CREATE FUNCTION keep_delivery_attempts(retention interval) RETURNS void LANGUAGE plpgsql SECURITY DEFINER AS $$
    DECLARE
      week timestamptz;
      name text;
    BEGIN
      IF NOT pg_try_advisory_xact_lock(hashtext('keep_delivery_attempts')) THEN
        RETURN;
      END IF;
      PERFORM set_config('lock_timeout', '200ms', true);
      retention := greatest(retention, interval '1 day');
      FOR n IN 0..2 LOOP
        week := date_trunc('week', now()) + n * interval '7 days';
        name := 'delivery_attempts_' || to_char(week, 'IYYY"w"IW');
        -- apart from the look into a table, which Citus would take to another server with it
        IF to_regclass(name) IS NOT NULL THEN
          CONTINUE;
        END IF;
        IF NOT EXISTS (SELECT FROM delivery_attempts_other WHERE at >= week AND at < week + interval '7 days') THEN
          EXECUTE format('CREATE TABLE %I (LIKE delivery_attempts INCLUDING ALL)', name);
          EXECUTE format('ALTER TABLE delivery_attempts ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)',
            name, week, week + interval '7 days');
        END IF;
      END LOOP;
      FOR name IN SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
        WHERE i.inhparent = 'delivery_attempts'::regclass AND c.relname ~ '^delivery_attempts_[0-9]{4}w[0-9]{2}$'
          AND to_date(right(c.relname, 7), 'IYYY"w"IW') + interval '7 days' < now() - retention
      LOOP
        EXECUTE format('DROP TABLE %I', name);
      END LOOP;
      DELETE FROM delivery_attempts_other WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM delivery_attempts_other WHERE at < now() - retention LIMIT 10000));
    END $$`,
  // an object of the caller's own schemas is never taken for one of these
  `DO $$ BEGIN
    EXECUTE format('ALTER FUNCTION keep_delivery_attempts(interval) SET search_path = %I, pg_temp', current_schema());
  END $$`,
  `ALTER FUNCTION keep_delivery_attempts(interval) SET timezone = 'UTC'`,
  `REVOKE ALL ON FUNCTION keep_delivery_attempts(interval) FROM PUBLIC`,
  `SELECT keep_delivery_attempts('90 days')`
]
