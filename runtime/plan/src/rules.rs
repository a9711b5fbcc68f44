//! For each cause, the rule as a sentence about what is right, and the way out.

use punctual_platform::read::Refused;

use crate::cause::Cause;
use crate::frame::FrameCause;
use crate::memory::Bytes;
use crate::spelling::{list, nearest};

impl Cause {
    /// Whether a file is missing, unreadable or damaged, rather than wrong in what it says.
    #[must_use]
    pub const fn is_about_a_file(&self) -> bool {
        matches!(
            self,
            Self::Unreadable { .. }
                | Self::Refused(..)
                | Self::NoSuchBoard { .. }
                | Self::PackageMissing { .. }
                | Self::PackageInvalid { .. }
                | Self::ProfileInvalid { .. }
                | Self::ProfileMissing { .. }
        )
    }

    /// The rule that is broken, as a sentence about what is right.
    #[must_use]
    pub fn rule(&self) -> &'static str {
        match self {
            Self::Syntax { .. } => "the file is TOML 1.1",
            Self::Unreadable { .. } => "the file and every file that it names can be read",
            Self::Refused(..) => REGULAR,
            Self::UnknownKey { .. } => "a key that means nothing is refused: it may be misspelt",
            Self::MissingKey { .. } => "this key has no default",
            Self::WrongType { .. } => "a value has its key's type",
            Self::OutOfRange { .. } => "a number lies in its key's range",
            Self::NotOneOf { .. } => "this key takes one word of a fixed list",
            Self::PolicyParameters { .. } => "a policy takes its own parameters only",
            Self::PublishedPolicy { .. } => "a daemon serves by a policy that ships with it",
            Self::PolicyShares { .. } => "the CPU device runs one action at a time on a core",
            Self::BadName(_) => "a name is 1 to 64 of a-z, 0-9, - and _, a letter first",
            Self::Duplicate { .. } => "names are unique among their kind",
            Self::NoneGiven(_) => "at least one of these is needed",
            Self::TooMany { .. } => "all tables have fixed limits",
            Self::Unresolved { .. } => "a name refers to something that the file defines",
            Self::ExactlyOne { .. } => "exactly one of the two keys is given",
            Self::RealTimeNeeds(_) => "a real-time task is promised a rate and a deadline",
            Self::UnknownSource(_) => "every figure of a board names its source",
            Self::NoSuchBoard { .. } => "every board has a file that states its facts",
            Self::OtherBoard { .. } => "a manifest runs on the board it was written for",
            Self::CoreMissing { .. } => "all cores are such that this process may run on",
            Self::CoreOverlap { .. } => "partitions share no core",
            Self::TooFewCores { .. } => "with two cores or more, the daemon keeps its own",
            Self::CoreOverloaded { .. } => "ordinary threads are left a tenth of each core",
            Self::PrioritiesExhausted { .. } => PRIORITIES,
            Self::Frame(FrameCause::CropTooLarge { .. }) => "a crop lies inside its frame",
            Self::Frame(FrameCause::StrideTooShort { .. }) => "a row's bytes fit into the stride",
            Self::Frame(FrameCause::OddDimension(_)) => {
                "sizes are even where two pixels share a colour: NV12's, and YUYV's in a row"
            }
            Self::Frame(FrameCause::NotASize { .. }) => "a size is [width, height] in pixels",
            Self::PackageMissing { .. } => "every model has a package",
            Self::PackageInvalid { .. } => "every model's package can be used",
            Self::TokenInput { .. } => "a camera's model takes images",
            Self::ProfileInvalid { .. } => "every profile that is given can be used",
            Self::ProfileMissing { .. } | Self::ProfileMismatch { .. } => MEASURED,
            Self::StageNotProfiled { .. } => "all stages are measured at all batch sizes in use",
            Self::PrepareNotProfiled { .. } => "every task's frame format is measured",
            Self::NoSuchExit { .. } => "an exit is one of the network's",
            Self::ArrivalTooSlow { .. } => "a frame's input is ready before its deadline (J < D)",
            Self::DeadlineUnreachable { .. } => "a frame alone on the machine is on time",
            Self::NotForBestEffort(_) => "only real-time tasks are promised anything",
            Self::Unschedulable { .. } | Self::Infeasible { .. } => OFFLINE_TEST,
            Self::QueueTooShort { .. } => "a queue holds ceil((D + J) / T) + 1 promised frames",
            Self::MemoryExceeded { .. } => "all memory is taken at start, and the board has it",
            Self::SchedulerRefuses { .. } => "the scheduler checks what its own safety rests on",
            Self::Door(cause) => cause.rule(),
            Self::Paging(cause) => cause.rule(),
            Self::Gpu(cause) => cause.rule(),
            Self::Spill(cause) => cause.rule(),
            Self::Other(cause) => cause.rule(),
        }
    }

    #[must_use]
    pub fn remedy(&self) -> String {
        match self {
            Self::Syntax { .. } => "correct the marked place".into(),
            Self::Unreadable { .. } => "check its path and its permissions".into(),
            Self::Refused(_, refused) => another(*refused),
            Self::UnknownKey { key, known } => known_key(key, known),
            Self::MissingKey { .. } => "add the key".into(),
            Self::WrongType { expected, .. } => format!("write {expected}"),
            Self::OutOfRange {
                least, most, unit, ..
            } => format!("choose {least} to {most}{unit}"),
            Self::NotOneOf { value, allowed } => one_of(value, allowed),
            Self::PolicyParameters { .. } => "see the parameters of the policy".into(),
            Self::PublishedPolicy { .. } => {
                "choose `punctual` or `seeb`; or run `punctual-lab daemon`, which knows this one"
                    .into()
            }
            Self::PolicyShares { .. } => {
                "choose another policy; `punctual simulate` knows this one".into()
            }
            Self::BadName(_) => "choose another name".into(),
            Self::Duplicate { what, .. } => format!("rename or remove one {what}"),
            Self::NoneGiven(what) => format!("add a [[{what}]] table"),
            Self::TooMany { limit, .. } => format!("reduce to {limit}"),
            Self::Unresolved { name, known, .. } => one_of(name, known),
            Self::ExactlyOne { one, other, both } => {
                format!(
                    "{} `{one}` or `{other}`",
                    if *both { "remove" } else { "add" }
                )
            }
            Self::NotForBestEffort(key) => format!("remove `{key}`"),
            Self::RealTimeNeeds(key) => format!("add `{key}`, or make it \"best-effort\""),
            Self::UnknownSource(_) => "list it under [sources], or correct the name".into(),
            Self::NoSuchBoard { board, .. } => {
                format!("use \"host\", or write boards/{board}.toml")
            }
            Self::OtherBoard { board, .. } => format!("set board = {board:?} if all else suits it"),
            Self::CoreMissing { .. } => "choose available cores, or widen the affinity".into(),
            Self::CoreOverlap { .. } => "give each core to one partition".into(),
            Self::TooFewCores { .. } => "lower `units`, or name `cores` to share one".into(),
            Self::CoreOverloaded { .. } => LESS_LOAD.into(),
            Self::PrioritiesExhausted { .. } => "lower `daemon.priority`".into(),
            Self::Frame(FrameCause::CropTooLarge { .. }) => "shrink the crop".into(),
            Self::Frame(FrameCause::StrideTooShort { least, .. }) => {
                format!("set at least {least}, or leave it out")
            }
            Self::Frame(FrameCause::OddDimension(_)) => "use an even number".into(),
            Self::Frame(FrameCause::NotASize { .. }) => "write [width, height]".into(),
            Self::PackageMissing { .. } => "make it with `punctual compile`".into(),
            Self::PackageInvalid { .. } => "make it again with `punctual compile`".into(),
            Self::TokenInput { .. } => "run it by `punctual_device_cpu::Evaluator`".into(),
            Self::ProfileInvalid { .. }
            | Self::ProfileMissing { .. }
            | Self::ProfileMismatch { .. }
            | Self::StageNotProfiled { .. }
            | Self::PrepareNotProfiled { .. } => MEASURE.into(),
            Self::NoSuchExit { last, .. } => format!("choose 0 to {last}"),
            Self::ArrivalTooSlow { .. } => SOONER.into(),
            Self::DeadlineUnreachable { .. } => MORE_TIME.into(),
            Self::Unschedulable { task, .. } => format!("give {task:?} more time, {LESS_LOAD}"),
            Self::Infeasible { .. } => LESS_LOAD.into(),
            Self::QueueTooShort { least, .. } => format!("set queue = {least} or more"),
            Self::MemoryExceeded { largest, .. } => {
                format!("take less, most of all {largest}, or raise `daemon.memory_mb`")
            }
            Self::SchedulerRefuses { .. } => REPORT.into(),
            Self::Door(cause) => cause.remedy(),
            Self::Paging(cause) => cause.remedy(),
            Self::Gpu(cause) => cause.remedy(),
            Self::Spill(cause) => cause.remedy(),
            Self::Other(cause) => cause.remedy(),
        }
    }
}

const REGULAR: &str =
    "files are regular and of bounded size: others may have no end, or be waited for for ever";
const PRIORITIES: &str = "intake, worker < egress < scheduler < ingress < probe, within 1 to 99";
const MEASURED: &str =
    "budgets come from measurements of this package on this machine in this power mode";
const OFFLINE_TEST: &str = "dbf(L) + B(L) <= L at every checkpoint L, and utilisation at most \
                            0.999 (policy `punctual`, offline test)";

const MEASURE: &str = "measure with `punctual profile MANIFEST` on this machine";
const LESS_LOAD: &str =
    "lower rates, choose shallower mandatory exits, or use more cores or partitions";
const SOONER: &str =
    "lower `daemon.channel_us` if the channel is faster, crop less, or give the task more time";
const MORE_TIME: &str =
    "give the task more time, choose a shallower `mandatory_exit`, or a larger partition";
const REPORT: &str =
    "change what it names; please report this, the plan's own rules should say it better";

fn another(refused: Refused) -> String {
    match refused {
        Refused::TooLarge { limit, .. } => format!("reduce it to {}", Bytes(limit)),
        Refused::NotRegular { .. } => "name a regular file".into(),
    }
}

fn known_key(key: &str, known: &[&str]) -> String {
    match nearest(key, known) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("remove it; known here are {}", list(known)),
    }
}

fn one_of(word: &str, known: &[String]) -> String {
    match nearest(word, known) {
        Some(near) => format!("did you mean {near:?}?"),
        None if known.is_empty() => "define it".into(),
        None => format!("choose {}", list(known)),
    }
}
