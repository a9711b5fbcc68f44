//! Who may depend on whom, as `docs/ARCHITECTURE.md` says, compared with `cargo metadata`.
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

/// Crate → those of ours that it may depend on at run time. The table in `docs/ARCHITECTURE.md`
/// is the same one in words.
const ALLOWED: &[(&str, &[&str])] = &[
    ("punctual-core", &[]),
    ("punctual-policy-seeb", &["core"]),
    ("punctual-policy-testing", &["core"]),
    ("punctual-fleet", &["core", "diagnostics", "model", "plan"]),
    ("punctual-baselines", &["core", "plan", "policy-seeb"]),
    ("punctual-kernels", &[]),
    ("punctual-platform", &[]),
    ("punctual-model", &["core", "platform"]),
    ("punctual-device", &["core", "model", "kernels", "platform"]),
    (
        "punctual-compile",
        &[
            "core",
            "diagnostics",
            "model",
            "device",
            "kernels",
            "platform",
        ],
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
    ("punctual-diagnostics", &["core", "platform"]),
    (
        "punctual-plan",
        &["core", "diagnostics", "model", "policy-seeb"],
    ),
    ("punctual-executor", &["core"]),
    ("punctual-report", &[]),
    (
        "punctual-simulator",
        &["core", "model", "device", "executor"],
    ),
    (
        "punctual-evaluation",
        &[
            "baselines",
            "core",
            "diagnostics",
            "fleet",
            "model",
            "plan",
            "platform",
            "policy-seeb",
            "report",
            "simulator",
        ],
    ),
    (
        "punctual-lab",
        &[
            "cli",
            "baselines",
            "core",
            "evaluation",
            "fleet",
            "manuals",
            "plan",
            "platform",
            "report",
            "simulator",
        ],
    ),
    (
        "punctual-bench",
        &[
            "baselines",
            "compile",
            "core",
            "device",
            "device-cuda",
            "device-ort",
            "evaluation",
            "executor",
            "kernels",
            "manuals",
            "model",
            "plan",
            "platform",
            "report",
            "simulator",
        ],
    ),
    ("punctual-manuals", &["platform"]),
    ("punctual-suite", &[]),
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
            "diagnostics",
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
            "compile",
            "plan",
            "client",
            "camera",
            "daemon",
            "report",
            "manuals",
            "signs",
        ],
    ),
];

/// Folders from the ground up: a crate depends on crates of its own folder or of one below it, in its tests, too.
const ROOMS: &[&[&str]] = &[
    &["kernels", "libsmctrl-sys"],
    &["models"],
    &["runtime"],
    &["testing", "hil-tests"],
    &["research"],
    &["bench"],
];

/// Crates whose own tests run on the emulated driver: they start the device inside the process.
const TESTS_ABOVE: &[(&str, &str)] = &[
    ("punctual-device-cuda", "punctual-emulated-driver"),
    ("punctual-daemon", "punctual-emulated-driver"),
    ("punctual", "punctual-emulated-driver"),
];

/// Dependencies from outside that a crate may have; the core's smallness is its portability.
const CORE_MAY_USE: &[&str] = &["heapless", "serde", "thiserror"];

/// What one crate says of itself.
struct Crate {
    /// Its folder, below the root.
    folder: String,
    needs: BTreeSet<String>,
    /// In tests, benchmarks and build scripts.
    tests_need: BTreeSet<String>,
}

fn crates() -> BTreeMap<String, Crate> {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let root = std::fs::canonicalize(root).expect("the root exists");
    let metadata = [
        "metadata",
        "--no-deps",
        "--format-version",
        "1",
        "--offline",
    ];
    let output = Command::new(env!("CARGO"))
        .args(metadata)
        .current_dir(&root)
        .output();
    let output = output.expect("cargo metadata runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let metadata = serde_json::from_slice::<serde_json::Value>(&output.stdout);
    let metadata = metadata.expect("cargo metadata prints JSON");
    let packages = metadata["packages"]
        .as_array()
        .expect("a list of packages")
        .iter();
    let text = |value: &serde_json::Value| value.as_str().expect("a text").to_owned();
    let of_package = |package: &serde_json::Value| {
        let needs = |at_run_time: bool| {
            let all = package["dependencies"]
                .as_array()
                .expect("a list of dependencies")
                .iter();
            all.filter(|need| need["kind"].is_null() == at_run_time)
                .map(|need| text(&need["name"]))
                .collect()
        };
        let folder = text(&package["manifest_path"]);
        let folder = Path::new(&folder)
            .strip_prefix(&root)
            .expect("below the root");
        let found = Crate {
            folder: folder.display().to_string(),
            needs: needs(true),
            tests_need: needs(false),
        };
        (text(&package["name"]), found)
    };
    packages.map(of_package).collect()
}

fn dependencies() -> BTreeMap<String, BTreeSet<String>> {
    crates()
        .into_iter()
        .map(|(name, found)| (name, found.needs))
        .collect()
}

/// How far up a folder is.
fn floor(folder: &str) -> usize {
    let room = folder.split('/').next().expect("a folder");
    let floor = ROOMS.iter().position(|rooms| rooms.contains(&room));
    floor.unwrap_or_else(|| panic!("{folder} lies in no known room"))
}

/// Dependencies on crates of folders further up.
fn upward(crates: &BTreeMap<String, Crate>) -> Vec<String> {
    let mut found = Vec::new();
    for (name, of) in crates {
        let in_tests = of
            .tests_need
            .iter()
            .filter(|need| !TESTS_ABOVE.contains(&(name, need)));
        for need in of.needs.iter().chain(in_tests) {
            if crates
                .get(need)
                .is_some_and(|other| floor(&other.folder) > floor(&of.folder))
            {
                found.push(format!("{name} → {need}"));
            }
        }
    }
    found
}

/// The package of a name in the table.
fn package(name: &str) -> String {
    match name {
        "cli" => "punctual".to_owned(),
        other => format!("punctual-{other}"),
    }
}

/// The edges that the table forbids.
fn forbidden_edges(
    actual: &BTreeMap<String, BTreeSet<String>>,
    table: &[(&str, &[&str])],
) -> Vec<String> {
    let table: BTreeMap<&str, BTreeSet<String>> = table
        .iter()
        .map(|(name, may)| (*name, may.iter().map(|m| package(m)).collect()))
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
fn no_crate_depends_on_one_of_a_folder_further_up() {
    let mut crates = crates();
    assert_eq!(upward(&crates), Vec::<String>::new());
    let core = crates.get_mut("punctual-core").expect("core");
    core.tests_need.insert("punctual-evaluation".to_owned());
    assert_eq!(upward(&crates), ["punctual-core → punctual-evaluation"]);
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
