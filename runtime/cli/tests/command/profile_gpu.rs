//! `punctual profile` on the emulated GPU, from the command to a plan that is made of its figures. The figures say nothing of any GPU.

use std::collections::BTreeSet;
use std::process::{Command, Output};

use emulated_cuda::Config;
use punctual_conformance::networks;
use punctual_model::{Calibration, Package, Profile};

use crate::emulated_gpu::{FILLED, folder_of};
use crate::support::Folder;

/// Of the partition of real-time work, and so of what fills: it is lowered for all that others have.
const UNITS: u8 = 4;
/// Of the device.
const TPCS: u8 = 8;

fn punctual(folder: &Folder, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_punctual"));
    command.args(arguments).arg(folder.path("manifest.toml"));
    let environment = folder.environment.iter();
    command.envs(environment.map(|(name, value)| (name, value)));
    command.output().expect("the command runs")
}

#[test]
fn a_profile_of_the_gpu_has_stages_preemptions_and_launches_and_a_plan_is_made_of_it() {
    // A leader that spins would take the emulated GPU its cores.
    let manifest = FILLED.replace(
        "cores = [0]\n\n[[model]]",
        "cores = [0]\nleader_wait = \"sleep\"\n\n[[model]]",
    );
    let package = Package::new(networks::pair(5), Calibration::default()).expect("a valid network");
    let folder = folder_of(&package, &manifest, &Config::default());
    let measured = punctual(&folder, &["profile", "--quick"]);
    assert_eq!(measured.status.code(), Some(0), "{measured:?}");
    let profile = Profile::read(&folder.path("small.gpu.profile.json")).expect("a profile");
    assert!(profile.look_stride.is_some());
    let verified = profile.verified.expect("it was verified");
    assert!(
        verified.failure.is_none() && verified.poisoned && verified.values > 0,
        "{verified:?}"
    );
    let stages: BTreeSet<(u8, u8)> = profile.stages.iter().map(|s| (s.units, s.stage)).collect();
    let units: BTreeSet<u8> = stages.iter().map(|(units, _)| *units).collect();
    assert_eq!(units, BTreeSet::from([UNITS]));
    let preempted = profile.preemption.iter().map(|s| (s.units, s.stage));
    assert_eq!(preempted.collect::<BTreeSet<_>>(), stages);
    let launched = profile.launches.iter().map(|s| (s.units, s.stage));
    assert_eq!(launched.collect::<BTreeSet<_>>(), stages);
    for launches in &profile.launches {
        assert_eq!(launches.ns.len(), launches.enough.len());
        let mut enough = launches.enough.iter();
        assert!(enough.all(|tpcs| (1..=TPCS).contains(tpcs)), "{launches:?}");
    }
    let plan = punctual(&folder, &["check"]);
    assert!(plan.status.code() == Some(0), "{plan:?}");
}

/// Without the partition that fills and its task, and with the GPU for the frames of the other.
fn with_frames_on_the_gpu() -> String {
    let before = |text: &'static str, end: &str| text.split_once(end).expect("it is there").0;
    let head = before(FILLED, "[[partition]]\nname = \"rest\"");
    let task = FILLED
        .split_once("[[task]]\nname = \"front\"")
        .expect("a task");
    let task = before(task.1, "[[task]]");
    let task = format!("[[task]]\nname = \"front\"\nprepare = \"gpu\"{task}");
    let head = head.replace(
        "cores = [0]\n\n[[model]]",
        "cores = [0]\nleader_wait = \"sleep\"\n\n[[model]]",
    );
    format!("{head}{task}")
}

#[test]
fn frames_are_measured_on_the_gpu_where_the_manifest_wants_it_and_the_plan_says_who_prepares_them()
{
    let package = Package::new(networks::pair(5), Calibration::default()).expect("a valid network");
    let folder = folder_of(&package, &with_frames_on_the_gpu(), &Config::default());
    let measured = punctual(&folder, &["profile", "--quick"]);
    assert_eq!(measured.status.code(), Some(0), "{measured:?}");
    let profile = Profile::read(&folder.path("small.gpu.profile.json")).expect("a profile");
    let found = profile.prepare_on_device(UNITS, "rgb8", [64, 48], [24, 24], false);
    assert!(found.is_some(), "{:?}", profile.prepare_on_device);
    let plan = punctual(&folder, &["check"]);
    assert!(plan.status.code() == Some(0), "{plan:?}");
    let text = String::from_utf8_lossy(&plan.stdout);
    assert!(text.contains("TPCs of first"), "{text}");
}
