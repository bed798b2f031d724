/** What every session of the pool is started with. */
export const sessionSettings = {
  timezone: "UTC",
  statement_timeout: "30s",
  // longer than any pause between two statements; what a lost session had locked is free again after it
  idle_in_transaction_session_timeout: "5s",
  // a client that is gone without a word: the server learns it within a minute, and ends the session with its locks
  tcp_keepalives_idle: "30",
  tcp_keepalives_interval: "10",
  tcp_keepalives_count: "3",
  tcp_user_timeout: "30s",
  // one that leaves in the middle of a statement is noticed while that runs
  client_connection_check_interval: "1s",
  // plans are kept while tables grow from nothing to millions of rows: only an index suits both
  enable_seqscan: "off",
  enable_bitmapscan: "off"
}
