/**
 * The planner reads tables by an index in its order, whatever it knows of them. Prepared plans are kept while tables
 * grow from nothing to millions of rows, and every scan that is bounded by a `LIMIT` has an index that stops there.
 * Rows read, measured by the tests of costs with one setting changed:
 *
 * | step | as set | `enable_seqscan` on | `enable_bitmapscan` on |
 * | --- | --- | --- | --- |
 * | a batch of 600 events beside 10,000 integrators, planned beside 50 | 4,097 | 13,841 | 4,097 |
 * | vitals with 10 active of 10,000 integrators, planned beside none | at most 100 | 354 | at most 100 |
 * | vitals of money beside 20,000 rewards and users | at most 20,102 | 40,003 | at most 20,102 |
 * | a backlog of 120,000 queued and waiting, counted up to 100,000 | at most 200,100 | at most 200,100 | 240,017 |
 * | the quarantine list, counts up to 10,000 of 20,000 | at most 21,500 | at most 21,500 | 40,551 |
 *
 * A sequential scan of a plan that was made for few rows reads the whole table later; a bitmap scan collects all rows
 * that match before a `LIMIT` can stop it. The audit reads whole tables and switches sequential scans on for itself.
 */
const plannerSettings = {
  enable_seqscan: "off",
  enable_bitmapscan: "off"
}

/** What every session of the pool is started with. */
export const sessionSettings = {
  timezone: "UTC",
  statement_timeout: "30s",
  // longer than any pause between two statements; what a lost session had locked is free again after it
  idle_in_transaction_session_timeout: "5s",
  // the session of a client that is gone without a word ends, with its locks, within a minute
  tcp_keepalives_idle: "30",
  tcp_keepalives_interval: "10",
  tcp_keepalives_count: "3",
  tcp_user_timeout: "30s",
  // a client that leaves in the middle of a statement is noticed while that runs
  client_connection_check_interval: "1s",
  ...plannerSettings
}
