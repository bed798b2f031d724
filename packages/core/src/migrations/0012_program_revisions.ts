import { Effect } from "effect"
import { SqlClient } from "effect/sql"

/**
 * Versions can be read incrementally, and without their definitions: each keeps the integrator's `programs_revision` as
 * its publication left it, and how many bytes of JSON its definition is.
 */
export default Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  for (const statement of statements) yield* sql.unsafe(statement)
})

const statements = [
  `ALTER TABLE program_versions ADD COLUMN revision bigint`,
  `ALTER TABLE program_versions ADD COLUMN definition_bytes integer`,
  `UPDATE program_versions v SET revision = n.revision, definition_bytes = octet_length(v.definition::text)
    FROM (SELECT integrator_id, program_id, version, row_number() OVER (PARTITION BY integrator_id
      ORDER BY published_at, program_id, version) AS revision FROM program_versions) n
    WHERE n.integrator_id = v.integrator_id AND n.program_id = v.program_id AND n.version = v.version`,
  `ALTER TABLE program_versions ALTER COLUMN revision SET NOT NULL`,
  `ALTER TABLE program_versions ALTER COLUMN definition_bytes SET NOT NULL`,
  `CREATE INDEX program_versions_by_revision ON program_versions (integrator_id, revision)`
]
