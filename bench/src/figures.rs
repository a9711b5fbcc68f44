//! A profile that any machine keeps, for networks of which it matters how they are served and not how long they take.

use std::collections::BTreeMap;

use punctual_model::{Package, PrepareProfile, Profile, ProfileKey, SolutionMemory, StageProfile};

/// Figures that any machine keeps: what a frame takes is measured from outside.
pub fn generous(package: &Package) -> Profile {
    const STAGE_NS: u64 = 5_000_000;
    const PREPARE_NS: u64 = 1_000_000;
    let stages = 0..package.network().stages.len() as u8;
    let stages = stages.flat_map(|stage| {
        let sizes = [1, 2].into_iter();
        sizes.flat_map(move |units| [1, 2, 4, 8].map(|batch| (stage, units, batch)))
    });
    let input = package.network().input;
    Profile {
        key: ProfileKey {
            board: "host".to_owned(),
            machine: punctual_device_cpu::machine(),
            package: package.hash().to_string(),
            power_mode: "default".to_owned(),
            clocks: punctual_device_cpu::clocks(),
        },
        settings: BTreeMap::new(),
        same_as: Vec::new(),
        stages: stages
            .map(|(stage, units, batch)| StageProfile {
                stage,
                batch,
                units,
                samples: 1_000,
                p50_ns: STAGE_NS * u64::from(batch),
                p99_ns: STAGE_NS * u64::from(batch),
                max_ns: STAGE_NS * u64::from(batch),
            })
            .collect(),
        prepare: vec![PrepareProfile {
            format: "rgb8".to_owned(),
            width: input.width,
            height: input.height,
            crop_width: input.width,
            crop_height: input.height,
            letterbox: false,
            samples: 1_000,
            p50_ns: PREPARE_NS,
            p99_ns: PREPARE_NS,
            max_ns: PREPARE_NS,
        }],
        beside: Vec::new(),
        preemption_ns_max: 500_000,
        solutions: Vec::new(),
        solution_memory: SolutionMemory::default(),
        look_stride: None,
        verified: None,
        launches: Vec::new(),
        preemption: Vec::new(),
    }
}
