//! How everything on the GPU is made: at start, and again after a fault.

use std::sync::Arc;

use punctual_device::InputBuffers;
use punctual_kernels::cuda::Module as Unit;

use crate::driver::{CallError, Context, Gpu, Stream};
use crate::installation::{Inputs, Installation, RequestSlots};
use crate::kernels::Kernels;
use crate::lanes::Lanes;
use crate::queue::VirtualQueue;
use crate::resident::Weights;
use crate::spec::CudaSpec;
use crate::station::Station;

/// What does not depend on whether the device works.
pub(crate) struct Blueprint {
    pub(crate) gpu: Gpu,
    pub(crate) spec: CudaSpec,
    pub(crate) inputs: InputBuffers,
    pub(crate) request_buffers: usize,
    /// Bytes that a request carries from stage to stage, at most.
    pub(crate) slot_bytes: u64,
    /// Bytes of a workspace of each partition.
    pub(crate) workspaces: Vec<usize>,
    pub(crate) weights: Arc<Weights>,
    /// Images of the modules that the programs use.
    pub(crate) images: Vec<(Unit, Vec<u8>)>,
}

impl Blueprint {
    /// Takes all memory that the device will ever use, writes to it once so that it is there, loads
    /// kernels and weights, and makes the partitions' stations.
    pub(crate) fn install(&self, context: &Arc<Context>) -> Result<Vec<Station>, CallError> {
        let (_, highest) = context.stream_priorities()?;
        let setup = Stream::new(context, highest)?;
        let kernels = Kernels::new();
        for (unit, image) in &self.images {
            kernels.load(context, *unit, image)?;
        }
        let slots = RequestSlots::take(context, &setup, self.request_buffers, self.slot_bytes)?;
        let installation = Arc::new(Installation {
            kernels,
            slots,
            inputs: Inputs::prepare(context, &self.inputs)?,
        });
        self.weights.bring_up(context)?;
        let stations = self.workspaces.iter().map(|&bytes| {
            let stream = Stream::new(context, 0)?;
            let control = Stream::new(context, highest)?;
            Ok(Station {
                lanes: Lanes::take(context, &setup, self.spec.workspaces, bytes)?,
                queue: VirtualQueue::new(stream, control, self.spec.queue)?,
                installation: installation.clone(),
                trouble: None,
            })
        });
        let stations = stations.collect::<Result<Vec<_>, CallError>>()?;
        context.synchronize()?;
        Ok(stations)
    }
}
