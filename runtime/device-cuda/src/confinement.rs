//! Which stream each partition launches into, and how that stream is kept to the partition's TPCs.
//!
//! Hardware has few queues, and a device that is divided anew has many ranges of TPCs: `n` TPCs have `n (n + 1) / 2`.
//! Where a stream's mask can be changed between two launches, partitions of one leader that begin at one TPC share a
//! stream: they overlap, so no two of them run at once, and the leader writes the mask of the partition whose stage
//! starts while the stream is idle. So `n` TPCs need `n` streams. A preempted stage finds its workspace again, as its
//! partition always has the same stream.
//!
//! (emulated)

use std::ops::Range;
use std::sync::Arc;

use libsmctrl_sys::TpcMask;
use punctual_device::PartitionSpec;

use crate::driver::MaskError;
use crate::partition::{Division, Partitioner, StreamError};
use crate::queue::VirtualQueue;
use crate::spec::CudaSpec;

/// Of all partitions of a device.
pub(crate) struct Confinement {
    /// By partition, its stream.
    streams: Box<[usize]>,
    /// By partition, the mask that its launches have on a stream that it shares.
    masks: Box<[TpcMask]>,
    /// None where no stream is shared.
    partitioner: Option<Arc<Partitioner>>,
}

impl Confinement {
    pub(crate) fn new(cuda: &CudaSpec, specs: &[PartitionSpec]) -> Result<Self, StreamError> {
        let Some((partitioner, ranges)) = remasked(cuda) else {
            return Ok(Self {
                streams: (0..specs.len()).collect(),
                masks: Box::default(),
                partitioner: None,
            });
        };
        let fills = |partition: &usize| cuda.kernel_padding.fillers.contains(partition);
        let mut streams: Vec<usize> = Vec::new();
        for (partition, spec) in specs.iter().enumerate() {
            let mut before = 0..partition;
            let shared = before.find(|&other| {
                ranges[other].start == ranges[partition].start
                    && spec.shares_leader_with(&specs[other])
                    && !fills(&other)
                    && !fills(&partition)
            });
            let next = streams.iter().max().map_or(0, |last| last + 1);
            streams.push(shared.map_or(next, |other| streams[other]));
        }
        let choice = partitioner.choice();
        let mask = |tpcs: &Range<u16>| Ok(choice.mask(choice.units_of_tpcs(tpcs.clone())?)?);
        let masks = ranges.iter().map(mask);
        Ok(Self {
            streams: streams.into(),
            masks: masks.collect::<Result<_, StreamError>>()?,
            partitioner: Some(partitioner.clone()),
        })
    }

    /// The stream of a partition.
    pub(crate) fn stream(&self, partition: usize) -> usize {
        self.streams[partition]
    }

    /// The partitions of each stream, in their order.
    pub(crate) fn partitions(&self) -> impl Iterator<Item = impl Iterator<Item = usize>> {
        let streams = self.streams.iter().max().map_or(0, |last| last + 1);
        (0..streams).map(|stream| {
            let partitions = self.streams.iter().enumerate();
            partitions
                .filter(move |(_, of)| **of == stream)
                .map(|(partition, _)| partition)
        })
    }

    /// Keeps the launches that follow to a partition's TPCs. The queue is idle.
    pub(crate) fn confine(
        &self,
        partition: usize,
        queue: &mut VirtualQueue,
    ) -> Result<(), MaskError> {
        let masking = self.partitioner.as_ref().and_then(|each| each.masking());
        match masking {
            Some(masking) => masking.mask(queue.stream_mut(), self.masks[partition]),
            None => Ok(()),
        }
    }
}

/// What masks streams anew, and the partitions' ranges; none where a stream keeps its TPCs.
fn remasked(cuda: &CudaSpec) -> Option<(&Arc<Partitioner>, &[Range<u16>])> {
    match &cuda.division {
        Division::Tpcs {
            partitioner,
            ranges,
        } if partitioner.masking().is_some() => Some((partitioner, ranges)),
        Division::Tpcs { .. } | Division::Whole => None,
    }
}
