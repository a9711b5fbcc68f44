//! Who may depend on whom, as `docs/ARCHITECTURE.md` says, compared with `cargo metadata`.
#![forbid(unsafe_code)]

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

/// Crate → those of ours that it may depend on at run time. The table in `docs/ARCHITECTURE.md`
/// is the same one in words.
const ALLOWED: &[(&str, &[&str])] = &[
    ("punctual-core", &[]),
    ("punctual-kernels", &[]),
    ("punctual-platform", &[]),
    ("punctual-model", &["core", "platform"]),
    ("punctual-device", &["core", "model", "kernels", "platform"]),
    (
        "punctual-compile",
        &["core", "model", "device", "kernels", "platform"],
    ),
    (
        "punctual-device-ort",
        &["core", "model", "device", "compile", "platform"],
    ),
    ("libsmctrl-sys", &[]),
    (
        "punctual-device-cuda",
        &["core", "model", "device", "kernels", "platform"],
    ),
    ("punctual-emulated-driver", &["kernels"]),
    ("punctual-plan", &["core", "model", "platform"]),
    ("punctual-executor", &["core"]),
    (
        "punctual-simulator",
        &["core", "plan", "model", "device", "executor", "platform"],
    ),
    ("punctual-ipc", &["platform"]),
    ("punctual-torture", &["ipc", "platform"]),
    ("punctual-client", &["ipc", "platform"]),
    ("punctual-client-c", &["client"]),
    ("punctual-camera", &["client", "platform"]),
    (
        "punctual-daemon",
        &[
            "core",
            "platform",
            "model",
            "kernels",
            "device",
            "device-cuda",
            "plan",
            "executor",
            "ipc",
        ],
    ),
    ("punctual-signs", &["kernels"]),
    ("punctual-hil", &["client", "platform"]),
    (
        "punctual",
        &[
            "core",
            "platform",
            "model",
            "kernels",
            "device",
            "device-cuda",
            "device-ort",
            "compile",
            "plan",
            "executor",
            "ipc",
            "client",
            "camera",
            "daemon",
            "simulator",
            "signs",
        ],
    ),
];

/// Dependencies from outside that a crate may have; the core's smallness is its portability.
const CORE_MAY_USE: &[&str] = &["heapless", "serde", "thiserror"];

fn dependencies() -> BTreeMap<String, BTreeSet<String>> {
    let output = Command::new(env!("CARGO"))
        .args([
            "metadata",
            "--no-deps",
            "--format-version",
            "1",
            "--offline",
        ])
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
        .output()
        .expect("cargo metadata runs");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let metadata: serde_json::Value =
        serde_json::from_slice(&output.stdout).expect("cargo metadata prints JSON");
    let packages = metadata["packages"].as_array().expect("a list of packages");
    packages
        .iter()
        .map(|package| {
            let name = package["name"].as_str().expect("a name").to_owned();
            let needs = package["dependencies"]
                .as_array()
                .expect("a list of dependencies")
                .iter()
                .filter(|dependency| dependency["kind"].is_null())
                .map(|dependency| dependency["name"].as_str().expect("a name").to_owned())
                .collect();
            (name, needs)
        })
        .collect()
}

/// The edges that the table forbids.
fn forbidden_edges(
    actual: &BTreeMap<String, BTreeSet<String>>,
    table: &[(&str, &[&str])],
) -> Vec<String> {
    let table: BTreeMap<&str, BTreeSet<String>> = table
        .iter()
        .map(|(name, may)| (*name, may.iter().map(|m| format!("punctual-{m}")).collect()))
        .collect();
    let mut found = Vec::new();
    for (name, needs) in actual {
        let Some(may) = table.get(name.as_str()) else {
            found.push(format!("{name} is not in the table"));
            continue;
        };
        for need in needs.iter().filter(|need| need.starts_with("punctual")) {
            if !may.contains(need) {
                found.push(format!("{name} → {need}"));
            }
        }
    }
    found
}

#[test]
fn crates_depend_only_on_whom_the_architecture_names() {
    assert_eq!(
        forbidden_edges(&dependencies(), ALLOWED),
        Vec::<String>::new()
    );
}

#[test]
fn a_crate_that_does_not_exist_is_not_in_the_table() {
    let actual = dependencies();
    for (name, _) in ALLOWED {
        assert!(
            actual.contains_key(*name),
            "{name} is in the table but not in the workspace"
        );
    }
}

#[test]
fn core_uses_nothing_but_what_runs_on_bare_metal() {
    let actual = dependencies();
    for need in &actual["punctual-core"] {
        assert!(
            CORE_MAY_USE.contains(&need.as_str()),
            "punctual-core → {need}"
        );
    }
}

#[test]
fn a_planted_backward_edge_is_found() {
    let mut actual = dependencies();
    actual
        .get_mut("punctual-core")
        .expect("core")
        .insert("punctual-platform".to_owned());
    actual.insert("punctual-new".to_owned(), BTreeSet::new());
    assert_eq!(
        forbidden_edges(&actual, ALLOWED),
        [
            "punctual-core → punctual-platform",
            "punctual-new is not in the table"
        ]
    );
}
