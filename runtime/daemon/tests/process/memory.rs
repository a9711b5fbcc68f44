//! What the plan says about memory, against what the daemon had: the prediction is of use only if it holds.
use std::sync::Arc;

use crate::support::{Daemon, Folder, MANIFEST, connect, result, submit};
use punctual_core::ModelId;
use punctual_device::{DeviceSpec, HostedDevice, ModelSpec, PartitionSpec, Start};
use punctual_device_cpu::CpuDevice;
use punctual_ipc::PixelFormat;
use punctual_model::{Package, Profile, SolutionChoice};
use punctual_platform::Doorbell;

/// How far the peak may be from the plan.
const TOLERANCE: f64 = 0.05;

/// One camera on one core, as in examples/one-camera.toml.
const ONE_CAMERA: &str = r#"
[daemon]
board = "host"

[[model]]
name = "signs"
package = "signs.punctual"

[[partition]]
name = "main"
units = 1

[[task]]
name = "camera"
model = "signs"
partition = "main"
criticality = "real-time"
rate_hz = 10
deadline_ms = 500
frame = { format = "rgb8", width = 640, height = 480, crop = [192, 192] }
"#;

/// Serves a frame of each of the manifest's clients and compares; `None` where memory was not
/// locked: then only what was used is resident.
fn peak_over_plan(manifest: &str, clients: &[(&str, PixelFormat)]) -> Option<f64> {
    peak_over_plan_in(Folder::with(&unrecorded(manifest)), clients)
}

/// A recorder takes its memory only as a black box fills.
fn unrecorded(manifest: &str) -> String {
    format!("[recorder]\nmode = \"off\"\n{manifest}")
}

/// As [`peak_over_plan`], of a folder's manifest.
fn peak_over_plan_in(folder: Folder, clients: &[(&str, PixelFormat)]) -> Option<f64> {
    let daemon = Daemon::start_in(folder);
    let mut clients: Vec<_> = clients
        .iter()
        .map(|&(task, format)| connect(&daemon.socket(), task, format))
        .collect();
    for client in &mut clients {
        submit(client);
    }
    for client in &mut clients {
        result(client);
    }
    let report = daemon.report();
    drop(clients);
    daemon.stop();
    if report
        .missing
        .iter()
        .any(|missing| missing.contains("memory"))
    {
        println!("skipped: memory could not be locked");
        return None;
    }
    let memory = report.memory;
    println!("{memory:?}");
    assert!(memory.peak_bytes >= memory.resident_bytes && memory.resident_bytes > 0);
    assert!(
        memory.locked_bytes > 0,
        "what is missing says that memory was locked"
    );
    Some(memory.peak_bytes as f64 / memory.planned_bytes as f64)
}

#[test]
fn the_peak_of_a_daemon_with_one_camera_is_what_was_planned() {
    if let Some(ratio) = peak_over_plan(ONE_CAMERA, &[("camera", PixelFormat::Rgb8)]) {
        assert!((ratio - 1.0).abs() <= TOLERANCE, "{ratio:.3} of the plan");
    }
}

#[test]
fn the_peak_of_a_daemon_that_records_is_no_more_than_was_planned() {
    let folder = Folder::with("");
    let directory = folder.path("recordings");
    let recorded = format!("[recorder]\ndirectory = {directory:?}\n{ONE_CAMERA}");
    folder.write("manifest.toml", recorded.as_bytes());
    if let Some(ratio) = peak_over_plan_in(folder, &[("camera", PixelFormat::Rgb8)]) {
        assert!((0.5..1.0).contains(&ratio), "{ratio:.3} of the plan");
    }
}

/// As if tiles of 4x4 had been the fastest for every convolution, which takes the most memory.
fn with_solutions(profile: &mut Profile, package: &Package) {
    let network = package.network();
    let operators = network.stages.iter().flat_map(|stage| &stage.operators);
    let choice = |operator| SolutionChoice {
        operator,
        batch: 1,
        units: 1,
        solution: "winograd-4x4".to_owned(),
    };
    profile.solutions = (0..operators.count() as u32).map(choice).collect();
    let spec = DeviceSpec {
        models: &[ModelSpec {
            solutions: &profile.solutions,
            ..ModelSpec::resident(network, &[1])
        }],
        partitions: &[PartitionSpec::on_cores("main", vec![0], None)],
        request_buffers: 1,
        cache: None,
        start: Start::Whole,
    };
    let device = CpuDevice::start(&spec, Arc::new(Doorbell::new())).expect("starts");
    profile.solution_memory = device.solution_memory(ModelId(0));
}

#[test]
fn the_peak_of_a_daemon_whose_profile_has_solutions_is_what_was_planned() {
    let mut taken = 0;
    let folder = Folder::with_profile(&unrecorded(ONE_CAMERA), |profile, package| {
        with_solutions(profile, package);
        taken = profile.solution_memory.weight_bytes;
    });
    // More than the tolerance of 5%: a daemon without them would be told from one with them.
    assert!(taken > 4 << 20, "{taken} bytes");
    if let Some(ratio) = peak_over_plan_in(folder, &[("camera", PixelFormat::Rgb8)]) {
        assert!((ratio - 1.0).abs() <= TOLERANCE, "{ratio:.3} of the plan");
    }
}

#[test]
fn the_peak_of_a_daemon_with_four_clients_and_batches_is_what_was_planned() {
    let clients = [
        ("front", PixelFormat::Rgb8),
        ("front", PixelFormat::Rgb8),
        ("watch", PixelFormat::Nv12),
        ("watch", PixelFormat::Nv12),
    ];
    if let Some(ratio) = peak_over_plan(MANIFEST, &clients) {
        assert!((ratio - 1.0).abs() <= TOLERANCE, "{ratio:.3} of the plan");
    }
}
