//! Recordings of runs in virtual time, and what is made of them.

mod perfetto;
mod recorded;
