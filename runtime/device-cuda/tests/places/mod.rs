//! A device of 8 TPCs with places: two homes of 4 TPCs, partitions 0 and 1, and four cells of 2, partitions 2 to 5. The
//! leader of each cell also serves the home that begins there.
#![allow(dead_code, reason = "each test uses its part")]

use std::ops::Range;
use std::sync::Arc;

use emulated_cuda::Config;
use punctual_device::PartitionSpec;
use punctual_device_cuda::partition::{Mechanism, Partitioner};
use punctual_device_cuda::{CudaSpec, Division};

use crate::subject::{cuda, gpu, offer};

pub const HOMES: [usize; 2] = [0, 1];
pub const CELLS: [usize; 4] = [2, 3, 4, 5];

const RANGES: [Range<u16>; 6] = [0..4, 4..8, 0..2, 2..4, 4..6, 6..8];
const TPCS_OF_A_CELL: u16 = 2;

/// A partition on these TPCs, led by the leader of the cell that begins there.
pub fn place(name: impl Into<String>, tpcs: Range<u16>) -> PartitionSpec {
    let leader = usize::from(tpcs.start / TPCS_OF_A_CELL);
    PartitionSpec {
        tpcs,
        ..PartitionSpec::on_cores(name, vec![leader], None)
    }
}

/// The homes and the cells.
pub fn places() -> Vec<PartitionSpec> {
    let named = (0..).zip(RANGES);
    named
        .map(|(index, tpcs)| place(format!("p{index}"), tpcs))
        .collect()
}

/// What makes the streams of the emulated device that is there.
pub fn partitioner(test: &str, config: &Config, mechanism: Mechanism) -> Arc<Partitioner> {
    let offer = offer(test, config, mechanism);
    Arc::new(offer.partitioner(gpu()).expect("it works here"))
}

/// How a device with these partitions is started.
pub fn divided(partitioner: &Arc<Partitioner>, partitions: &[PartitionSpec]) -> CudaSpec {
    CudaSpec {
        division: Division::Tpcs {
            partitioner: partitioner.clone(),
            ranges: partitions.iter().map(|each| each.tpcs.clone()).collect(),
        },
        ..cuda()
    }
}
