//! `punctual bench lending`, briefly: that both sides answer the frames of all cameras, not how fast they are.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use punctual_model::{Package, PrepareProfile, Profile, ProfileKey, SolutionMemory, StageProfile};
use serde_json::Value;

/// Of all cameras, and of each, on two sides.
const ROWS: usize = 2 * (1 + 4);

/// None if the programs that it starts are not built, or their cores are not there.
fn bench() -> Option<Command> {
    let bench = Path::new(env!("CARGO_BIN_EXE_punctual-bench"));
    for program in ["punctual", "punctuald"] {
        if !bench.with_file_name(program).exists() {
            eprintln!("not measured: {program} is not built");
            return None;
        }
    }
    let cores = punctual_platform::affinity::available_cores().unwrap_or_default();
    if !cores.starts_with(&[0, 1]) {
        eprintln!("not measured: it needs cores 0 and 1");
        return None;
    }
    Some(Command::new(bench))
}

/// A folder of profiles, so that nothing is measured.
struct Profiles(PathBuf);

impl Profiles {
    fn new() -> Self {
        let name = format!("punctual-bench-lending-test-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).expect("a folder");
        for name in ["signs", "streets"] {
            let models = Path::new(env!("CARGO_MANIFEST_DIR")).join("../models");
            let package = Package::read(&models.join(format!("{name}/{name}.punctual")));
            let profile = profile(&package.expect("a package"));
            let file = path.join(format!("{name}.profile.json"));
            profile.write(&file).expect("a profile");
        }
        Self(path)
    }
}

impl Drop for Profiles {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// In `percent` of a millisecond for each image.
fn stages(package: &Package, percent: u64) -> Vec<StageProfile> {
    let stages = 0..package.network().stages.len() as u8;
    let sizes = stages.flat_map(|stage| {
        let units = [1, 2].into_iter();
        units.flat_map(move |units| [1, 2].map(|batch| (stage, units, batch)))
    });
    let entry = |(stage, units, batch): (u8, u8, u8)| {
        let time = 1_000_000 * u64::from(batch) * percent / 100;
        StageProfile {
            stage,
            batch,
            units,
            samples: 1_000,
            p50_ns: time,
            p99_ns: time,
            max_ns: time,
        }
    };
    sizes.map(entry).collect()
}

fn profile(package: &Package) -> Profile {
    let prepare = |crop: [u32; 2]| PrepareProfile {
        format: "nv12".to_owned(),
        width: 640,
        height: 480,
        crop_width: crop[0],
        crop_height: crop[1],
        letterbox: false,
        samples: 1_000,
        p50_ns: 500_000,
        p99_ns: 500_000,
        max_ns: 500_000,
    };
    Profile {
        key: ProfileKey {
            board: "host".to_owned(),
            machine: punctual_device_cpu::machine(),
            package: package.hash().to_string(),
            timing: package.timing().to_string(),
            power_mode: "default".to_owned(),
            clocks: punctual_device_cpu::clocks(),
        },
        settings: BTreeMap::new(),
        same_as: Vec::new(),
        stages: stages(package, 100),
        prepare: vec![prepare([640, 480]), prepare([192, 192])],
        beside: stages(package, 110),
        preemption_ns_max: 500_000,
        solutions: Vec::new(),
        solution_memory: SolutionMemory::default(),
        look_stride: None,
        verified: None,
        field: None,
        launches: Vec::new(),
        prepare_on_device: Vec::new(),
        preemption: Vec::new(),
    }
}

fn run(mut bench: Command, profiles: &Profiles) -> Output {
    let turns = ["--loads", "1", "--seconds", "0.4", "--turns", "1", "--json"];
    let bench = bench.arg("lending").args(turns).arg("--profiles");
    bench.arg(&profiles.0).output().expect("it runs")
}

fn report(output: &Output) -> Value {
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

#[test]
fn both_sides_answer_the_frames_of_all_cameras_and_one_of_them_has_places() {
    let Some(bench) = bench() else { return };
    let report = report(&run(bench, &Profiles::new()));
    let places = report["places"].as_array().expect("places");
    assert!(
        places.iter().any(|place| place["pays"] == true),
        "{places:?}"
    );
    let rows = report["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), ROWS, "{rows:#?}");
    let (own, lending) = rows.split_at(ROWS / 2);
    for (rows, side) in [(own, "own-home"), (lending, "lending")] {
        let tasks: Vec<&Value> = rows.iter().map(|row| &row["task"]).collect();
        assert_eq!(
            tasks[1..],
            ["streets", "signs-near", "signs-fast", "signs-far"]
        );
        for row in rows {
            assert_eq!(row["side"], side, "{row}");
            let exits = row["exits"].as_array().expect("counts by exit");
            assert!(exits.iter().any(|count| count.as_u64() > Some(0)), "{row}");
        }
    }
    assert_eq!(own[0]["frames"], lending[0]["frames"]);
    assert_eq!(own[0]["stages"]["on_places"], 0);
}
