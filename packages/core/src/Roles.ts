import { movementNames } from "@card-rewards/domain/Statement"
import { Effect } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import { isCitus } from "./Database/SessionSettings.ts"

/** The least-privilege roles of the processes. None owns a table, may alter one, or may rewrite history. */
export const roles = ["api", "worker", "admin"] as const
/** One of {@link roles}. */
export type Role = typeof roles[number]

/** The role's name in PostgreSQL. Roles are shared by all databases of a server, hence the prefix. */
export const nameOf = (role: Role): string => `card_rewards_${role}`

type Grants = Readonly<Record<string, string>>

/** For processes that move money: vaults, rewards and balances change, the journal and the events are append-only. */
const ledger: Grants = {
  cell_slots: "SELECT",
  integrators: "SELECT",
  users: "SELECT",
  webhook_endpoints: "SELECT, UPDATE (work_at)",
  events: "SELECT, INSERT",
  journal: "SELECT, INSERT",
  journal_seals: "SELECT",
  vaults: "SELECT, UPDATE (rewards, entries, events, work_at)",
  vault_balances: `SELECT, UPDATE (held, free, assigned, assigned_to, assigned_at, day, ${movementNames.join(", ")})`,
  vault_days: "SELECT, INSERT",
  vault_operations: "SELECT",
  rewards: "SELECT, INSERT, UPDATE (state, refunded_spend, amount, paid, recovered, clawed_back, updated_at, revision)",
  user_balances: "SELECT, INSERT, UPDATE (awaiting_funding, pending, claimable, paid, owed, due_at, due_creation, " +
    "first_waiting)",
  waiting_sums: "SELECT, INSERT, UPDATE (amount), DELETE",
  payouts: "SELECT, INSERT, UPDATE (amount), DELETE"
}

const keys: Grants = {
  api_keys: "SELECT, INSERT, UPDATE (revoked_at, last_used_at)",
  api_key_hashes: "SELECT, INSERT"
}

const history: Grants = {
  lanes: "SELECT",
  user_attributes: "SELECT",
  programs: "SELECT",
  program_versions: "SELECT",
  spend_events: "SELECT",
  spend_event_queue: "SELECT",
  spend_event_waits: "SELECT",
  unearned_lists: "SELECT",
  authorizations: "SELECT",
  cap_usage: "SELECT",
  open_estimates: "SELECT",
  expected_balances: "SELECT"
}

/**
 * The rights of each role, by table. To lock a row, a role needs `UPDATE` on at least one of its columns. One that is
 * removed is taken back by the next migration, while processes of the version before it still run.
 */
export const grants: Readonly<Record<Role, ReadonlyArray<Grants>>> = {
  api: [ledger, keys, history, {
    vault_operations: "INSERT",
    vault_balances: "UPDATE (low_funds)",
    integrators: "UPDATE (clock_offset_millis, clock_moved_to, programs_revision)",
    lanes: "UPDATE (position)",
    users: "INSERT, UPDATE (tier, country, segment, updated_at)",
    user_attributes: "INSERT",
    programs: "INSERT",
    program_versions: "INSERT",
    spend_events: "INSERT",
    spend_event_queue: "INSERT",
    webhook_endpoints: "INSERT, UPDATE (url, revision, deleted_at, failures, probe_at, worker, token, " +
      "round, replay, replay_cursor)",
    webhook_secrets: "SELECT, INSERT, UPDATE (expires_at), DELETE",
    replays: "SELECT, INSERT, DELETE",
    retries: "SELECT, INSERT, UPDATE (state, next_attempt_at)",
    delivery_attempts: "SELECT"
  }],
  worker: [ledger, history, {
    journal_seals: "INSERT",
    lanes: "UPDATE (position)",
    spend_events: "UPDATE (position, purchase_at, refunded_cents, unearned)",
    spend_event_queue: "UPDATE (user_ids, kinds, external_transaction_ids), DELETE",
    spend_event_waits: "INSERT, DELETE",
    unearned_lists: "INSERT",
    authorizations: "INSERT, UPDATE",
    cap_usage: "INSERT, UPDATE (earned)",
    open_estimates: "INSERT, UPDATE (authorizations, raw), DELETE",
    expected_balances: "INSERT, UPDATE (expected)",
    quarantine: "SELECT, INSERT, UPDATE (reason, error, failures, next_attempt_at), DELETE",
    webhook_endpoints: "UPDATE (cursor, worker, token, failures, probe_at, replay, replay_cursor), DELETE",
    webhook_secrets: "SELECT",
    replays: "SELECT, DELETE",
    retries: "SELECT, INSERT, UPDATE (state, attempts, next_attempt_at, revision), DELETE",
    delivery_attempts: "SELECT, INSERT"
  }],
  admin: [ledger, keys, history, {
    vault_operations: "INSERT",
    integrators: "INSERT, UPDATE (suspended_at)",
    lanes: "INSERT",
    // not its time and its login, which the database sets
    operator_actions: "SELECT, INSERT (action_id, os_user, host, command, arguments, integrator, outcome, reason)",
    vaults: "INSERT",
    vault_balances: "INSERT",
    quarantine: "SELECT",
    webhook_endpoints: "UPDATE (round, replay, replay_cursor)",
    webhook_secrets: "SELECT, UPDATE (encrypted)",
    replays: "SELECT, INSERT, DELETE",
    retries: "SELECT",
    delivery_attempts: "SELECT"
  }]
}

const tables = [...new Set(["effect_sql_migrations", ...Object.values(grants).flat().flatMap(Object.keys)])]

/**
 * Creates the roles and grants them their rights, and no others, as the schema's owner, after the migrations.
 * Idempotent. Where the owner may not create roles there are none: processes then work with the rights of their login.
 */
export const grant: Effect.Effect<void, SqlError.SqlError, SqlClient.SqlClient> = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  // its servers connect to each other as the role that runs a statement; no other client can without a password
  const onCitus = yield* isCitus
  for (const role of roles) {
    const name = nameOf(role)
    yield* sql.unsafe(createRole(name))
    if (!(yield* exists(name))) continue
    if (onCitus) yield* sql.unsafe(`ALTER ROLE ${name} LOGIN`)
    yield* sql.unsafe(useSchema(name))
    // what an earlier version has granted
    yield* sql.unsafe(`REVOKE ALL ON ${tables.join(", ")} FROM ${name}`)
    yield* sql.unsafe(`GRANT SELECT ON effect_sql_migrations TO ${name}`)
    if (role === "api") yield* sql.unsafe(`GRANT USAGE ON SEQUENCE arrivals TO ${name}`)
    for (const call of role === "worker" ? ["create_attempts_partitions()", "keep_delivery_attempts(interval)"] : []) {
      yield* sql.unsafe(`GRANT EXECUTE ON FUNCTION ${call} TO ${name}`)
    }
    for (const [table, rights] of grants[role].flatMap(Object.entries)) {
      yield* sql.unsafe(`GRANT ${rights} ON ${table} TO ${name}`)
    }
  }
})

/**
 * Creates a role unless it exists; another database of the server may be creating it at the same moment. Grants it to
 * its creator, which PostgreSQL does not do for a login that is not a superuser.
 */
const createRole = (name: string) =>
  `DO $$ BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = '${name}') THEN
      CREATE ROLE ${name} NOLOGIN;
      IF NOT (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) THEN
        EXECUTE format('GRANT ${name} TO %I', current_user);
      END IF;
    END IF;
  EXCEPTION WHEN duplicate_object OR unique_violation OR insufficient_privilege THEN NULL;
  END $$`

/** Its tables are in the schema that comes first in the owner's search path. */
const useSchema = (name: string) =>
  `DO $$ BEGIN EXECUTE format('GRANT USAGE ON SCHEMA %I TO ${name}', current_schema()); END $$`

const exists = Effect.fnUntraced(function*(name: string) {
  const sql = yield* SqlClient.SqlClient
  const rows = yield* sql`SELECT FROM pg_roles WHERE rolname = ${name}`
  return rows.length > 0
})

/** Whether the connection's login may act as the role: from PostgreSQL 16 on a member may lack that option. */
export const isAvailable = Effect.fnUntraced(function*(role: Role) {
  const sql = yield* SqlClient.SqlClient
  const rows = yield* sql`SELECT FROM pg_roles WHERE rolname = ${nameOf(role)} AND pg_has_role(rolname,
    CASE WHEN current_setting('server_version_num')::int < 160000 THEN 'MEMBER' ELSE 'SET' END)`
  return rows.length > 0
})
