/** Users and the history of their attributes. */
export const statements = [
  `CREATE TABLE users (
    integrator_id text NOT NULL REFERENCES integrators,
    user_id text NOT NULL,
    tier text,
    country text,
    segment text,
    referred_by text,
    enrolled_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    PRIMARY KEY (integrator_id, user_id),
    FOREIGN KEY (integrator_id, referred_by) REFERENCES users (integrator_id, user_id),
    CHECK (referred_by <> user_id)
  )`,
  // whom a user referred, which PostgreSQL looks up when the user is deleted, as a move of the integrator does
  `CREATE INDEX users_referred ON users (integrator_id, referred_by) WHERE referred_by IS NOT NULL`,
  // the order in which spend events and attribute records are received
  `CREATE SEQUENCE arrivals`,
  // the primary key serves the last record that arrived before an event, and that of the enrollment; see
  // Users/AttributeHistory.ts
  `CREATE TABLE user_attributes (
    integrator_id text NOT NULL,
    user_id text NOT NULL,
    arrival bigint NOT NULL,
    stored_at timestamptz NOT NULL,
    tier text,
    country text,
    segment text,
    PRIMARY KEY (integrator_id, user_id, arrival),
    FOREIGN KEY (integrator_id, user_id) REFERENCES users
  )`,
  // the last attribute record stored up to an instant, at a cost that does not grow with the user's history; see
  // Users/AttributeHistory.ts
  `CREATE INDEX user_attributes_by_time ON user_attributes (integrator_id, user_id, stored_at, arrival)`
]
