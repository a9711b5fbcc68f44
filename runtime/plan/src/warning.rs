//! What a plan allows, but somebody should know.

use punctual_core::{Nanos, PartitionId, TaskId};
use serde::Serialize;
use thiserror::Error;

/// Something to know about a plan.
#[derive(Clone, Debug, PartialEq, Error, Serialize)]
#[serde(rename_all = "kebab-case", tag = "warning")]
pub enum Warning {
    /// One core for everything.
    #[error(
        "core {core} runs the partitions and the daemon's own threads: a frame's arrival delays \
         the stage that runs; give the daemon two cores"
    )]
    SharedCore {
        /// The core.
        core: u16,
    },
    /// No real-time scheduling.
    #[error(
        "the host does not allow real-time priorities: the schedule holds only while the machine \
         is otherwise idle; grant CAP_SYS_NICE or an rtprio limit"
    )]
    NoRealtime,
    /// A task's clients share one reservation.
    #[error(
        "task {task:?} has {clients} clients that share one rate: frames of different clients \
         closer than {period} count as extra and are taken only while there is slack"
    )]
    SharedRate {
        /// The task's name.
        task: String,
        /// How many clients.
        clients: u16,
        /// The task's period.
        period: Nanos,
    },
    /// Best-effort work on real-time workers.
    #[error(
        "partition {partition:?} runs best-effort tasks on real-time workers: when they fill it, \
         the kernel's real-time throttling (sched_rt_runtime_us) can stop the workers for tens of \
         milliseconds"
    )]
    BestEffortOnRealtimeWorkers {
        /// The partition's name.
        partition: String,
        /// Its id.
        id: PartitionId,
    },
    /// A deeper exit that real-time requests can never reach.
    #[error(
        "task {task:?} can never get past exit {reachable}: the stages to exit {next} take \
         {needed}, and its deadline leaves {available}"
    )]
    UnreachableExit {
        /// The task's name.
        task: String,
        /// Its id.
        id: TaskId,
        /// Deepest exit that fits before the deadline alone.
        reachable: u8,
        /// The first that does not.
        next: u8,
        /// Arrival, dispatch and stages to that exit.
        needed: Nanos,
        /// Deadline less egress.
        available: Nanos,
    },
    /// Nothing uses it.
    #[error("{what} {name:?} is used by no task")]
    Unused {
        /// `model` or `partition`.
        what: &'static str,
        /// Its name.
        name: String,
    },
    /// The crop is magnified.
    #[error(
        "task {task:?}: its crop of {crop_width}x{crop_height} is smaller than the network's \
         input of {input_width}x{input_height} and is magnified"
    )]
    MagnifiedCrop {
        /// The task's name.
        task: String,
        /// Columns of the crop.
        crop_width: u32,
        /// Rows of the crop.
        crop_height: u32,
        /// Columns of the input.
        input_width: u32,
        /// Rows of the input.
        input_height: u32,
    },
    /// A quantile from too few samples.
    #[error(
        "the profile of model {model:?} has only {samples} samples a figure: budgets are made \
         from the longest measurement; profile with {needed} or more"
    )]
    FewSamples {
        /// The model's name.
        model: String,
        /// Fewest samples of a figure.
        samples: u32,
        /// Enough.
        needed: u32,
    },
}
