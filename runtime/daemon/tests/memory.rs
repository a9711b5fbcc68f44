//! What the plan says of memory, against what the daemon had: the prediction is of use only if it
//! holds.
#![forbid(unsafe_code)]

mod support;

use punctual_ipc::PixelFormat;
use support::{Daemon, MANIFEST, connect, result, submit};

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
    let daemon = Daemon::start(manifest);
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
    assert!(memory.peak_bytes > 0);
    Some(memory.peak_bytes as f64 / memory.planned_bytes as f64)
}

#[test]
fn the_peak_of_a_daemon_with_one_camera_is_what_was_planned() {
    if let Some(ratio) = peak_over_plan(ONE_CAMERA, &[("camera", PixelFormat::Rgb8)]) {
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
