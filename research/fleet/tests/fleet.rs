//! Fleet files: the plans of good ones, the diagnostics of bad ones, the reference of keys. After a
//! wanted change of what is said, run with `PUNCTUAL_REWRITE=1` and read the difference.

#[path = "../../../runtime/plan/tests/fixture/mod.rs"]
#[allow(dead_code, reason = "other tests use the rest of it")]
mod fixture;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use punctual_diagnostics::{Diagnostics, Invalid};
use punctual_fleet::{FleetInputs, FleetPlan};
use punctual_plan::{ModelRule, PackageInput, ProfileInput};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn build(text: &str) -> Result<FleetPlan, Diagnostics> {
    FleetPlan::build(&FleetInputs {
        path: "fleet.toml".into(),
        text: text.to_owned(),
        ..FleetInputs::default()
    })
}

fn example() -> String {
    fs::read_to_string(repository().join("examples/fleet.toml")).expect("the example")
}

fn plan(text: &str) -> FleetPlan {
    build(text).unwrap_or_else(|errors| panic!("{errors}"))
}

fn compare(name: &str, said: &str) {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fleets")
        .join(name);
    if std::env::var_os("PUNCTUAL_REWRITE").is_some() {
        fs::write(&golden, said).expect("the golden file can be written");
    }
    let expected = fs::read_to_string(&golden).unwrap_or_default();
    assert_eq!(
        said,
        expected,
        "{} differs; see PUNCTUAL_REWRITE",
        golden.display()
    );
}

#[test]
fn the_example_gives_the_expected_tables_and_picture() {
    let plan = plan(&example());
    compare("example.expected", &format!("{plan:140}"));
    compare("example.svg", &plan.to_svg());
    let json: serde_json::Value = serde_json::from_str(&plan.to_json()).expect("JSON");
    assert_eq!(json["nodes"][0]["runs"][1]["batch"], 4);
    assert_eq!(json["unplaced"], serde_json::json!([]));
}

#[test]
fn everything_that_is_wrong_with_a_file_is_said_at_once() {
    let bad =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fleets/bad.toml"));
    let errors = build(&bad.expect("the file")).expect_err("it is bad");
    compare("bad.expected", &format!("{errors}\n"));
}

#[test]
fn every_file_that_is_empty_or_garbage_is_refused() {
    for text in [
        "",
        "\u{0}",
        "[[board]]",
        "board = 3",
        "[[query]]\nstage = [{}]",
    ] {
        let errors = build(text).expect_err(text);
        assert!(!errors.problems().is_empty());
    }
}

#[test]
fn models_that_begin_alike_are_apart_where_it_is_switched_off() {
    let text = example().replace(
        "[[board]]\nname = \"large\"",
        "[planner]\nprefix_batching = false\n\n[[board]]\nname = \"large\"",
    );
    let (apart, together) = (plan(&text), plan(&example()));
    assert_eq!(together.sessions.len() + 1, apart.sessions.len());
    let shared = together
        .sessions
        .iter()
        .find(|session| session.members.len() > 1);
    assert_eq!(shared.map(|session| session.shared_stages), Some(1));
}

#[test]
fn a_fleet_that_is_too_small_says_what_has_no_place() {
    let text = example().replace("count = 3", "count = 1");
    let plan = plan(&text);
    assert!(!plan.unplaced.is_empty());
    assert!(
        plan.to_string()
            .contains("no place: 32.0 Hz of session 2 (queue)"),
        "{plan}"
    );
}

#[test]
fn boards_of_another_kind_are_taken_when_the_first_are_full() {
    // Only a runs on two units.
    let lights = "[[session]]\nname = \"night\"\nmodel = \"a\"\nrate_hz = 30\ndeadline_ms = 400\n";
    let plan = plan(&format!(
        "{}\n{lights}",
        example().replace("count = 3", "count = 1")
    ));
    let small = plan
        .nodes
        .iter()
        .find(|node| node.board == "small")
        .expect("one is used");
    assert_eq!(small.units, 2);
    assert!(plan.boards[1].used > 0);
}

#[test]
fn a_package_with_its_profile_is_a_model() {
    let package = crate::fixture::package();
    let text = "
        [[board]]
        name = \"host\"
        partitions = [1]
        [[model]]
        name = \"signs\"
        package = \"signs.punctual\"
        [[session]]
        name = \"front\"
        model = \"signs\"
        exit = 0
        rate_hz = 10
        deadline_ms = 500
    ";
    let mut inputs = FleetInputs {
        path: "fleet.toml".into(),
        text: text.to_owned(),
        packages: vec![PackageInput {
            path: "signs.punctual".into(),
            version: None,
            package: Ok(package.clone()),
            layout: None,
            footprints: BTreeMap::new(),
        }],
        profiles: Vec::new(),
    };
    let errors = FleetPlan::build(&inputs).expect_err("no profile");
    assert!(matches!(
        errors.problems()[0].cause(),
        Some(ModelRule::ProfileMissing { .. })
    ));
    inputs.profiles = vec![ProfileInput {
        path: "signs.profile.json".into(),
        lies_with: None,
        profile: Ok(crate::fixture::profile(&package)),
    }];
    let plan = FleetPlan::build(&inputs).unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!(plan.nodes.len(), 1);
    assert_eq!(plan.sessions[0].members[0].exit, 0);
    let damaged = punctual_model::Package::decode(b"no package").expect_err("garbage");
    inputs.packages[0].package = Err(Arc::new(damaged));
    assert!(
        FleetPlan::build(&inputs)
            .expect_err("damaged")
            .is_about_files_only()
    );
}

/// By section of docs/planning.md: its keys.
fn documented() -> BTreeMap<String, BTreeSet<String>> {
    let text = fs::read_to_string(repository().join("docs/planning.md")).expect("the reference");
    let mut sections: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut section = String::new();
    for line in text.lines() {
        if let Some(title) = line.strip_prefix("## `") {
            section = title.trim_matches(['`', '[', ']']).to_owned();
        } else if let Some(row) = line.strip_prefix("| `") {
            let key = row.split('`').next().expect("a key");
            sections
                .entry(section.clone())
                .or_default()
                .insert(key.to_owned());
        }
    }
    sections
}

#[test]
fn the_reference_lists_exactly_the_keys_that_are_read() {
    let unknown = "
        planner = { zzz = 1 }
        board = [{ zzz = 1 }]
        model = [{ zzz = 1, stage = [{ zzz = 1, times = [{ zzz = 1 }] }] }]
        session = [{ zzz = 1 }]
        query = [{ zzz = 1, stage = [{ zzz = 1 }] }]
    ";
    let errors = build(unknown).expect_err("unknown keys");
    let mut known = BTreeMap::new();
    for problem in errors.problems() {
        if let Some(Invalid::UnknownKey { known: keys, .. }) = problem.cause() {
            let section = problem.key.replace("[0]", "").replace(".zzz", "");
            let keys: BTreeSet<String> = keys.iter().map(|key| (*key).to_owned()).collect();
            known.insert(section, keys);
        }
    }
    assert_eq!(known, documented());
}

#[test]
fn the_former_name_of_the_budget_factor_means_the_same_and_is_warned_of() {
    let with = |key: &str| plan(&format!("[planner]\n{key} = 1.5\n\n{}", example()));
    let (former, present) = (with("margin"), with("budget_factor"));
    assert_eq!(former.to_json(), present.to_json());
    assert_eq!(
        (former.renamed_keys.len(), present.renamed_keys.len()),
        (1, 0)
    );
}
