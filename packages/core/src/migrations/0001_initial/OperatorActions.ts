/** What operators did by commands; see OperatorActions.ts. */
export const statements = [
  // A row is never changed or removed. It belongs to the cell where it happened, hence no column `integrator_id`: a
  // move of the integrator copies its rows and leaves them. The role of the commands may not set time and login.
  `CREATE TABLE operator_actions (
    action_id uuid PRIMARY KEY,
    -- real time, with the precision of the cursor of a page
    at timestamptz(3) NOT NULL DEFAULT now(),
    login text NOT NULL DEFAULT session_user,
    -- as the operator's machine says
    os_user text NOT NULL,
    host text NOT NULL,
    command text NOT NULL CHECK (command ~ '^[a-z]+( [a-z]+)?$'),
    arguments jsonb NOT NULL CHECK (jsonb_typeof(arguments) = 'object' AND octet_length(arguments::text) <= 16384),
    -- the integrator that the arguments name; it need not exist
    integrator text,
    outcome text NOT NULL CHECK (outcome IN ('done', 'unchanged', 'began', 'refused')),
    reason text CHECK ((reason IS NOT NULL) = (outcome = 'refused') AND length(reason) <= 1000)
  )`,
  // the newest of all, and of one integrator
  `CREATE INDEX operator_actions_by_time ON operator_actions (at, action_id)`,
  `CREATE INDEX operator_actions_by_integrator ON operator_actions (integrator, at, action_id)`,
  // the owner, too, could only change a row after it has granted itself the right
  `REVOKE UPDATE, DELETE, TRUNCATE ON operator_actions FROM CURRENT_USER`
]
