//! The rules of a plan: each way to break one, with the offending value, the limit, and what to do about it.

use std::path::PathBuf;
use std::sync::Arc;

use punctual_core::offline::Infeasible;
use punctual_core::{ConfigError, Nanos};
use punctual_model::{PackageError, ProfileError};
use punctual_platform::read::Refused;
use punctual_types::Size;
use thiserror::Error;

use crate::frame::FrameCause;
use crate::memory::Bytes;
use crate::spelling::{and_more, list, numbers};

#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum Cause {
    // --- The file itself ---
    #[error("not valid TOML: {}", error.message())]
    Syntax { error: toml::de::Error },
    #[error("cannot read the file: {kind}")]
    Unreadable { kind: std::io::ErrorKind },
    /// A file that is no regular file, or too large.
    #[error("{path} is not read: {1}", path = .0.display())]
    Refused(PathBuf, Refused),
    /// A key that means nothing here.
    #[error("unknown key `{key}`")]
    UnknownKey {
        key: String,
        /// The keys that mean something here.
        known: Vec<&'static str>,
    },
    /// A key that must be there.
    #[error("`{key}` is missing: {expected} is wanted")]
    MissingKey {
        key: &'static str,
        expected: &'static str,
    },
    #[error("expected {expected}, found {found}")]
    WrongType {
        expected: &'static str,
        found: &'static str,
    },
    #[error("{value}{unit} is not within {least}{unit} to {most}{unit}")]
    OutOfRange {
        value: f64,
        least: f64,
        most: f64,
        /// Of all three, with a leading space, or empty.
        unit: &'static str,
    },
    /// A word that is not in the list.
    #[error("{value:?} is not one of {}", list(allowed))]
    NotOneOf { value: String, allowed: Vec<String> },
    /// A policy's parameters make no sense.
    #[error("the policy's parameters: {error}")]
    PolicyParameters { error: String },
    /// A policy that is here for comparison only.
    #[error("policy {policy:?} is a published one, for comparison")]
    PublishedPolicy { policy: String },
    /// The device cannot do what the policy relies on.
    #[error("policy {policy:?} runs several networks on the same cores at the same time")]
    PolicyShares { policy: &'static str },
    #[error("{0:?} is not a name")]
    BadName(String),
    #[error("the {what} {name:?} is defined twice")]
    Duplicate { what: &'static str, name: String },
    #[error("no [[{0}]] at all")]
    NoneGiven(&'static str),
    /// More than there is room for.
    #[error("{count} {what}, more than {limit}")]
    TooMany {
        what: &'static str,
        count: u64,
        limit: u64,
    },
    /// A name that stands for nothing.
    #[error("there is no {what} {name:?}, only {}", list(known))]
    Unresolved {
        what: &'static str,
        name: String,
        known: Vec<String>,
    },
    /// Two keys of which one must be given.
    #[error("`{one}` and `{other}` are both {}", if *both { "given" } else { "missing" })]
    ExactlyOne {
        one: &'static str,
        other: &'static str,
        /// Whether both are there, or neither.
        both: bool,
    },
    /// A key that promises something to a best-effort task.
    #[error("`{0}` of a best-effort task")]
    NotForBestEffort(&'static str),
    /// A key that the task's criticality needs.
    #[error("a real-time task without `{0}`")]
    RealTimeNeeds(&'static str),
    // --- Board, cores, threads ---
    #[error("the source {0:?} is not listed under [sources]")]
    UnknownSource(String),
    /// A board of which there is no file.
    #[error("board {board:?} is not part of the program, and its file cannot be read: {kind}")]
    NoSuchBoard {
        board: String,
        kind: std::io::ErrorKind,
    },
    #[error("the manifest is for board {manifest:?}, this is {board:?}")]
    OtherBoard { manifest: String, board: String },
    /// A core that is not there, or not ours.
    #[error("core {core} is not available; available are {}", numbers(available))]
    CoreMissing { core: u64, available: Vec<u16> },
    #[error("core {core} belongs to partition {other:?} already")]
    CoreOverlap { core: u16, other: String },
    #[error("{asked} cores wanted, {free} left of {}; the daemon's own are {system}", available.len())]
    TooFewCores {
        asked: u64,
        free: usize,
        available: Vec<u16>,
        /// How many of them are the daemon's own.
        system: usize,
    },
    /// Real-time load beyond what a core can bear.
    #[error("real-time load of core {core} is {:.1}%, more than {:.0}%", load * 100.0, limit * 100.0)]
    CoreOverloaded {
        core: u16,
        /// Its load, 1 being all of it.
        load: f64,
        limit: f64,
    },
    #[error("the plan needs {needed} priorities from {base} on, and the highest is {most}")]
    PrioritiesExhausted { base: u8, needed: usize, most: u8 },
    // --- Packages and profiles ---
    /// No package was given for a model.
    #[error("the package {path:?} was not read")]
    PackageMissing { path: String },
    /// The package file is damaged, or not one.
    #[error("the package cannot be used: {error}")]
    PackageInvalid { error: Arc<PackageError> },
    /// The network reads text, and a camera gives images.
    #[error("model {model:?} takes {tokens} tokens, not an image")]
    TokenInput { model: String, tokens: u32 },
    /// The profile's file is damaged, or not one.
    #[error("the profile {path:?} cannot be used: {error}")]
    ProfileInvalid {
        path: PathBuf,
        error: Arc<ProfileError>,
    },
    #[error("model {model:?} has no profile (package {package})")]
    ProfileMissing { model: String, package: String },
    /// Measured elsewhere, or in another state.
    #[error("the profile of model {model:?} is for {field} {found:?}, not {wanted:?}")]
    ProfileMismatch {
        model: String,
        field: &'static str,
        found: String,
        /// What it is to hold for.
        wanted: String,
    },
    #[error("the profile of model {model:?} lacks stage {stage}, batch {batch}, {units} unit(s){}", and_more(*more))]
    StageNotProfiled {
        model: String,
        stage: u8,
        batch: u8,
        units: u8,
        /// How many more figures it lacks.
        more: usize,
    },
    /// A frame format without a figure.
    #[error("the profile of model {model:?} lacks preparing {format} {frame} cropped to {crop}")]
    PrepareNotProfiled {
        model: String,
        format: &'static str,
        frame: Size,
        /// The part that the network sees.
        crop: Size,
    },
    /// An exit that the network does not have.
    #[error("exit {exit} of a network with exits 0 to {last}")]
    NoSuchExit { exit: u64, last: u8 },
    // --- Promises ---
    /// A frame could be older than its deadline before its input is ready.
    #[error(
        "arrival alone can take {jitter} (channel {channel}, preparation {prepare}), and the \
             deadline less the reply's {egress} is {available}"
    )]
    ArrivalTooSlow {
        jitter: Nanos,
        channel: Nanos,
        prepare: Nanos,
        egress: Nanos,
        available: Nanos,
    },
    /// Not on time even on an idle machine.
    #[error(
        "the mandatory part takes {needed} (arrival {jitter}, stages to exit {exit} {work}), \
             and the deadline less the reply's {egress} is {available}"
    )]
    DeadlineUnreachable {
        needed: Nanos,
        jitter: Nanos,
        work: Nanos,
        exit: u8,
        egress: Nanos,
        available: Nanos,
    },
    /// The offline test failed at a checkpoint.
    #[error(
        "partition {partition:?} cannot keep all its promises: within {length}, where task \
             {task:?} is due, the mandatory work due is {demand} and the blocking {blocking}"
    )]
    Unschedulable {
        partition: String,
        /// The task whose deadline falls on the checkpoint.
        task: String,
        length: Nanos,
        demand: Nanos,
        blocking: Nanos,
    },
    /// The offline test failed before any checkpoint.
    #[error("partition {partition:?} cannot keep all its promises: {reason}")]
    Infeasible {
        partition: String,
        reason: Infeasible,
    },
    /// Less room than the promised frames take.
    #[error("a queue of {queue} is shorter than the {least} frames that can be open at once")]
    QueueTooShort { queue: u16, least: u64 },
    #[error("the plan takes {} of memory, more than {}", Bytes(*total), Bytes(*limit))]
    MemoryExceeded {
        total: u64,
        limit: u64,
        /// The largest item, with its size.
        largest: String,
    },
    /// The scheduler found something that the rules above did not.
    #[error("the scheduler refuses the plan: {error}")]
    SchedulerRefuses { error: ConfigError },
    /// A rule of the daemon's door.
    #[error(transparent)]
    Door(crate::door::DoorCause),
    #[error(transparent)]
    Frame(FrameCause),
    /// A rule of the cache of weights.
    #[error(transparent)]
    Paging(crate::paging::PagingCause),
    /// A rule of partitions of the GPU.
    #[error(transparent)]
    Gpu(crate::gpu::GpuCause),
    /// A rule of tasks that take on another's frames.
    #[error(transparent)]
    Spill(crate::spill::SpillCause),
    #[error("{0}")]
    Other(Arc<dyn Rule>),
}

/// What is wrong with a file of a format that this crate does not know.
pub trait Rule: std::fmt::Debug + std::fmt::Display + Send + Sync {
    /// The rule that is broken, as a sentence about what is right.
    fn rule(&self) -> &'static str;

    /// What to do.
    fn remedy(&self) -> String;
}
