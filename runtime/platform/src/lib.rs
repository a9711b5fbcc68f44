//! Operating-system facilities: real-time threads, memory locks, shared memory, futex, clocks, the sealed allocator.
