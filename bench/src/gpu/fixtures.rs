//! What tests of several modules begin with.

use std::fs;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use punctual_device::{DeviceSpec, HostedDevice as _, ModelSpec, Start};
use punctual_device_cpu::CpuDevice;
use punctual_model::Network;
use punctual_platform::Doorbell;

use super::folder::{Outcome, Record};
use super::machine::Machine;
use super::result::StepResult;
use super::rig::{BUFFERS, Rig, partitions};

/// Files below a folder of their own, gone with this.
pub struct Made(PathBuf);

/// `name` tells tests apart.
pub fn made(name: &str, files: &[(&str, &str)]) -> Made {
    let name = format!("punctual-gpu-{}-{name}", std::process::id());
    let root = std::env::temp_dir().join(name);
    fs::create_dir_all(&root).expect("a folder");
    for (path, text) in files {
        let path = root.join(path);
        fs::create_dir_all(path.parent().expect("below the root")).expect("a folder");
        fs::write(path, text).expect("a file");
    }
    Made(root)
}

impl Deref for Made {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.0
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        // A file left behind does no harm.
        let _ = fs::remove_dir_all(&self.0);
    }
}

pub fn machine(uuid: &str) -> Machine {
    Machine {
        device: "Test GPU".into(),
        uuid: uuid.into(),
        compute_capability: "8.7".into(),
        multiprocessors: 16,
        memory_bytes: 8 << 30,
        integrated: true,
        driver: "12.6".into(),
        clocks: "at most 1300 MHz, memory 3199 MHz".into(),
        power_mode: "MAXN".into(),
        host: "Arm".into(),
        emulated: false,
    }
}

/// Of the step `preemption`, which ended well.
pub fn record(result: StepResult) -> Record {
    Record {
        step: "preemption".into(),
        outcome: Outcome::Measured(result),
        clocks: Vec::new(),
        began: "2026-11-21 22:45:45 UTC".into(),
        seconds: 1.5,
        machine: machine("a"),
        quick: false,
    }
}

/// A rig on the CPU device: steps that are generic over devices are tested with it.
pub fn cpu(network: &Network, count: usize) -> Rig<CpuDevice> {
    let bell = Arc::new(Doorbell::new());
    let spec = DeviceSpec {
        models: &[ModelSpec::resident(network, &[1, 2])],
        partitions: &partitions(count),
        request_buffers: BUFFERS,
        cache: None,
        start: Start::Whole,
    };
    let device = CpuDevice::start(&spec, bell.clone()).expect("it starts");
    let inputs = device.shell().input_buffers();
    Rig::of(device, inputs, bell)
}
