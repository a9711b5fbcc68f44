//! The shared-memory channel: layout, rings, slots, handshake.
