//! How everything on the GPU is made: at start, and again after a fault.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use punctual_cuda_kernels::Module as Unit;
use punctual_device::{InputBuffers, LoadRate};
use thiserror::Error;

use crate::confinement::Confinement;
use crate::driver::{CallError, Context, Gpu, GreenError, Stream};
use crate::executor::StreamExecutor;
use crate::installation::{Inputs, Installation, RequestSlots};
use crate::kernels::{KernelError, Kernels};
use crate::lower::PackError;
use crate::padding::InDriver;
use crate::partition::{Division, StreamError};
use crate::queue::VirtualQueue;
use crate::spec::CudaSpec;
use crate::start::in_turn::{self, LeftOut, Needs, StageOf};
use crate::weights::{LoadError, Weights};
use crate::workspaces::Workspaces;

/// What does not depend on whether the device works.
pub(crate) struct DevicePlan {
    pub(crate) gpu: Gpu,
    pub(crate) spec: CudaSpec,
    pub(crate) inputs: InputBuffers,
    pub(crate) request_buffers: usize,
    /// Bytes that a request carries from stage to stage, at most.
    pub(crate) slot_bytes: u64,
    pub(crate) confinement: Arc<Confinement>,
    /// For each partition, the bytes of a workspace and of the outputs that it has in addition.
    pub(crate) workspaces: Vec<(usize, usize)>,
    pub(crate) weights: Arc<Weights>,
    pub(crate) needs: Needs,
    /// In which order stages come while the device serves; none: everything is there before.
    pub(crate) order: Option<Box<[StageOf]>>,
    /// How fast they come while stages run.
    pub(crate) rate: LoadRate,
}

/// How much is made before the device serves.
#[derive(Clone, Copy, Debug)]
pub(crate) enum First<'a> {
    /// Everything but what could not be loaded before.
    Everything { but: &'a LeftOut },
    /// Memory, streams, and the kernels that replace others.
    General,
}

/// Why nothing could be made on the device.
#[derive(Debug, Error)]
pub(crate) enum InstallError {
    #[error(transparent)]
    Driver(#[from] CallError),
    #[error(transparent)]
    Stream(#[from] StreamError),
    /// The driver refuses a green context for a partition that shares groups with one before it.
    #[error("partition {partition} shares groups with partition {other}: {call}")]
    SharedGroups {
        partition: usize,
        other: usize,
        call: CallError,
    },
    #[error(transparent)]
    Kernels(#[from] KernelError),
    #[error(transparent)]
    Weights(#[from] LoadError),
}

impl InstallError {
    /// What the driver said about it, if that is what is wrong.
    pub(crate) fn call(&self) -> Option<CallError> {
        match self {
            Self::Driver(error) | Self::Weights(LoadError::Driver(error)) => Some(*error),
            _ => None,
        }
    }
}

impl DevicePlan {
    /// How much is made at the start.
    pub(crate) fn first<'a>(&self, but: &'a LeftOut) -> First<'a> {
        let whole = self.order.is_none();
        if whole {
            First::Everything { but }
        } else {
            First::General
        }
    }

    /// Packs weights on the host: all of them before a whole start; before one in turn, in its order, as many as there is
    /// time for, which `goes_on` says.
    pub(crate) fn pack(&self, goes_on: impl Fn() -> bool) -> Result<(), PackError> {
        let Some(order) = &self.order else {
            return self.weights.pack_all();
        };
        for (model, page) in in_turn::pages(order, &self.needs) {
            // What cannot be packed is reported when its turn to be loaded comes.
            if !goes_on() || self.weights.pack(model, page).is_err() {
                break;
            }
        }
        Ok(())
    }

    /// Takes all memory that the device will ever use, writes to it once so that it is there, loads
    /// kernels and weights as far as they come first, and makes the streams' executors.
    pub(crate) fn install(
        &self,
        context: &Arc<Context>,
        first: First<'_>,
    ) -> Result<Vec<StreamExecutor>, InstallError> {
        let (_, highest) = context.stream_priorities()?;
        let setup = Stream::new(context, highest)?;
        let kernels = Kernels::default();
        for unit in self.units(first) {
            kernels.load(context, unit)?;
        }
        let slots = RequestSlots::take(context, &setup, self.request_buffers, self.slot_bytes)?;
        let installation = Arc::new(Installation {
            kernels,
            slots,
            inputs: Inputs::prepare(context, &self.inputs)?,
        });
        match first {
            First::Everything { but } => {
                let comes = |model| !but.has_model(model);
                self.weights.bring_up(context, comes)?;
            }
            First::General => self.weights.bring_up(context, |_| false)?,
        }
        let executors = self.confinement.partitions().map(|partitions| {
            let partitions: Vec<usize> = partitions.collect();
            let each = || partitions.iter().map(|&each| self.workspaces[each]);
            let bytes = each().map(|(bytes, _)| bytes).max().unwrap_or(0);
            let outputs = each().map(|(_, outputs)| outputs).max().unwrap_or(0);
            let count = self.spec.workspaces;
            let stream = self.stream(context, partitions[0])?;
            Ok(StreamExecutor {
                workspaces: Workspaces::take(context, &setup, count, bytes, outputs)?,
                queue: VirtualQueue::new(stream, self.spec.queue, &installation.kernels)?,
                installation: installation.clone(),
                confined_to: partitions[0],
                in_driver: InDriver::default(),
                run: None,
                error: None,
            })
        });
        let executors = executors.collect::<Result<Vec<_>, InstallError>>()?;
        context.synchronize()?;
        Ok(executors)
    }

    fn units(&self, first: First<'_>) -> BTreeSet<Unit> {
        match first {
            First::Everything { but } => but.units_of_others(&self.needs),
            First::General => BTreeSet::from([Unit::General]),
        }
    }

    /// A stream, kept to the TPCs of the first partition that launches into it.
    fn stream(&self, context: &Arc<Context>, partition: usize) -> Result<Stream, InstallError> {
        let ranges = match &self.spec.division {
            Division::Whole => &[][..],
            Division::Tpcs { ranges, .. } => ranges,
        };
        let other = ranges.get(partition).and_then(|own| {
            let shares = |other: &Range<u16>| other.start < own.end && own.start < other.end;
            ranges[..partition].iter().position(shares)
        });
        let stream = self.spec.division.stream(context, partition);
        stream.map_err(|error| match (error, other) {
            (StreamError::Green(GreenError::Call(call)), Some(other)) => {
                InstallError::SharedGroups {
                    partition,
                    other,
                    call,
                }
            }
            (error, _) => error.into(),
        })
    }
}
