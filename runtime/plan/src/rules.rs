//! For each cause, the rule as a sentence about what is right, and the way out.

use std::io::ErrorKind;

use crate::cause::Cause;
use crate::document::FILE_BYTES_MAX;
use crate::memory::Bytes;
use crate::spelling::{list, nearest};

impl Cause {
    /// Whether a file is missing, unreadable or damaged, rather than wrong in what it says.
    #[must_use]
    pub const fn is_about_a_file(&self) -> bool {
        matches!(
            self,
            Self::Unreadable { .. }
                | Self::NoSuchBoard { .. }
                | Self::PackageMissing { .. }
                | Self::PackageInvalid { .. }
                | Self::ProfileInvalid { .. }
                | Self::ProfileMissing { .. }
        )
    }

    /// The rule that is broken, as a sentence about what is right.
    #[must_use]
    pub const fn rule(&self) -> &'static str {
        match self {
            Self::Syntax { .. } => "the file is TOML 1.1",
            Self::Unreadable { .. } => "the manifest and every file that it names can be read",
            Self::UnknownKey { .. } => {
                "a key that means nothing is refused, as it may be a misspelt one"
            }
            Self::MissingKey { .. } => "this key has no default",
            Self::WrongType { .. } => "a value has its key's type",
            Self::OutOfRange { .. } => "a number lies in its key's range",
            Self::NotOneOf { .. } => "this key takes one word of a fixed list",
            Self::BadName(_) => {
                "a name is 1 to 64 of the characters a-z, 0-9, - and _, a letter first"
            }
            Self::Duplicate { .. } => "names are unique among their kind",
            Self::NoneGiven(_) => "a plan has at least one model, one partition and one task",
            Self::TooMany { .. } => "all tables have fixed limits",
            Self::Unresolved { .. } => "a name refers to something that the manifest defines",
            Self::SocketPathTooLong { .. } => {
                "a socket's path fits into the kernel's address structure"
            }
            Self::ExactlyOne { .. } => "exactly one of the two keys is given",
            Self::RealTimeNeeds(_) => {
                "a real-time task has a rate and a deadline: they are what is promised"
            }
            Self::UnknownSource(_) => "every figure of a board names its source",
            Self::NoSuchBoard { .. } => "every board has a file that states its facts",
            Self::OtherBoard { .. } => "a manifest runs on the board it was written for",
            Self::CoreMissing { .. } => {
                "partitions and daemon use cores that this process may run on"
            }
            Self::CoreOverlap { .. } => "partitions share no core",
            Self::TooFewCores { .. } => {
                "with two cores or more, the daemon's own threads keep theirs"
            }
            Self::CoreOverloaded { .. } => {
                "real-time load leaves a tenth of each core to ordinary threads"
            }
            Self::PrioritiesExhausted { .. } => {
                "intake < worker < egress < scheduler < ingress < probe, all within 1 to 99"
            }
            Self::CropTooLarge { .. } => "a crop lies inside its frame",
            Self::StrideTooShort { .. } => "a row's bytes fit into the stride",
            Self::OddDimension(_) => {
                "NV12 shares colour between two by two pixels: sizes and strides are even"
            }
            Self::NotASize { .. } => "a size is [width, height] in pixels",
            Self::PackageMissing { .. } | Self::PackageInvalid { .. } => {
                "every model has a readable package"
            }
            Self::ProfileInvalid { .. } => "every profile that is given can be used",
            Self::ProfileMissing { .. } | Self::ProfileMismatch { .. } => {
                "budgets come from measurements of this package on this machine in this power mode"
            }
            Self::StageNotProfiled { .. } => {
                "every stage is measured at every batch size its tasks may use"
            }
            Self::PrepareNotProfiled { .. } => "every task's frame format is measured",
            Self::NoSuchExit { .. } => "the mandatory exit is one of the network's",
            Self::ArrivalTooSlow { .. } => "a frame's input is ready before its deadline (J < D)",
            Self::DeadlineUnreachable { .. } => {
                "a frame alone on the machine is answered in time from its mandatory exit"
            }
            Self::NotForBestEffort(_) => "only real-time tasks are promised anything",
            Self::Unschedulable { .. } | Self::Infeasible { .. } => {
                "dbf(L) + B(L) <= L at every checkpoint L, and utilisation at most 0.999 (policy `punctual`, offline test)"
            }
            Self::QueueTooShort { .. } => {
                "a queue holds every promised frame: ceil((D + J) / T) + 1"
            }
            Self::MemoryExceeded { .. } => "all memory is taken at start, and the board has it",
            Self::SchedulerRefuses { .. } => "the scheduler checks what its own safety rests on",
        }
    }

    /// What to do about it.
    #[must_use]
    pub fn remedy(&self) -> String {
        match self {
            Self::Syntax { .. } => "correct the marked place".into(),
            Self::Unreadable { kind: ErrorKind::FileTooLarge } => format!("reduce it to {}", Bytes(FILE_BYTES_MAX)),
            Self::Unreadable { .. } => "check the path (it is relative to the manifest) and its permissions".into(),
            Self::UnknownKey { key, known } => match nearest(key, known) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("remove it; known here are {}", list(known)),
            },
            Self::MissingKey { .. } => "add the key".into(),
            Self::WrongType { expected, .. } => format!("write {expected}"),
            Self::OutOfRange { least, most, unit, .. } => format!("choose {least} to {most}{unit}"),
            Self::NotOneOf { value, allowed } | Self::Unresolved { name: value, known: allowed, .. } => {
                match nearest(value, allowed) {
                    Some(near) => format!("did you mean {near:?}?"),
                    None if allowed.is_empty() => "define it".into(),
                    None => format!("choose {}", list(allowed)),
                }
            }
            Self::BadName(_) => "choose another name".into(),
            Self::Duplicate { what, .. } => format!("rename or remove one {what}"),
            Self::NoneGiven(what) => format!("add a [[{what}]] table"),
            Self::TooMany { limit, .. } => format!("reduce to {limit}"),
            Self::SocketPathTooLong { .. } => "choose a shorter path, e.g. under /run".into(),
            Self::ExactlyOne { one, other, both: true } => format!("remove `{one}` or `{other}`"),
            Self::ExactlyOne { one, other, both: false } => format!("add `{one}` or `{other}`"),
            Self::RealTimeNeeds(key) => format!("add `{key}`, or set criticality = \"best-effort\""),
            Self::UnknownSource(_) => "list it under [sources], or correct the name".into(),
            Self::NoSuchBoard { board, .. } => format!("use board = \"host\", or put boards/{board}.toml beside the manifest"),
            Self::OtherBoard { board, .. } => format!("set board = {board:?} if the manifest suits it, or use the right one"),
            Self::CoreMissing { .. } => "choose available cores, or widen the process's CPU affinity".into(),
            Self::CoreOverlap { .. } => "give each core to one partition".into(),
            Self::TooFewCores { .. } => {
                "ask for fewer `units`, or name `cores` to share one with the daemon".into()
            }
            Self::CoreOverloaded { .. } => "lower rates, use more cores, or a shallower mandatory exit".into(),
            Self::PrioritiesExhausted { .. } => "lower `daemon.priority`".into(),
            Self::CropTooLarge { .. } => "shrink the crop".into(),
            Self::StrideTooShort { least, .. } => format!("set at least {least}, or leave `stride` out"),
            Self::OddDimension(_) => "use an even number".into(),
            Self::NotASize { .. } => "write [width, height]".into(),
            Self::PackageMissing { .. } | Self::PackageInvalid { .. } => {
                "make it with `punctual compile`".into()
            }
            Self::ProfileInvalid { .. }
            | Self::ProfileMissing { .. }
            | Self::ProfileMismatch { .. }
            | Self::StageNotProfiled { .. }
            | Self::PrepareNotProfiled { .. } => "measure with `punctual profile MANIFEST` on this machine".into(),
            Self::NoSuchExit { last, .. } => format!("choose 0 to {last}"),
            Self::ArrivalTooSlow { .. } => {
                "lower `daemon.channel_us` if the channel is faster, crop less, or give the task more time".into()
            }
            Self::DeadlineUnreachable { .. } => {
                "give the task more time, choose a shallower `mandatory_exit`, or a larger partition".into()
            }
            Self::NotForBestEffort(key) => format!("remove `{key}`"),
            Self::Unschedulable { task, .. } => format!(
                "lower a rate, choose shallower mandatory exits, move a task to another partition, or give {task:?} more time"
            ),
            Self::Infeasible { .. } => {
                "lower a rate, choose shallower mandatory exits, or move a task to another partition".into()
            }
            Self::QueueTooShort { least, .. } => format!("set queue = {least} or more"),
            Self::MemoryExceeded { largest, largest_bytes, .. } => format!(
                "reduce it, or raise `daemon.memory_mb`; the largest part is {largest} with {}",
                Bytes(*largest_bytes)
            ),
            Self::SchedulerRefuses { .. } => "change what it names; please report this, the plan's own rules should say it better".into(),
        }
    }
}
