//! Layouts for made-up profiles, on a machine of four cores and eight TPCs.

use super::*;

#[path = "../../../../runtime/plan/tests/fixture/mod.rs"]
#[allow(dead_code)] // A part is used here.
mod fixture;

const TWO_ON_CORES: &str = r#"
[daemon]
board = "host"
cores = [0]

[[model]]
name = "signs"
package = "signs.punctual"

[[partition]]
name = "front"
cores = [1, 2]

[[partition]]
name = "rear"
cores = [3]

[[task]]
name = "front-camera"
model = "signs"
partition = "front"
criticality = "real-time"
rate_hz = 40
deadline_ms = 30
frame = { format = "rgb8", width = 640, height = 480, crop = [192, 192] }

[[task]]
name = "rear-camera"
model = "signs"
partition = "rear"
criticality = "real-time"
rate_hz = 40
deadline_ms = 30
frame = { format = "rgb8", width = 640, height = 480, crop = [192, 192] }
"#;

const ON_TPCS: &str =
    include_str!("../../../../runtime/plan/tests/manifests/good/layouts-gpu.toml");
const BEST_ALREADY: &str =
    include_str!("../../../../runtime/plan/tests/manifests/good/layouts.toml");

fn search(manifest: &str, busier: f64) -> Outcome {
    let inputs = fixture::inputs(manifest, "manifest.toml");
    let search = Search::new(inputs, busier).expect("the manifest has a plan");
    search.all().expect("few enough tasks")
}

fn options(busier: f64) -> Options {
    Options {
        manifest: "manifest.toml".into(),
        busier,
        profiles: Vec::new(),
        json: false,
    }
}

fn names(outcome: &Outcome) -> Vec<&str> {
    let found = outcome.found.iter();
    let found = found.flat_map(|(_, found)| &found.proposals);
    found.map(|proposal| proposal.name.as_str()).collect()
}

/// The plan of the manifest with what was printed.
fn plan_with(manifest: &str, outcome: &Outcome) -> Plan {
    let text = manifest.to_owned() + &outcome.toml(&options(outcome.busier));
    let inputs = fixture::inputs(&text, "manifest.toml");
    Plan::build(&inputs).unwrap_or_else(|errors| panic!("{errors}\n{text}"))
}

fn partition<'p>(plan: &'p Plan, name: &str) -> &'p punctual_plan::PartitionPlan {
    let mut partitions = plan.partitions.iter();
    let found = partitions.find(|partition| partition.name == name);
    found.unwrap_or_else(|| panic!("no partition {name}"))
}

#[test]
fn what_is_printed_is_accepted_behind_the_manifest_and_gives_the_busy_task_more_cores() {
    let outcome = search(TWO_ON_CORES, 4.0);
    assert_eq!(names(&outcome), ["rear-camera-busy"]);
    let text = outcome.toml(&options(4.0));
    for part in [
        "# Best at the manifest's own rates are its [[partition]]s:",
        "#   cores = [1, 2]  front-camera",
        "# While rear-camera is asked 4 times as often",
        "front-camera 16.0, rear-camera 64.0",
        "is 0.37 full; with the [[partition]]s it is 0.58 full.",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let plan = plan_with(TWO_ON_CORES, &outcome);
    assert_eq!(plan.layout_name(1), "rear-camera-busy");
    assert_eq!(partition(&plan, "rear-camera-busy-1").cores, [1, 2]);
    assert_eq!(partition(&plan, "rear-camera-busy-2").cores, [3]);
    let remarks = outcome.remarks.join("\n");
    assert!(remarks.contains("measured on 1, 2 cores"), "{remarks}");
}

#[test]
fn what_is_best_at_the_manifests_rates_is_a_layout_if_the_manifest_has_another() {
    let manifest = TWO_ON_CORES.replacen("rate_hz = 40", "rate_hz = 20", 1);
    let outcome = search(&manifest, 8.0);
    assert_eq!(names(&outcome), ["usual-cores"]);
    let text = outcome.toml(&options(8.0));
    assert!(text.contains("To begin with this layout"), "{text}");
    assert!(
        text.contains("While rear-camera is asked 8 times"),
        "{text}"
    );
    let plan = plan_with(&manifest, &outcome);
    assert_eq!(plan.layouts.len(), 1);
    // Those that it has are not found again.
    let both = manifest + &text;
    let again = search(&both, 8.0);
    assert_eq!(names(&again), [""; 0]);
}

#[test]
fn tpcs_are_divided_in_multiples_of_what_the_machine_grants() {
    let outcome = search(ON_TPCS, 4.0);
    assert_eq!(names(&outcome), ["usual-tpcs", "near-busy"]);
    let plan = plan_with(ON_TPCS, &outcome);
    assert_eq!(plan.layouts.len(), 3, "one is the manifest's own");
    assert_eq!(partition(&plan, "near-busy-2").tpcs, [4, 5, 6, 7]);
    for partition in &plan.partitions {
        assert!(partition.tpcs.len().is_multiple_of(2), "{partition:?}");
    }
    let remarks = outcome.remarks.join("\n");
    assert!(remarks.contains("\"watch\" has no `rate_hz`"), "{remarks}");
    let json: serde_json::Value = serde_json::from_str(&outcome.json()).expect("JSON");
    assert_eq!(json["layouts"][1]["partitions"][1]["units"][0], 4);
    assert_eq!(json["layouts"][1]["demands"][0]["busy"], "near");
}

#[test]
fn layouts_that_the_plan_refuses_are_left_out_and_named_with_the_reason() {
    // Without the manifest's own layout, which such a machine has no plan for.
    let (first, rest) = ON_TPCS.split_once("[[layout]]").expect("a layout");
    let (_, tasks) = rest.split_once("[[task]]").expect("a task");
    let mut inputs = fixture::inputs(&format!("{first}[[task]]{tasks}"), "manifest.toml");
    let gpu = inputs.host.gpu.as_mut().expect("the fixture has one");
    gpu.redivides = false;
    let search = Search::new(inputs, 4.0).expect("a plan");
    let outcome = search.all().expect("few enough tasks");
    assert!(outcome.is_empty());
    assert!(outcome.refused.len() > 1);
    for refused in &outcome.refused {
        let reason = &refused.reason;
        assert!(reason.contains("cannot give them"), "{reason}");
    }
    assert!(
        outcome.remarks[0].contains("it refuses"),
        "{:?}",
        outcome.remarks
    );
}

#[test]
fn a_manifest_whose_partitions_are_best_throughout_gets_none_and_is_told_so() {
    let outcome = search(BEST_ALREADY, 4.0);
    assert!(outcome.is_empty() && outcome.refused.is_empty());
    let remark = &outcome.remarks[0];
    assert!(
        remark.contains("no layout was found for the tasks on cores"),
        "{remark}"
    );
    assert!(remark.contains("4 times as busy"), "{remark}");
}

#[test]
fn more_tasks_than_can_be_grouped_are_refused_with_the_limit() {
    let (before, task) = TWO_ON_CORES.rsplit_once("[[task]]").expect("two tasks");
    let more = (0..6).map(|number| {
        let task = task.replace("rear-camera", &format!("camera-{number}"));
        format!("[[task]]{}", task.replace("rate_hz = 40", "rate_hz = 1"))
    });
    let manifest = before.to_owned() + &more.collect::<String>();
    let inputs = fixture::inputs(&manifest, "manifest.toml");
    let search = Search::new(inputs, 4.0).expect("the manifest has a plan");
    let error = search.all().err().expect("too many").to_string();
    assert!(error.contains("7 tasks run on cores"), "{error}");
    assert!(error.contains("at most 6"), "{error}");
}

#[test]
fn a_factor_that_makes_no_task_busier_is_refused() {
    assert_eq!(busier("2.5"), Ok(2.5));
    for wrong in ["1", "0", "-3", "1001", "inf", "nan", "many"] {
        assert!(busier(wrong).is_err(), "{wrong}");
    }
}
