//! How CUDA devices are measured and started, and what can be known of them before.

use std::collections::BTreeMap;
use std::num::NonZeroU8;
use std::sync::Arc;

use punctual_core::BATCH_MAX;
use punctual_device::pool::Wait;
use punctual_device::profile::{self, PRIORITY, Request};
use punctual_device::{DeviceSpec, ModelSpec, PartitionSpec, Provider};
use punctual_model::reference::agreement::Precision;
use punctual_model::{Footprint, LaunchProfile, Network, Promises};
use punctual_platform::Doorbell;

use crate::driver::{Context, Driver};
use crate::kernel_padding::KernelPaddingSpec;
use crate::launch_times::{self, launch_times};
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
    /// The cores of leaders of partitions that are measured, or busy meanwhile. With fewer than there are partitions, some
    /// lead several.
    pub leaders: Vec<usize>,
    pub watchdog: Watchdog,
    /// Which partitions fill what others leave.
    pub kernel_padding: KernelPaddingSpec,
    /// How leaders wait while stages run. Figures of one way hold for that way only.
    pub wait: Wait,
    /// At how many tiles launches look once whether they are preempted. None: as is usual on such a GPU.
    pub look_stride: Option<NonZeroU8>,
    /// Whether others of this process use the GPU's primary context.
    pub shares_context: bool,
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

    const PRECISION: Precision = Precision::Half;

    /// Workspaces; what stages carry over stays as it is.
    const POISONS: bool = true;

    fn machine(&self) -> String {
        let machine = self.offer.machine();
        match self.wait {
            Wait::Spin => machine,
            Wait::Sleep { ns } => format!("{machine}, leaders sleep {} us", ns / 1_000),
        }
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

    /// From the first TPC on. The first has a leader of its own if there are two; the others share the rest.
    fn partitions(&self, sizes: &[u8]) -> Result<Vec<PartitionSpec>, StartError> {
        let mut end = 0;
        let (first, others) = match self.leaders.split_first() {
            Some((first, [])) => (Some(first), std::slice::from_ref(first)),
            Some((first, others)) => (Some(first), others),
            None => (None, &[][..]),
        };
        let leaders = first.into_iter().chain(others.iter().cycle());
        let leaders = leaders.map(|&core| vec![core]);
        // Without any the device says that it needs one.
        let leaders = leaders.chain(std::iter::repeat(Vec::new()));
        let partitions = sizes.iter().zip(leaders).map(|(&size, leader)| {
            let first = end;
            end += u16::from(size);
            PartitionSpec {
                tpcs: first..end,
                ..PartitionSpec::on_cores("profile", leader, Some(PRIORITY))
            }
        });
        Ok(partitions.collect())
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

    fn launches(
        &self,
        subject: profile::Subject<'_>,
        request: &Request,
    ) -> Result<Vec<LaunchProfile>, StartError> {
        let gpu = self.driver.device(self.ordinal)?;
        let partitioner = self.offer.partitioner(gpu)?;
        let context = Context::retain(gpu)?;
        let all = 0..self.offer.tpcs();
        let spec = ModelSpec {
            solutions: subject.solutions,
            ..ModelSpec::resident(subject.package.network(), &request.batches)
        };
        let mut profiles = Vec::new();
        for &units in &request.units {
            let subject = launch_times::Subject {
                model: 0,
                spec,
                tpcs: 0..u16::from(units),
            };
            let (subjects, on) = ([subject], all.clone());
            let rounds = request.effort.solution_rounds();
            let times = launch_times(&context, &partitioner, on, &subjects, PAGE_BYTES, rounds)?;
            profiles.extend(times.profiles(units));
        }
        Ok(profiles)
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
            wait: self.wait,
            kernel_padding: self.kernel_padding.clone(),
            shares_context: self.shares_context,
            ..CudaSpec::default()
        };
        CudaDevice::start(self.driver, spec, &cuda, report)
    }
}
