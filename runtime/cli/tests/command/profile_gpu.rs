//! `punctual profile` on the emulated GPU, from the command to a plan that is made of its figures. The figures say nothing of any GPU.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use emulated_cuda::{Config, ENVIRONMENT, Emulator};
use punctual_device::conformance::networks;
use punctual_model::{Calibration, Package, Profile};

/// Real-time work on half of the TPCs, and a partition that fills.
const MANIFEST: &str = r#"
[daemon]
board = "emulated"
cores = [0]
leader_wait = "sleep"

[[model]]
name = "small"
package = "small.punctual"

[[partition]]
name = "first"
tpcs = 2
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
rate_hz = 0.01
deadline_ms = 60_000
threshold = 1.0
batch_max = 1
frame = { format = "rgb8", width = 64, height = 48, crop = [24, 24] }

[[task]]
name = "watch"
model = "small"
partition = "rest"
criticality = "best-effort"
batch_max = 1
frame = { format = "rgb8", width = 64, height = 48, crop = [24, 24] }
"#;

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

const TPCS: u32 = 4;

struct Here {
    folder: PathBuf,
    environment: Vec<(&'static str, OsString)>,
}

impl Here {
    fn new() -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("profile-gpu");
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(folder.join("boards")).expect("a folder for tests");
        let network = networks::gathers(5);
        let package = Package::new(network, Calibration::default()).expect("a valid network");
        let write = |name: &str, bytes: &[u8]| {
            fs::write(folder.join(name), bytes).expect("a file of the test's");
        };
        write("small.punctual", &package.encode());
        write("manifest.toml", MANIFEST.as_bytes());
        write("boards/emulated.toml", BOARD.as_bytes());
        let driver = Config {
            tpcs: TPCS,
            sms_per_tpc: 1,
            ..Config::default()
        };
        let library = Emulator::library_folder(&driver).expect("the emulated driver");
        let environment = vec![
            ("LD_LIBRARY_PATH", library.into_os_string()),
            (ENVIRONMENT, OsString::from(driver.to_string())),
            ("XDG_CACHE_HOME", folder.join("cache").into_os_string()),
        ];
        Self {
            folder,
            environment,
        }
    }

    fn punctual(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_punctual"));
        command.args(arguments).arg("manifest.toml");
        command.current_dir(&self.folder);
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command.output().expect("the command runs")
    }
}

#[test]
fn a_profile_of_the_gpu_has_stages_preemptions_and_launches_and_a_plan_is_made_of_it() {
    let here = Here::new();
    let measured = here.punctual(&["profile", "--quick"]);
    assert_eq!(measured.status.code(), Some(0), "{measured:?}");
    let profile = Profile::read(&here.folder.join("small.gpu.profile.json")).expect("a profile");
    assert!(profile.look_stride.is_some());
    let stages: BTreeSet<(u8, u8)> = profile.stages.iter().map(|s| (s.units, s.stage)).collect();
    let units: BTreeSet<u8> = stages.iter().map(|(units, _)| *units).collect();
    // What fills is lowered for all TPCs that others have.
    assert_eq!(units, BTreeSet::from([2]));
    let preempted = profile.preemption.iter().map(|s| (s.units, s.stage));
    assert_eq!(preempted.collect::<BTreeSet<_>>(), stages);
    let launched = profile.launches.iter().map(|s| (s.units, s.stage));
    assert_eq!(launched.collect::<BTreeSet<_>>(), stages);
    for launches in &profile.launches {
        assert_eq!(launches.ns.len(), launches.enough.len());
        let enough = launches.enough.iter();
        assert!(
            enough.clone().all(|&tpcs| (1..=TPCS as u8).contains(&tpcs)),
            "{launches:?}"
        );
    }
    let plan = here.punctual(&["check"]);
    assert_eq!(plan.status.code(), Some(0), "{plan:?}");
}
