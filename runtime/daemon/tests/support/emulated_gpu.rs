//! A folder with what a daemon on the emulated GPU is started with.
#![allow(dead_code)] // Each test binary uses a part.

use std::sync::{Mutex, MutexGuard, PoisonError};

use emulated_cuda::{Config, Emulator};
use punctual_conformance::networks;
use punctual_model::{
    Calibration, LaunchProfile, Package, PrepareOnDevice, PrepareProfile, Profile,
};

use crate::support::{Folder, profile};

const BOARD: &str = r#"
name = "emulated"
title = "A board with an emulated GPU"
cores = { source = "detected" }
memory_gib = { source = "detected" }
power_modes = { is = ["default"], source = "made-up" }

[gpu]
architecture = { is = "Ampere", source = "made-up" }
compute_capability = { is = "8.7", source = "made-up" }
sm = { is = 16, source = "made-up" }
tpc = { is = 8, source = "made-up" }

[sources]
made-up = "The configuration of the emulated driver"
"#;

/// Real-time work has half of the TPCs, and a partition fills.
pub const FILLED: &str = r#"
[daemon]
board = "emulated"
cores = [0]

[[model]]
name = "small"
package = "small.punctual"

[[partition]]
name = "first"
tpcs = 4
cores = [1]

[[partition]]
name = "rest"
fill = true
cores = [0]

[[task]]
name = "front"
model = "small"
partition = "first"
criticality = "real-time"
rate_hz = 0.1
deadline_ms = 20_000
threshold = 1.0
queue_depth = 8
frame = { format = "rgb8", width = 64, height = 48, crop = [24, 24] }

[[task]]
name = "watch"
model = "small"
partition = "rest"
criticality = "best-effort"
queue_depth = 8
frame = { format = "rgb8", width = 64, height = 48, crop = [24, 24] }
"#;

pub fn package() -> Package {
    Package::new(networks::gathers(5), Calibration::default()).expect("a valid network")
}

/// Figures that an emulated GPU keeps, mostly: a stage that takes eight times the longest is taken to hang.
fn figures(machine: &str, clocks: &str, package: &Package) -> Profile {
    let mut figures = profile(machine, clocks, package);
    figures.key.board = "emulated".to_owned();
    for stage in &mut figures.stages {
        (stage.p50_ns, stage.p99_ns) = (500_000_000, 500_000_000);
        stage.max_ns = 2_000_000_000;
    }
    // Any list has fewer launches.
    let lists = figures.stages.iter().flat_map(|stage| {
        [4, 8].map(|units| LaunchProfile {
            stage: stage.stage,
            batch: stage.batch,
            units,
            on: 8,
            ns: vec![100_000; 64],
            enough: vec![2; 64],
        })
    });
    figures.launches = lists.collect();
    figures.prepare = vec![PrepareProfile {
        format: "rgb8".to_owned(),
        width: 64,
        height: 48,
        crop_width: 24,
        crop_height: 24,
        letterbox: false,
        samples: 1_000,
        p50_ns: 100_000,
        p99_ns: 100_000,
        max_ns: 100_000,
    }];
    let by_gpu = PrepareProfile {
        p50_ns: 100_000_000,
        p99_ns: 100_000_000,
        max_ns: 100_000_000,
        ..figures.prepare[0].clone()
    };
    let on_device = [4, 8].map(|units| PrepareOnDevice {
        units,
        frames: vec![by_gpu.clone()],
    });
    figures.prepare_on_device = on_device.to_vec();
    figures
}

/// One emulated GPU at a time: its threads have a core or two, and leaders take one.
pub fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Package, board and profiles, and a driver of this configuration in the daemon's environment.
pub fn folder(manifest: &str, driver: &Config) -> Folder {
    folder_of(&package(), manifest, driver)
}

pub fn folder_of(package: &Package, manifest: &str, driver: &Config) -> Folder {
    let mut folder = Folder::with(manifest);
    std::fs::create_dir(folder.path("boards")).expect("a folder");
    folder.write("boards/emulated.toml", BOARD.as_bytes());
    folder.write("small.punctual", &package.encode());
    let host = punctual_daemon::host::detect().expect("a machine");
    let processor = figures(&host.machine, &host.clocks, package);
    folder.write("small.profile.json", processor.to_json().as_bytes());
    folder.environment = Emulator::environment(driver).expect("the emulated driver");
    let cache = folder.path("cache").into_os_string();
    folder.environment.push(("XDG_CACHE_HOME", cache));
    folder
}

/// With the GPU's profile: the machine is what the daemon says that it should be. Other clocks are a warning.
pub fn profiled(manifest: &str, driver: &Config) -> Folder {
    profiled_of(&package(), manifest, driver)
}

pub fn profiled_of(package: &Package, manifest: &str, driver: &Config) -> Folder {
    let folder = folder_of(package, manifest, driver);
    let (_, words) = folder.refusal(&[]);
    let wanted = |field: &str| {
        let (_, rest) = words
            .split_once(&format!("is for {field} "))
            .unwrap_or_else(|| panic!("{words}"));
        let mut quoted = rest.split('"');
        quoted.nth(3).expect("there, and wanted").to_owned()
    };
    let figures = figures(&wanted("machine"), "unknown", package);
    folder.write("small.gpu.profile.json", figures.to_json().as_bytes());
    folder
}
