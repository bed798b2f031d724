/** Which integrators' rows this cell has; see Slots.ts. `migrate` gives a new cell its slots, `cells move` moves. */
export const statements = [
  // Only of owned slots rows are written. Of those that are moved the other cell is the peer: the source's are leaving
  // while they are copied, the target's are arriving once all rows are there, and what has left is yet to be deleted.
  `CREATE TABLE cell_slots (
    slot smallint PRIMARY KEY CHECK (slot BETWEEN 0 AND 255),
    state text NOT NULL CHECK (state IN ('owned', 'leaving', 'arriving', 'left')),
    peer text CHECK ((peer IS NULL) = (state = 'owned')),
    -- Each cell that takes a slot has a higher epoch than the one before. Where a restore or a failover made two cells
    -- own a slot, the one with the higher epoch took it later.
    epoch integer NOT NULL CHECK (epoch > 0),
    -- the mark of the move: the copy that counts for it has the same one
    mark uuid CHECK ((mark IS NULL) = (state = 'owned'))
  )`
]
