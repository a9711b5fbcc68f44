//! What attentions are made of.

/// Most channels of a head, of the query's and of the value's.
pub const HEAD_CHANNELS_MAX: u32 = 128;
