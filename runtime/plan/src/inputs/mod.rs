//! What a plan is made from. Everything is an argument; nothing here looks at the machine.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use punctual_model::{Footprint, ImageLayout, Package, PackageError, Promises};

use crate::manifest::LeaderWait;
use crate::versions::Choice;

mod accounts;
mod board;
mod device;
mod policy;
mod profile;

pub use accounts::Accounts;
pub(crate) use board::RECALLED;
pub use board::{Board, Difference, Fact, Gpu, PowerMode, Releases, Source, UnknownSource};
pub use device::DeviceKind;
pub use policy::{PUBLISHED, Policies, PolicyChoice, PolicyRule, WrittenPolicyError};
pub(crate) use profile::Conditions;
pub use profile::{Candidate, Nearness, ProfileInput};

/// Batch sizes that packages are compiled and profiled for.
pub const BATCH_SIZES: [u8; 4] = [1, 2, 4, 8];

const _: () = assert!(BATCH_SIZES[BATCH_SIZES.len() - 1] as usize <= punctual_core::BATCH_MAX);

/// All that [`Plan::build`](crate::Plan::build) looks at.
#[derive(Clone, Debug)]
pub struct PlanInputs {
    pub manifest_text: String,
    /// Where it came from: named in messages; paths in it are relative to its folder.
    pub manifest_path: PathBuf,
    /// The board, whose name the manifest must say.
    pub board: Board,
    /// Whether the plan is for that board whatever the manifest says.
    pub board_is_asked: bool,
    pub host: Host,
    /// The policies that the manifest may name.
    pub policies: Policies,
    /// The packages that the manifest names.
    pub packages: Vec<PackageInput>,
    /// Profiles to choose from, by their keys.
    pub profiles: Vec<ProfileInput>,
}

impl EngineHost {
    /// Its name in profiles that were measured with such leaders.
    pub(crate) fn machine(&self, wait: LeaderWait) -> &str {
        match wait {
            LeaderWait::Spin => &self.machine,
            LeaderWait::Sleep => &self.machine_asleep,
        }
    }
}

impl GpuHost {
    /// Its name in profiles that were measured with such leaders.
    pub(crate) fn machine(&self, wait: LeaderWait) -> &str {
        match wait {
            LeaderWait::Spin => &self.machine,
            LeaderWait::Sleep => &self.machine_asleep,
        }
    }
}

impl PlanInputs {
    /// The GPU, if the board has one and the machine offers it.
    pub(crate) fn gpu(&self) -> Option<&GpuHost> {
        self.board.gpu.as_ref()?;
        self.host.gpu.as_ref()
    }

    /// An engine on the GPU, if this machine has it.
    pub(crate) fn engine(&self, device: DeviceKind) -> Option<&EngineHost> {
        self.gpu()?.engines.get(&device)?.as_ref().ok()
    }
}

/// A package file that was read.
#[derive(Clone, Debug)]
pub struct PackageInput {
    /// As the manifest has it.
    pub path: String,
    /// Where that is a folder of versions: the one that is taken.
    pub version: Option<Choice>,
    /// Its content, or why there is none.
    pub package: Result<Package, Arc<PackageError>>,
    /// How this machine's device lays the network out. Without it, memory is bounded from above.
    pub layout: Option<ImageLayout>,
    /// What it takes on other devices of this machine than the processor's cores; not of those where
    /// it cannot run, or that were not asked for. Needed of those where one of its tasks runs by the plan.
    pub footprints: BTreeMap<DeviceKind, Footprint>,
}

impl PackageInput {
    /// The file, as a path of the manifest.
    #[must_use]
    pub fn file(&self) -> &str {
        let version = self.version.as_ref();
        version.map_or(&self.path, |version| &version.file)
    }
}

/// What the machine has and allows, as somebody found out who may ask it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    pub cores: HostCores,
    /// Memory that may be taken, in bytes.
    pub memory_bytes: u64,
    /// Whether real-time priorities are available.
    pub realtime: bool,
    /// Processor model and instruction set, as in
    /// [`ProfileKey::machine`](punctual_model::ProfileKey::machine).
    pub machine: String,
    /// What governs its clocks, as in [`ProfileKey::clocks`](punctual_model::ProfileKey::clocks).
    pub clocks: String,
    /// What its speed depends on, as in [`Profile::settings`].
    pub settings: BTreeMap<String, String>,
    /// Floats of the vectors that its kernels have.
    pub lanes: u8,
    /// Bytes of this program and its libraries in memory, all pages of them.
    pub program_bytes: u64,
    /// Its users and groups, for those that a manifest names.
    pub accounts: Accounts,
    /// The GPU, if it can be used and a plan may ask for a part of it.
    pub gpu: Option<GpuHost>,
    /// ONNX Runtime, or why it cannot be used.
    pub ort: Result<OrtHost, String>,
}

/// The cores of a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostCores {
    /// Those that this process may use, rising.
    pub available: Vec<u16>,
    /// Of those, the ones that the kernel keeps other programs from (`isolcpus=`).
    pub isolated: Vec<u16>,
}

/// ONNX Runtime as it was loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrtHost {
    /// Its name and version.
    pub library: String,
    /// Processor and library, as in
    /// [`ProfileKey::machine`](punctual_model::ProfileKey::machine) of what is measured with it.
    pub machine: String,
    pub promises: Promises,
}

/// A GPU as its driver and the mechanism for partitions offer it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GpuHost {
    /// Its name, compute capability, multiprocessors, driver, and the mechanism for partitions:
    /// [`ProfileKey::machine`](punctual_model::ProfileKey::machine) of what is measured on it.
    pub machine: String,
    /// The same with leaders that sleep: stages end later then.
    pub machine_asleep: String,
    /// What governs its clocks, as in
    /// [`ProfileKey::clocks`](punctual_model::ProfileKey::clocks).
    pub clocks: String,
    /// What its speed depends on, as in [`Profile::settings`].
    pub settings: BTreeMap<String, String>,
    /// TPCs that partitions can be made of.
    pub tpcs: u16,
    /// They are granted in multiples of this many.
    pub granularity: u16,
    /// Whether the mechanism keeps each partition to its TPCs; if not, they only differ in priority.
    pub enforced: bool,
    /// Whether a stream's TPCs can be changed from one stage to the next, as masks can.
    pub redivides: bool,
    pub mechanism: String,
    /// Memory of its own that may be taken, in bytes; of no account if it is integrated.
    pub memory_bytes: u64,
    /// Whether it shares the processor's memory.
    pub integrated: bool,
    /// Bytes of a page of weights.
    pub page_bytes: u64,
    /// Engines of others on it that the manifest asks for, or why one cannot be used.
    pub engines: BTreeMap<DeviceKind, Result<EngineHost, String>>,
}

/// An engine of others on the GPU, as it was loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineHost {
    /// Its name and version.
    pub library: String,
    /// GPU, library and provider, as in
    /// [`ProfileKey::machine`](punctual_model::ProfileKey::machine) of what is measured with it.
    pub machine: String,
    /// The same with leaders that sleep.
    pub machine_asleep: String,
    pub promises: Promises,
}
