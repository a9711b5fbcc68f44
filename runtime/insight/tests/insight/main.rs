//! Recordings of runs in virtual time, and what is made of them.

mod field;
mod perfetto;
mod picture;
mod recorded;
