//! What went wrong in a kernel, and where.

use std::fmt;

use thiserror::Error;

/// What an instruction did that it must not.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Violation {
    #[error("{bytes} bytes at {address:#x} are in no allocation that the device may access")]
    Foreign { address: u64, bytes: u32 },
    #[error("{bytes} bytes at {address:#x} are not aligned")]
    Misaligned { address: u64, bytes: u32 },
    #[error("{name} was never written by this thread")]
    UninitialisedRegister { name: String },
    #[error("nobody wrote the byte at {address:#x} of device memory since it was allocated")]
    UninitialisedGlobal { address: u64 },
    #[error("nobody wrote byte {offset} of shared memory in this block")]
    UninitialisedShared { offset: u32 },
    #[error("bytes {offset} to {end} of shared memory, of which there are {size}")]
    OutsideShared { offset: u64, end: u64, size: u32 },
    #[error("bytes {offset} to {end} of the parameters, of which there are {size}")]
    OutsideParameters { offset: u64, end: u64, size: u32 },
    #[error(
        "thread {other} accessed byte {offset} of shared memory too, with no barrier between, and one of them wrote"
    )]
    Race { offset: u32, other: u32 },
    #[error("more than one thread read byte {offset} of shared memory, with no barrier between")]
    RaceWithReaders { offset: u32 },
    #[error(
        "byte {offset} of shared memory is the target of an asynchronous copy that was not waited for"
    )]
    InFlight { offset: u32 },
    #[error("the byte at {address:#x} was written before in this launch")]
    WrittenTwice { address: u64 },
    #[error(
        "the byte at {address:#x} was written in this launch: after an eviction it would not be what it was"
    )]
    ReadsOwnOutput { address: u64 },
    #[error(
        "the byte at {address:#x} was read in this launch: after an eviction it would not be what it was"
    )]
    WritesOwnInput { address: u64 },
    #[error("lanes {here:#010x} wait here, and lanes {elsewhere:#010x} at line {line}")]
    Divergent {
        here: u32,
        elsewhere: u32,
        line: u32,
    },
    #[error("lanes {missing:#010x} are wanted here, but have ended or do not exist")]
    EndedLanes { missing: u32 },
    #[error("a warp of the block waits at line {line}, not here")]
    DivergentBarrier { line: u32 },
    #[error("a thread of the block has ended, and another waits for it here")]
    EndedAtBarrier,
    #[error("lanes {lanes:#010x} are here, but not among those that are to exchange")]
    NotMembers { lanes: u32 },
    #[error("lane {lane} is not among those that exchange here")]
    AbsentLane { lane: u32 },
    #[error("a division by zero")]
    DivisionByZero,
}

impl Violation {
    /// Whether a GPU ends the launch for it with an illegal address, as opposed to going on with wrong results.
    #[must_use]
    pub fn is_illegal_address(&self) -> bool {
        matches!(self, Self::Foreign { .. } | Self::OutsideShared { .. })
    }
}

/// A violation, and the instruction that it is of.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub struct Fault {
    pub kernel: String,
    pub block: [u32; 3],
    pub thread: [u32; 3],
    /// Of the PTX.
    pub line: u32,
    pub instruction: String,
    pub violation: Violation,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            kernel,
            block: [bx, by, bz],
            thread: [tx, ty, tz],
            line,
            instruction,
            violation,
        } = self;
        write!(
            f,
            "{kernel}, block ({bx}, {by}, {bz}), thread ({tx}, {ty}, {tz}), line {line} `{instruction}`: {violation}"
        )
    }
}

/// Why a block did not run to its end.
#[derive(Debug, Error)]
pub enum Stop {
    #[error(transparent)]
    Fault(Box<Fault>),
    /// The code that watches the launch ended it.
    #[error("the launch was ended")]
    Ended,
}
