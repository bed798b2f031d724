/** Which integrators' rows this cell has; see Slots.ts. `migrate` gives a new cell its slots. */
export const statements = [
  `CREATE TABLE cell_slots (
    slot smallint PRIMARY KEY CHECK (slot BETWEEN 0 AND 255),
    state text NOT NULL CHECK (state IN ('owned'))
  )`
]
