//! Networks that are verified by `punctual profile` and `punctual compile`, and what `punctual check` says about it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use punctual_model::{Profile, Verified};
use serde_json::Value;

use crate::support::{Folder, MANIFEST};

fn punctual(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_punctual"));
    command.args(arguments).output().expect("the command runs")
}

fn shown(path: &Path) -> &str {
    path.to_str().expect("a path in UTF-8")
}

fn printed(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// What compiling a small network prints; the package is a file of this name.
fn classifier_compiled(package: &str, more: &[&str]) -> String {
    // Small: the reference takes its time.
    let network = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/documented/classifier.onnx");
    let package = Path::new(env!("CARGO_TARGET_TMPDIR")).join(package);
    let line = [
        "compile",
        shown(&network),
        "--normalise",
        "imagenet",
        "--answer",
        "classes",
        "--no-images",
        "--output",
        shown(&package),
    ];
    let compiled = punctual(&[&line, more].concat());
    assert_eq!(compiled.status.code(), Some(0), "{compiled:?}");
    printed(&compiled)
}

#[test]
fn a_network_is_compared_when_it_is_compiled_if_that_is_asked_for() {
    let compile = |more: &[&str]| classifier_compiled("verified.punctual", more);
    let text = compile(&["--verify"]);
    let words = "inputs at batch 1, 8: ";
    assert!(
        text.contains("verified on ") && text.contains(words),
        "{text}"
    );
    let json: Value = serde_json::from_str(&compile(&["--verify", "--json"])).expect("JSON");
    assert_eq!(json["verified"]["poisoned"], true);
    assert!(json["verified"]["values"].as_u64() > Some(0), "{json}");
    let json: Value = serde_json::from_str(&compile(&["--json"])).expect("JSON");
    assert_eq!(json.get("verified"), None);
}

#[test]
fn profiles_say_what_was_compared_and_the_check_tells() {
    let folder = Folder::with(MANIFEST);
    let manifest: PathBuf = folder.path("manifest.toml");
    let measured = punctual(&["profile", shown(&manifest), "--quick"]);
    assert_eq!(measured.status.code(), Some(0), "{measured:?}");
    assert!(
        printed(&measured).contains("agree with the reference interpreter"),
        "{measured:?}"
    );
    let profile = Profile::read(&folder.path("signs.profile.json")).expect("a profile");
    let verified = profile.verified.expect("it was verified");
    assert!(
        verified.failure.is_none() && verified.values > 0,
        "{verified:?}"
    );
    assert!(
        verified.batches.len() > 1 && verified.inputs > 1,
        "{verified:?}"
    );

    let checked = punctual(&["check", shown(&manifest)]);
    assert_eq!(checked.status.code(), Some(0), "{checked:?}");
    let text = printed(&checked);
    assert!(
        text.contains("Verified on this machine against the reference"),
        "{text}"
    );
    let json = punctual(&["check", shown(&manifest), "--json"]);
    let plan: Value = serde_json::from_str(&printed(&json)).expect("JSON");
    let model = &plan["models"][0]["verified"];
    assert_eq!(model["inputs"], verified.inputs);
}

#[test]
fn the_check_warns_of_what_was_not_verified_and_refuses_what_was_wrong() {
    let warned = Folder::with_profile(MANIFEST, |profile, _| profile.verified = None);
    let checked = punctual(&["check", shown(&warned.path("manifest.toml"))]);
    assert_eq!(checked.status.code(), Some(0), "{checked:?}");
    let text = printed(&checked)
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    assert!(
        text.contains("does not say whether its answers are right"),
        "{text}"
    );

    let wrong = Folder::with_profile(MANIFEST, |profile, _| {
        let json = r#"{"stage":0,"batch":1,"units":1,"member":0,"input":0,"output":"output",
            "found":"2","expected":"1","tolerance":"0"}"#;
        profile.verified = Some(Verified {
            failure: serde_json::from_str(json).expect("a disagreement"),
            ..Verified::default()
        });
    });
    let checked = punctual(&["check", shown(&wrong.path("manifest.toml"))]);
    assert_eq!(checked.status.code(), Some(3), "{checked:?}");
    let json = punctual(&["check", shown(&wrong.path("manifest.toml")), "--json"]);
    assert_eq!(json.status.code(), Some(3), "{json:?}");
    assert!(
        printed(&json).contains("answers wrongly on this machine"),
        "{json:?}"
    );
}

#[test]
fn a_profile_that_cannot_be_parsed_ends_the_check_with_bad_input() {
    let folder = Folder::with(MANIFEST);
    folder.write("signs.profile.json", b"no JSON at all");
    let manifest = folder.path("manifest.toml");
    let checked = punctual(&["check", shown(&manifest)]);
    assert_eq!(checked.status.code(), Some(3), "{checked:?}");
    let nowhere = folder.path("nowhere.json");
    folder.remove("signs.profile.json");
    let checked = punctual(&["check", shown(&manifest), "--profile", shown(&nowhere)]);
    assert_eq!(checked.status.code(), Some(4), "{checked:?}");
}

#[test]
fn calibration_records_that_a_new_package_lacks_are_missed_aloud() {
    let records = Path::new(env!("CARGO_TARGET_TMPDIR")).join("records.json");
    let exit = r#"{"confidence": 9, "correct": true}"#;
    let sample = format!(r#"{{"exits": [{exit}, {exit}]}}"#);
    let two = format!(r#"{{"samples": [{sample}, {sample}]}}"#);
    std::fs::write(&records, two).expect("a file");
    let compile = |more: &[&str]| classifier_compiled("records.punctual", more);
    let with = ["--calibration", shown(&records)];
    let said = |text: &str| text.contains("calibration records of 2 samples");
    assert!(!said(&compile(&with)) && !said(&compile(&with)));
    assert!(said(&compile(&[])), "the second package has none");
    assert!(!said(&compile(&[])), "there are none to lose");
}
