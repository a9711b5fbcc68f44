//! What users read: the reference of keys says what the program reads, and the examples plan.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use punctual_diagnostics::Invalid;
use punctual_plan::{Board, Needs, Plan, Policies};

const LEAST: &str = include_str!("../manifests/good/least.toml");
const WRITTEN: &str = include_str!("../manifests/good/written.toml");

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// By section of docs/manifest.md: each key, and what its row gives as the default.
fn documented() -> BTreeMap<String, BTreeMap<String, String>> {
    let text = fs::read_to_string(repository().join("docs/manifest.md")).expect("the reference");
    let mut sections: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
    let mut section = String::new();
    for line in text.lines() {
        if let Some(title) = line.strip_prefix("## `") {
            let name = |c: char| c.is_ascii_lowercase() || c == '.';
            section = title
                .trim_start_matches('[')
                .split(|c| !name(c))
                .next()
                .unwrap()
                .to_owned();
        } else if let Some(row) = line.strip_prefix("| `") {
            let mut cells = row.split(" | ");
            let key = cells.next().expect("a key").trim_end_matches('`');
            let default = cells.nth(1).expect("a default");
            let keys = sections.entry(section.clone()).or_default();
            keys.insert(key.to_owned(), default.to_owned());
        }
    }
    sections
}

/// The keys that the program knows: it names them when it meets one that it does not.
fn known(section: &str, text: &str) -> BTreeSet<String> {
    assert_ne!(text, WRITTEN);
    let errors =
        Plan::build(&crate::fixture::inputs(text, "unknown.toml")).expect_err("unknown key");
    let known = errors
        .problems()
        .iter()
        .find_map(|problem| match problem.cause() {
            Some(Invalid::UnknownKey { known, .. }) => Some(known.clone()),
            _ => None,
        });
    let known = known.unwrap_or_else(|| panic!("{section}: {errors}"));
    known.iter().map(|key| (*key).to_owned()).collect()
}

#[test]
fn the_reference_lists_exactly_the_keys_that_are_read() {
    let documented = documented();
    assert_eq!(documented.len(), 8, "{documented:?}");
    for (section, keys) in documented {
        let text = match section.as_str() {
            "daemon" => WRITTEN.replace("board = ", "zzz = 1, board = "),
            "model" => WRITTEN.replace("package = ", "zzz = 1, package = "),
            "partition" => WRITTEN.replace("cores = ", "zzz = 1, cores = "),
            "place" => format!("{WRITTEN}\n[[place]]\nzzz = 1\n"),
            "recorder" => format!("{WRITTEN}\n[recorder]\nzzz = 1\n"),
            "task.vector" => format!("{WRITTEN}\n[[task.vector]]\nzzz = 1\n"),
            "task" => WRITTEN.replace("criticality = ", "zzz = 1\ncriticality = "),
            _ => WRITTEN.replace("format = ", "zzz = 1, format = "),
        };
        let keys: BTreeSet<String> = keys.into_keys().collect();
        assert_eq!(keys, known(&section, &text), "{section}");
    }
}

#[test]
fn the_defaults_of_the_reference_are_those_of_the_program() {
    let documented = documented();
    let given = |section: &str| -> Vec<String> {
        let keys = documented[section].iter();
        let given = keys.filter_map(|(key, default)| {
            let value = default.strip_prefix('`')?.strip_suffix('`')?;
            Some(format!("{key} = {value}"))
        });
        given.collect()
    };
    let (daemon, task) = (given("daemon"), given("task"));
    assert!(daemon.len() >= 7 && task.len() >= 7, "{daemon:?} {task:?}");
    let (daemon, task) = (daemon.join("\n"), task.join("\n"));
    let explicit = format!("[daemon]\n{daemon}\n{LEAST}{task}\n");
    let plan = |text: &str| Plan::build(&crate::fixture::inputs(text, "defaults.toml"));
    let explicit = plan(&explicit).unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!(explicit.hash, plan(LEAST).expect("it is good").hash);
}

/// Examples whose packages the user makes: `runtime/cli/tests/command/drawings.rs` types their commands.
const EXPORTED: [&str; 3] = ["segmenter.toml", "depth.toml", "steering.toml"];

#[test]
fn the_examples_plan_on_their_boards_without_a_warning() {
    let mut seen = 0;
    for entry in fs::read_dir(repository().join("examples")).expect("the examples") {
        let path = entry.expect("an entry").path();
        if path.extension().is_none_or(|extension| extension != "toml") {
            continue;
        }
        let text = fs::read_to_string(&path).expect("an example");
        // The others are of other commands.
        if !text.contains("[daemon]") {
            continue;
        }
        let needs = Needs::of_manifest(
            &text,
            &path,
            &Policies::shipped(),
            &crate::fixture::cores(4),
        )
        .unwrap_or_else(|errors| panic!("{errors}"));
        let name = path.file_name().expect("a name");
        if EXPORTED.iter().any(|exported| name == *exported) {
            continue;
        }
        for model in &needs.models {
            let package = repository().join("examples").join(&model.package);
            assert!(package.exists(), "{}", package.display());
        }
        let mut inputs = crate::fixture::inputs(&text, "example.toml");
        inputs.packages[0].path.clone_from(&needs.models[0].package);
        inputs.board = Board::builtin(&needs.board).expect("a board of the program");
        let cores = inputs.board.cores.as_ref().map_or(4, |fact| fact.value);
        inputs.host.cores.available = (0..cores).collect();
        for input in &mut inputs.profiles {
            let key = &mut input.profile.as_mut().expect("a profile").key;
            key.board.clone_from(&needs.board);
            if let Some(mode) = &needs.power_mode {
                key.power_mode.clone_from(mode);
            }
        }
        let plan = Plan::build(&inputs);
        let plan = plan.unwrap_or_else(|errors| panic!("{}:\n{errors}", path.display()));
        assert_eq!(plan.warnings, [], "{}", path.display());
        seen += 1;
    }
    assert!(seen >= 2);
}

#[test]
fn a_plan_has_the_same_hash_whatever_memory_is_free_and_however_large_the_program_is() {
    let hash = |free: u64, program: u64| {
        let mut inputs = crate::fixture::inputs(LEAST, "defaults.toml");
        inputs.host.memory_bytes = free;
        inputs.host.program_bytes = program;
        Plan::build(&inputs).expect("it is good").hash
    };
    assert_eq!(hash(8 << 30, 1 << 20), hash(4 << 30, 2 << 20));
}
