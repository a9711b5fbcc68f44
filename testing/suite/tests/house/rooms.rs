//! Which crate may depend on which, as `docs/ARCHITECTURE.md` says, compared with `cargo metadata`.
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

/// Folders from the ground up: a crate depends on crates of its own folder or of one below it. Its own tests may also need
/// what ships, and what `testing` has for them.
const ROOMS: &[&[&str]] = &[
    &["kernels", "libsmctrl-sys"],
    &["models"],
    &["runtime"],
    &["testing", "hil-tests"],
    &["research"],
    &["bench"],
];

/// What stands in the table's last column in addition to names: nothing of ours, any crate that ships, any crate.
const WORDS: &[&str] = &["", "nothing", "what ships", "all of the above"];

/// Dependencies from outside that a crate may have; the core's smallness is its portability.
const CORE_MAY_USE: &[&str] = &["heapless", "postcard", "serde", "thiserror"];

/// What one crate declares about itself.
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
        let own = floor(&of.folder);
        let mut find = |needs: &BTreeSet<String>, highest: usize| {
            let above = |need: &&String| {
                let other = crates.get(*need);
                other.is_some_and(|other| floor(&other.folder) > highest)
            };
            found.extend(
                needs
                    .iter()
                    .filter(above)
                    .map(|need| format!("{name} → {need}")),
            );
        };
        find(&of.needs, own);
        find(&of.tests_need, own.max(floor("testing")));
    }
    found
}

/// Folder → the last parts of the folders that crates in it may depend on, from the table of `docs/ARCHITECTURE.md`.
fn table() -> BTreeMap<String, BTreeSet<String>> {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/ARCHITECTURE.md");
    let page = std::fs::read_to_string(page).expect("the page exists");
    let rows = page.lines().filter(|line| line.starts_with("| `"));
    let cells = rows.map(|row| row.trim_matches('|').split('|').collect::<Vec<_>>());
    let row = |cells: Vec<&str>| match cells[..] {
        [folder, _, may] => {
            let may = may.split(',').map(|name| name.trim().to_owned());
            Some((folder.trim().trim_matches('`').to_owned(), may.collect()))
        }
        _ => None,
    };
    cells.filter_map(row).collect()
}

/// The row of the table that a crate's folder belongs to.
fn row<'t>(
    table: &'t BTreeMap<String, BTreeSet<String>>,
    folder: &str,
) -> Option<(&'t str, &'t BTreeSet<String>)> {
    let holds = |row: &str| {
        folder
            .strip_prefix(row)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let rows = table.iter().filter(|(name, _)| holds(name));
    let row = rows.max_by_key(|(name, _)| name.len());
    row.map(|(name, may)| (name.as_str(), may))
}

/// The edges that the table does not name.
fn forbidden_edges(
    crates: &BTreeMap<String, Crate>,
    table: &BTreeMap<String, BTreeSet<String>>,
) -> Vec<String> {
    let mut found = Vec::new();
    for (name, of) in crates {
        let Some((_, may)) = row(table, &of.folder) else {
            found.push(format!("{name} is not in the table"));
            continue;
        };
        let ours = of
            .needs
            .iter()
            .filter_map(|need| Some((need, crates.get(need)?)));
        for (need, other) in ours {
            let (folder, _) = row(table, &other.folder).unwrap_or((&other.folder, may));
            let last = folder.rsplit('/').next().unwrap_or(folder);
            let ships = floor(folder) <= floor("runtime");
            if !(may.contains(last)
                || may.contains("all of the above")
                || may.contains("what ships") && ships)
            {
                found.push(format!("{name} → {need}"));
            }
        }
    }
    found
}

#[test]
fn crates_depend_only_on_whom_the_architecture_names() {
    assert_eq!(forbidden_edges(&crates(), &table()), Vec::<String>::new());
}

#[test]
fn no_crate_depends_on_one_of_a_folder_further_up() {
    let mut crates = crates();
    assert_eq!(upward(&crates), Vec::<String>::new());
    let core = crates.get_mut("punctual-core").expect("core");
    core.tests_need.insert("punctual-evaluation".to_owned());
    core.needs.insert("punctual-simulator".to_owned());
    assert_eq!(
        upward(&crates),
        [
            "punctual-core → punctual-simulator",
            "punctual-core → punctual-evaluation"
        ]
    );
}

#[test]
fn a_crate_that_does_not_exist_is_not_in_the_table() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let table = table();
    assert!(table.len() > 30, "{} rows", table.len());
    for (folder, may) in &table {
        assert!(
            root.join(folder).is_dir(),
            "{folder} is in the table, and not in the tree"
        );
        for name in may.iter().filter(|name| !WORDS.contains(&name.as_str())) {
            let known = table
                .keys()
                .any(|other| other.rsplit('/').next() == Some(name));
            assert!(
                known,
                "{folder} may depend on {name}, which is not in the table"
            );
        }
    }
}

#[test]
fn core_uses_nothing_but_what_runs_on_bare_metal() {
    for need in &crates()["punctual-core"].needs {
        assert!(
            CORE_MAY_USE.contains(&need.as_str()),
            "punctual-core → {need}"
        );
    }
}

#[test]
fn a_planted_backward_edge_is_found() {
    let mut crates = crates();
    let core = crates.get_mut("punctual-core").expect("core");
    core.needs.insert("punctual-platform".to_owned());
    let new = Crate {
        folder: "elsewhere/new".to_owned(),
        needs: BTreeSet::new(),
        tests_need: BTreeSet::new(),
    };
    crates.insert("punctual-new".to_owned(), new);
    assert_eq!(
        forbidden_edges(&crates, &table()),
        [
            "punctual-core → punctual-platform",
            "punctual-new is not in the table"
        ]
    );
}
