//! What a plan is made from. Everything is an argument; nothing here looks at the machine.

use std::path::PathBuf;
use std::sync::Arc;

use punctual_model::{ImageLayout, Package, PackageError, Profile, ProfileError};

use crate::board::Board;

/// All that [`Plan::build`](crate::Plan::build) looks at.
#[derive(Clone, Debug)]
pub struct PlanInputs {
    /// The manifest's text.
    pub manifest_text: String,
    /// Where it came from: named in messages; paths in it are relative to its folder.
    pub manifest_path: PathBuf,
    /// The board, whose name the manifest must say.
    pub board: Board,
    /// This machine.
    pub host: Host,
    /// The packages that the manifest names.
    pub packages: Vec<PackageInput>,
    /// Profiles to choose from, by the hash of the package in their keys.
    pub profiles: Vec<ProfileInput>,
}

/// A package file that was read.
#[derive(Clone, Debug)]
pub struct PackageInput {
    /// As the manifest writes it.
    pub path: String,
    /// Its content, or why there is none.
    pub package: Result<Package, Arc<PackageError>>,
    /// How this machine's device lays the network out. Without it, memory is bounded from above.
    pub layout: Option<ImageLayout>,
}

/// A profile file that was read.
#[derive(Clone, Debug)]
pub struct ProfileInput {
    /// Where it lies: named in messages.
    pub path: PathBuf,
    /// Its content, or why there is none.
    pub profile: Result<Profile, Arc<ProfileError>>,
}

/// What the machine has and allows, as somebody found out who may ask it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// Cores that this process may use, rising.
    pub cores: Vec<u16>,
    /// Memory that may be taken, in bytes.
    pub memory_bytes: u64,
    /// Whether real-time priorities can be had.
    pub realtime: bool,
    /// Processor model and instruction set, as in
    /// [`ProfileKey::machine`](punctual_model::ProfileKey::machine).
    pub machine: String,
    /// What governs its clocks, as in [`ProfileKey::clocks`](punctual_model::ProfileKey::clocks).
    pub clocks: String,
    /// Floats of the vectors that its kernels have.
    pub lanes: u8,
    /// Bytes of this program and its libraries in memory, all pages of them.
    pub program_bytes: u64,
}
