import { asset } from "./Columns.ts"

/** Reward programs and their versions. */
export const statements = [
  `CREATE TABLE programs (
    integrator_id text NOT NULL REFERENCES integrators,
    program_id text NOT NULL,
    ${asset},
    PRIMARY KEY (integrator_id, program_id)
  )`,
  `CREATE TABLE program_versions (
    integrator_id text NOT NULL,
    program_id text NOT NULL,
    version integer NOT NULL CHECK (version >= 1),
    effective_from timestamptz NOT NULL,
    published_at timestamptz NOT NULL,
    definition jsonb NOT NULL,
    -- the integrator's programs_revision as this publication left it
    revision bigint NOT NULL,
    -- size of the definition in JSON, so that a reader can limit how much it loads
    definition_bytes integer NOT NULL,
    PRIMARY KEY (integrator_id, program_id, version),
    FOREIGN KEY (integrator_id, program_id) REFERENCES programs
  )`,
  // versions newer than a cache's; see Programs/Versions.ts
  `CREATE INDEX program_versions_by_revision ON program_versions (integrator_id, revision)`
]
