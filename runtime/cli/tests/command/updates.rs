//! Packages that are replaced by newer ones: what stays valid, and what the commands say of the rest.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use punctual_model::{Calibration, Network, Package};
use punctual_signs::{CAMERA_EASIEST, CLASSES, CROP_SIDE, Scene};
use serde_json::Value;

use crate::support::{self, Folder, MANIFEST};

fn punctual(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_punctual"));
    command.args(arguments).output().expect("the command runs")
}

fn shown(path: &Path) -> &str {
    path.to_str().expect("a path in UTF-8")
}

/// All that was printed, without line breaks.
fn words(output: &Output) -> String {
    let text = [&output.stdout[..], &output.stderr[..]].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn check(folder: &Folder) -> Output {
    punctual(&["check", shown(&folder.path("manifest.toml"))])
}

fn plan_hash(folder: &Folder) -> String {
    let manifest = folder.path("manifest.toml");
    let json = punctual(&["check", shown(&manifest), "--json"]);
    let plan: Value = serde_json::from_slice(&json.stdout).expect("JSON");
    plan["hash"].as_str().expect("a hash").to_owned()
}

/// Replaces the folder's package by one of a network that was changed.
fn replace(folder: &Folder, change: impl FnOnce(&mut Network)) {
    let before = Package::decode(&support::package()).expect("the demonstration network");
    let mut network = before.network().clone();
    change(&mut network);
    let after = Package::new(network, Calibration::default()).expect("a valid network");
    folder.write("signs.punctual", &after.encode());
}

/// To one stage less.
fn shorten(network: &mut Network) {
    network.stages.pop();
    let last = network.stages.last_mut().expect("it has several");
    last.outputs.clear();
    let written = last.operators.iter().map(|it| it.output.index());
    let written = written.max().expect("it has operators");
    network.tensors.truncate(1 + written);
}

#[test]
fn a_network_that_was_trained_again_keeps_its_profile_and_is_another_plan() {
    let folder = Folder::with(MANIFEST);
    let before = plan_hash(&folder);
    replace(&folder, |network| {
        network.weights.to_mut().iter_mut().for_each(|w| *w *= 0.99);
    });
    let checked = check(&folder);
    assert_eq!(checked.status.code(), Some(0), "{checked:?}");
    let text = words(&checked);
    assert!(text.contains("with other weights, of package"), "{text}");
    assert_ne!(plan_hash(&folder), before);
}

#[test]
fn a_network_of_fewer_stages_has_no_profile_and_the_one_beside_it_is_named() {
    let folder = Folder::with(MANIFEST);
    replace(&folder, shorten);
    let checked = check(&folder);
    assert_eq!(checked.status.code(), Some(4), "{checked:?}");
    let text = words(&checked);
    assert!(
        text.contains("signs.profile.json\" is of another network"),
        "{text}"
    );
    assert!(text.contains("punctual profile"), "{text}");
}

#[test]
fn a_package_that_is_calibrated_in_place_keeps_the_profiles_beside_it_and_in_it() {
    let folder = Folder::with(MANIFEST);
    let package = folder.path("signs.punctual");
    let profile = punctual_model::Profile::read(&folder.path("signs.profile.json"));
    let measured =
        Package::read(&package).and_then(|it| it.with_profile(profile.expect("its own")));
    measured.and_then(|it| it.write(&package)).expect("written");
    let pictures = pictures(&folder);
    let calibrated = punctual(&[
        "calibrate",
        shown(&package),
        "--samples",
        shown(&pictures),
        "--temperature",
        "--into",
        shown(&package),
    ]);
    assert_eq!(calibrated.status.code(), Some(0), "{calibrated:?}");
    let after = Package::read(&package).expect("a package");
    assert!(after.calibration().samples.len() > 1);
    assert_eq!(after.profiles().len(), 1);
    let text = words(&check(&folder));
    assert!(text.contains("with other weights, of package"), "{text}");
    folder.remove("signs.profile.json");
    assert_eq!(check(&folder).status.code(), Some(0));
}

#[test]
fn of_a_folder_of_versions_the_newest_is_measured_and_then_taken() {
    let folder = Folder::with(&MANIFEST.replace("\"signs.punctual\"", "\"signs\""));
    std::fs::create_dir(folder.path("signs")).expect("a folder");
    let moved = |from: &str, to: &str| {
        std::fs::rename(folder.path(from), folder.path(to)).expect("it is there");
    };
    moved("signs.punctual", "signs/1.punctual");
    moved("signs.profile.json", "signs/1.profile.json");
    let text = words(&check(&folder));
    assert!(text.contains("signs/1.punctual ("), "{text}");

    let network = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/signs/signs.toml");
    let second = folder.path("signs/2.punctual");
    let compiled = punctual(&["compile", shown(&network), "--output", shown(&second)]);
    assert_eq!(compiled.status.code(), Some(0), "{compiled:?}");
    let text = words(&check(&folder));
    assert!(text.contains("signs/2.punctual ("), "{text}");

    replace(&folder, shorten);
    moved("signs.punctual", "signs/3.punctual");
    let text = words(&check(&folder));
    assert!(text.contains("signs/2.punctual ("), "{text}");
    assert!(
        text.contains("\"signs/3.punctual\" is newer than \"signs/2.punctual\""),
        "{text}"
    );
    let manifest = folder.path("manifest.toml");
    let measured = punctual(&["profile", shown(&manifest), "--quick"]);
    assert_eq!(measured.status.code(), Some(0), "{measured:?}");
    let text = words(&check(&folder));
    assert!(text.contains("signs/3.punctual ("), "{text}");
    assert!(!text.contains("is newer than"), "{text}");
}

/// A few of the demo's, by class.
fn pictures(folder: &Folder) -> PathBuf {
    let pictures = folder.path("pictures");
    let mut rgb = vec![0; (CROP_SIDE * CROP_SIDE * 3) as usize];
    for index in 0..24 {
        let scene = Scene::from_difficulty(78, index, CAMERA_EASIEST);
        scene.render(scene.crop(), &mut rgb);
        let class = pictures.join(CLASSES[scene.label()]);
        std::fs::create_dir_all(&class).expect("a folder for tests");
        let header = format!("P6\n{CROP_SIDE} {CROP_SIDE}\n255\n");
        let bytes = [header.as_bytes(), &rgb].concat();
        std::fs::write(class.join(format!("{index}.ppm")), bytes).expect("written");
    }
    pictures
}

#[test]
fn a_compilation_over_a_package_says_which_profiles_stay_valid_and_which_do_not() {
    let folder = Folder::with(MANIFEST);
    let network = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/documented/classifier.onnx");
    let package = folder.path("classifier.punctual");
    let compile = |normalise: &str, answer: &str| {
        let line = ["compile", shown(&network), "--normalise", normalise];
        let rest = [
            "--answer",
            answer,
            "--no-images",
            "--output",
            shown(&package),
        ];
        let compiled = punctual(&[&line[..], &rest].concat());
        assert_eq!(compiled.status.code(), Some(0), "{compiled:?}");
        words(&compiled)
    };
    let first = compile("imagenet", "classes");
    assert!(!first.contains("valid:"), "{first}");
    let made = Package::read(&package).expect("a package");
    let profile = support::profile("a machine", "unknown", &made);
    let measured = made.with_profile(profile.clone());
    measured.and_then(|it| it.write(&package)).expect("written");
    profile
        .write(&folder.path("classifier.profile.json"))
        .expect("written");

    let kept = compile("none", "classes");
    assert!(kept.contains("stays valid: "), "{kept}");
    assert!(!kept.contains("no longer valid"), "{kept}");
    let after = Package::read(&package).expect("a package");
    assert_eq!(after.profiles(), [profile]);

    let dropped = compile("none", "none");
    assert!(dropped.contains("no longer valid: "), "{dropped}");
    assert!(dropped.contains("classifier.profile.json"), "{dropped}");
    assert!(!dropped.contains("stays valid"), "{dropped}");
    let after = Package::read(&package).expect("a package");
    assert_eq!(after.profiles(), []);
}
