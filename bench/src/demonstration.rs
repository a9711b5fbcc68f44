//! The demonstration networks, as packages. They are part of this program, so that it needs no source tree.

pub static SIGNS: &[u8] = include_bytes!("../../models/signs/signs.punctual");
pub static STREETS: &[u8] = include_bytes!("../../models/streets/streets.punctual");
