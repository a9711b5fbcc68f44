//! A kind of device: what it promises, what it takes, how it is measured and started.

use std::collections::BTreeMap;
use std::num::NonZeroU8;
use std::sync::Arc;

use punctual_model::reference::agreement::Precision;
use punctual_model::{Footprint, LaunchProfile, Network, Promises, SolutionChoice};
use punctual_platform::Doorbell;

use crate::profile::{Request, Subject};
use crate::shell::HostedDevice;
use crate::spec::{DeviceSpec, PartitionSpec};

/// Starts devices of one kind, and says what can be known of them before.
pub trait Provider {
    /// What it starts.
    type Device: HostedDevice;

    /// Why it cannot.
    type Error;

    /// A compute unit, for people: `core`, `TPC`.
    const UNIT: &'static str;

    /// What its devices can be relied upon for.
    const PROMISES: Promises;

    /// How its devices keep values between operators.
    const PRECISION: Precision = Precision::Single;

    /// Whether its devices overwrite memory for verification
    /// ([`ModelSpec::poisoned`](crate::ModelSpec::poisoned)).
    const POISONS: bool = false;

    /// What is measured, for the key of a profile: [`ProfileKey::machine`](punctual_model::ProfileKey::machine).
    fn machine(&self) -> String;

    /// What governs its clocks: [`ProfileKey::clocks`](punctual_model::ProfileKey::clocks).
    fn clocks(&self) -> String;

    /// The settings that its speed depends on: [`Profile::settings`](punctual_model::Profile::settings). None: they are not
    /// known.
    fn settings(&self) -> BTreeMap<String, String> {
        BTreeMap::new()
    }

    /// At how many tiles launches look once whether they are preempted, where that was chosen for it:
    /// [`Profile::look_stride`](punctual_model::Profile::look_stride).
    fn look_stride(&self) -> Option<NonZeroU8> {
        None
    }

    /// Disjoint partitions with these numbers of units. The first will be measured; the others may be kept busy meanwhile.
    ///
    /// # Errors
    /// When there are none of these sizes.
    fn partitions(&self, sizes: &[u8]) -> Result<Vec<PartitionSpec>, Self::Error>;

    /// What a network takes on partitions of up to `units` units.
    ///
    /// # Errors
    /// When the device cannot run it.
    fn footprint(
        &self,
        network: &Network,
        batches: &[u8],
        units: u8,
    ) -> Result<Footprint, Self::Error>;

    /// The choices that are made by measuring and that profiles keep, for the partition sizes of a
    /// request; `progress` is told each. None: the device leaves nothing to be chosen.
    ///
    /// # Errors
    /// When nothing can be measured.
    fn choose(
        &self,
        network: &Network,
        request: &Request,
        progress: &mut dyn FnMut(u8),
    ) -> Result<Vec<SolutionChoice>, Self::Error> {
        let _ = (network, request, progress);
        Ok(Vec::new())
    }

    /// How long each launch of the network's stages takes alone, at the sizes of a request. None: its stages consist of no
    /// launches.
    ///
    /// # Errors
    /// When nothing can be measured.
    fn launches(
        &self,
        subject: Subject<'_>,
        request: &Request,
    ) -> Result<Vec<LaunchProfile>, Self::Error> {
        let _ = (subject, request);
        Ok(Vec::new())
    }

    /// A device that is ready; it rings `report` after each event.
    ///
    /// # Errors
    /// When it cannot be started; a privilege that is missing is no error ([`Shell::missing`](crate::shell::Shell::missing)).
    fn start(
        &self,
        spec: &DeviceSpec<'_>,
        report: Arc<Doorbell>,
    ) -> Result<Self::Device, Self::Error>;
}
