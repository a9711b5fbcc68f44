//! How CUDA devices are measured and started, and what can be known of them before.
//!
//! Not yet run on hardware.

use std::collections::BTreeMap;
use std::num::NonZeroU8;
use std::sync::Arc;

use punctual_core::BATCH_MAX;
use punctual_device::profile::PRIORITY;
use punctual_device::{DeviceSpec, PartitionSpec, Provider};
use punctual_model::{Footprint, Network, Promises};
use punctual_platform::Doorbell;

use crate::driver::Driver;
use crate::lower::{Program, Target};
use crate::partition::offer::Offer;
use crate::queue::QueueSpec;
use crate::spec::PAGE_BYTES;
use crate::{CudaDevice, CudaSpec, Division, StartError, Watchdog};

/// Starts [`CudaDevice`]s whose partitions are TPCs of one GPU.
#[derive(Clone)]
pub struct CudaProvider {
    pub driver: Driver,
    pub ordinal: u32,
    /// What it is, and how it can be divided.
    pub offer: Offer,
    /// The cores of leaders of partitions that are measured, or busy meanwhile. With fewer than there are partitions, the last
    /// one leads several, whose stages then wait for each other.
    pub leaders: Vec<usize>,
    pub watchdog: Watchdog,
    /// At how many tiles launches look once whether they are preempted. None: as is usual on such a GPU.
    pub look_stride: Option<NonZeroU8>,
}

impl Provider for CudaProvider {
    type Device = CudaDevice;
    type Error = StartError;

    const UNIT: &'static str = "TPC";

    /// A stage stops at its next block or tile. How long that takes is not known from a run that was
    /// not stopped: profiles give the longest stage.
    const PROMISES: Promises = Promises {
        preemptible: true,
        allocation_free: true,
        pages: true,
    };

    fn machine(&self) -> String {
        self.offer.machine()
    }

    fn clocks(&self) -> String {
        self.offer.clocks()
    }

    fn settings(&self) -> BTreeMap<String, String> {
        self.offer.settings()
    }

    fn look_stride(&self) -> Option<NonZeroU8> {
        self.look_stride
    }

    /// From the first TPC on, each with a leader of its own. If there are too few leaders, the last one gets all
    /// TPCs that are left. With one leader alone the device refuses neighbours, as they could not run at the same time.
    fn partitions(&self, sizes: &[u8]) -> Result<Vec<PartitionSpec>, StartError> {
        let leaders = match self.leaders.len() {
            0 | 1 => vec![self.leaders.first().copied().unwrap_or_default(); sizes.len()],
            _ => self.leaders.clone(),
        };
        let mut end = 0;
        let mut partitions: Vec<PartitionSpec> = Vec::new();
        for (index, &size) in sizes.iter().enumerate() {
            let first = end;
            end += u16::from(size);
            match (leaders.get(index), partitions.last_mut()) {
                (None, Some(last)) => last.tpcs.end = end,
                (leader, _) => partitions.push(PartitionSpec {
                    tpcs: first..end,
                    ..PartitionSpec::on_cores(
                        "profile",
                        leader.copied().into_iter().collect(),
                        Some(PRIORITY),
                    )
                }),
            }
        }
        Ok(partitions)
    }

    fn footprint(
        &self,
        network: &Network,
        batches: &[u8],
        units: u8,
    ) -> Result<Footprint, StartError> {
        let facts = &self.offer.facts;
        let sms = facts.sms_per_tpc() * u32::from(units);
        let target = Target {
            multiprocessors: sms.min(facts.multiprocessors),
            compute_capability: facts.compute_capability,
            page_bytes: PAGE_BYTES,
        };
        let program = Program::lower(network, batches, &target, &[])?;
        let mut workspace = [0; BATCH_MAX];
        for (members, bytes) in (1..).zip(&mut workspace) {
            let lists = program.stages.iter().flat_map(|stage| &stage.lists);
            let up_to = lists.filter(|list| list.batch <= members);
            let largest = up_to.map(|list| list.workspace_bytes).max().unwrap_or(0);
            *bytes = largest * u64::from(CudaSpec::default().workspaces);
        }
        Ok(Footprint {
            weights: program.pages.count() as u64 * u64::from(PAGE_BYTES),
            // A slot a request, as the device aligns them.
            request: program.request_bytes.next_multiple_of(256).max(256),
            workspace,
            output_batches: CudaSpec::default().workspaces,
        })
    }

    fn start(
        &self,
        spec: &DeviceSpec<'_>,
        report: Arc<Doorbell>,
    ) -> Result<CudaDevice, StartError> {
        let gpu = self.driver.device(self.ordinal)?;
        let partitioner = self.offer.partitioner(gpu)?;
        let ranges: Vec<_> = spec.partitions.iter().map(|p| p.tpcs.clone()).collect();
        for range in &ranges {
            // Before anything is taken: the plan is void if it is not granted.
            partitioner.grant(range.clone())?;
        }
        let mut queue = QueueSpec::fitting(gpu)?;
        if let Some(stride) = self.look_stride {
            queue.check_stride = stride.get().into();
        }
        let cuda = CudaSpec {
            ordinal: self.ordinal,
            queue,
            division: Division::Tpcs {
                partitioner: Arc::new(partitioner),
                ranges,
            },
            watchdog: self.watchdog.clone(),
            ..CudaSpec::default()
        };
        CudaDevice::start(self.driver, spec, &cuda, report)
    }
}
