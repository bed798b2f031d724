/** Shared memory in files of the data directory: that of a killed server would remain in /dev/shm. */
export const settings = { fsync: "off", dynamic_shared_memory_type: "mmap" }
