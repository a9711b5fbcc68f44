//! What a recording shows.
#![forbid(unsafe_code)]
