//! `punctual layouts` as a process: what it prints, and how it terminates.

use std::path::Path;
use std::process::{Command, Output};

use crate::support::{Folder, MANIFEST};

fn lab(words: &[&str], manifest: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_punctual-lab"));
    let command = command.args(words).arg(manifest);
    command.output().expect("the command runs")
}

/// Both tasks on two cores, on which stages are no faster than on one.
fn both_on_two_cores() -> Option<String> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    (cores >= 2).then(|| MANIFEST.replacen("units = 1", "cores = [0, 1]", 1))
}

#[test]
fn what_is_printed_can_be_appended_to_the_manifest() {
    let Some(manifest) = both_on_two_cores() else {
        return;
    };
    let folder = Folder::with(&manifest);
    let found = lab(&["layouts"], &folder.path("manifest.toml"));
    assert_eq!(found.status.code(), Some(0), "{found:?}");
    let printed = String::from_utf8(found.stdout).expect("text");
    assert!(
        printed.contains("[[layout]]\nname = \"usual-cores\""),
        "{printed}"
    );
    folder.write("manifest.toml", (manifest + &printed).as_bytes());
    let checked = lab(&["check"], &folder.path("manifest.toml"));
    assert_eq!(checked.status.code(), Some(0), "{checked:?}");
    let said = String::from_utf8_lossy(&checked.stdout).into_owned();
    assert!(said.contains("usual-cores-2"), "{said}");
}

#[test]
fn that_nothing_is_found_is_said_and_is_a_bad_result() {
    let folder = Folder::with(MANIFEST);
    let found = lab(&["layouts", "--busier", "8"], &folder.path("manifest.toml"));
    assert_eq!(found.status.code(), Some(1), "{found:?}");
    assert!(found.stdout.is_empty(), "{found:?}");
    let said = String::from_utf8_lossy(&found.stderr).into_owned();
    assert!(
        said.contains("no layout was found for the tasks on cores"),
        "{said}"
    );
    let found = lab(&["layouts", "--json"], &folder.path("manifest.toml"));
    let json = serde_json::from_slice::<serde_json::Value>(&found.stdout).expect("JSON");
    assert_eq!(json["layouts"].as_array().map(Vec::len), Some(0));
}

#[test]
fn a_manifest_without_a_plan_is_refused_as_check_refuses_it() {
    let folder = Folder::with(&MANIFEST.replacen("deadline_ms = 500", "deadline_ms = 0.5", 1));
    let refused = lab(&["layouts"], &folder.path("manifest.toml"));
    assert_eq!(refused.status.code(), Some(3), "{refused:?}");
    let missing = lab(&["layouts"], Path::new("/nowhere/manifest.toml"));
    assert_eq!(missing.status.code(), Some(4), "{missing:?}");
    let none = lab(&["layouts", "--busier", "1"], &folder.path("manifest.toml"));
    assert_eq!(none.status.code(), Some(2), "{none:?}");
}
