//! Plans with several layouts: what they contain, and what has to be measured for them.

use std::path::Path;

use punctual_core::{LoadRange, Nanos, PartitionId};
use punctual_plan::{LayoutChange, Needs, Plan, PlanInputs, Policies};

use crate::fixture;

const ON_CORES: &str = include_str!("../manifests/good/layouts.toml");
const ON_TPCS: &str = include_str!("../manifests/good/layouts-gpu.toml");
const LEAST: &str = include_str!("../manifests/good/least.toml");
const WITHOUT: &str = include_str!("../manifests/good/two-partitions.toml");

fn inputs(manifest: &str) -> PlanInputs {
    fixture::inputs(manifest, "layouts.toml")
}

fn plan(manifest: &str) -> Plan {
    Plan::build(&inputs(manifest)).unwrap_or_else(|errors| panic!("{errors}"))
}

fn refusal(inputs: &PlanInputs) -> String {
    let errors = Plan::build(inputs).expect_err("it is refused");
    errors.to_string()
}

fn partition(plan: &Plan, name: &str) -> PartitionId {
    let position = plan.partitions.iter().position(|p| p.name == name);
    PartitionId(position.unwrap_or_else(|| panic!("no partition {name}")) as u16)
}

#[test]
fn a_plan_without_layouts_says_nothing_of_them() {
    let json = plan(WITHOUT).to_json();
    for word in [
        "layout_changes",
        "\"layout\"",
        "\"load\": null",
        "\"least\"",
    ] {
        assert!(!json.contains(word), "{word}");
    }
    assert!(json.contains("\"layouts\": []"), "the scheduler's own list");
}

#[test]
fn a_task_that_no_partition_of_a_layout_names_stays_where_it_is() {
    let plan = plan(ON_CORES);
    let [night, reversing, lone] = &plan.layouts[..] else {
        panic!("{:?}", plan.layouts);
    };
    let names = |partitions: &[PartitionId]| -> Vec<String> {
        let names = partitions.iter();
        names
            .map(|at| plan.partitions[at.index()].name.clone())
            .collect()
    };
    assert_eq!(names(&night.partitions), ["one-core"; 3]);
    let expected = ["front-narrow", "rear-wide", "rear-wide"];
    assert_eq!(names(&reversing.partitions), expected);
    let expected = ["front-lone", "rear", "recorder-lone"];
    assert_eq!(names(&lone.partitions), expected);
    let of_scheduler: Vec<_> = plan.scheduler.layouts.iter().collect();
    assert_eq!(of_scheduler[0].partitions, night.partitions);
    let range = |least, most| Some(LoadRange { least, most });
    let loads: Vec<_> = of_scheduler.iter().map(|layout| layout.load).collect();
    assert_eq!(loads, [range(0, 200), None, range(1_500, u32::MAX)]);
    assert_eq!(plan.layout_name(0), "first");
    assert_eq!(plan.layout_name(3), "no-recorder");
}

#[test]
fn cores_of_a_layout_are_contiguous_to_the_scheduler_and_the_first_free_ones_where_units_are_given()
{
    let plan = plan(ON_CORES);
    let cores = |name| {
        plan.partitions[partition(&plan, name).index()]
            .cores
            .clone()
    };
    assert_eq!(cores("front-narrow"), [1]);
    // As written: 3, 2.
    assert_eq!(cores("rear-wide"), [2, 3]);
    let units = |name| plan.scheduler.partitions[partition(&plan, name).index()].units;
    assert_eq!((units("rear-wide").first, units("rear-wide").count), (1, 2));
    assert!(units("rear-wide").overlaps(units("front")));
    assert!(units("rear-wide").overlaps(units("rear")));
    assert!(!units("rear-wide").overlaps(units("front-narrow")));
}

#[test]
fn the_longest_wait_of_a_change_is_the_longest_stage_of_the_partitions_that_change() {
    let plan = plan(ON_CORES);
    let change = |from, to| -> &LayoutChange {
        let mut changes = plan.layout_changes.iter();
        let found = changes.find(|change| (change.from, change.to) == (from, to));
        found.expect("each pair")
    };
    assert_eq!(plan.layout_changes.len(), 4 * 3);
    // The rear camera stays, and its partition does not wait.
    let changed = ["front", "front-lone", "recorder-lone"].map(|name| partition(&plan, name));
    assert_eq!(change(0, 3).partitions, changed);
    let stage = &plan.scheduler.models[0].stages[2].times[0];
    let dispatch = plan.scheduler.dispatch_cost;
    let on_two = stage.on[partition(&plan, "front").index()].budget;
    let on_one = stage.on[partition(&plan, "one-core").index()].budget;
    assert_eq!(plan.scheduler.switch_cost, dispatch);
    assert_eq!(change(0, 3).wait, on_two + dispatch + dispatch);
    assert_eq!(change(1, 0).wait, on_one + dispatch + dispatch);
    assert!(on_two < on_one && on_one < Nanos::from_millis(6));
}

#[test]
fn each_partition_of_a_layout_has_budgets_and_a_workspace_and_threads() {
    let plan = plan(ON_CORES);
    for (position, partition) in plan.partitions.iter().enumerate() {
        let stages = plan.scheduler.models[0].stages.iter();
        let longest = stages.map(|stage| stage.times[0].on[position].budget).max();
        assert!(longest < Some(Nanos::from_millis(20)), "{}", partition.name);
        let spaces = plan.memory.items.iter();
        let spaces = spaces.filter(|item| item.of == partition.name && item.bytes > 20_000);
        assert_eq!(spaces.count(), 1, "{}", partition.name);
        let leader = plan.leader(PartitionId(position as u16)).expect("a worker");
        assert_eq!(leader.core, partition.cores[0]);
    }
}

#[test]
fn ranges_of_layouts_that_begin_at_one_tpc_have_one_leader_and_one_workspace() {
    let plan = plan(ON_TPCS);
    let of = |name| &plan.partitions[partition(&plan, name).index()];
    assert_eq!(of("near-wide").tpcs, [0, 1, 2, 3]);
    assert_eq!(of("near-wide").cores, of("near").cores);
    assert_eq!(of("far-wide").tpcs, [4, 5, 6, 7]);
    assert_eq!(of("far-wide").cores, of("rest").cores);
    let spaces = plan.memory.items.iter();
    let spaces = spaces.filter(|item| item.purpose.in_words() == "workspace on the GPU");
    let of: Vec<&str> = spaces.map(|item| item.of.as_str()).collect();
    assert_eq!(of, ["near", "far", "rest"]);
}

#[test]
fn layouts_of_tpcs_are_refused_where_masks_cannot_change() {
    let mut inputs = inputs(ON_TPCS);
    let gpu = inputs.host.gpu.as_mut().expect("a GPU");
    gpu.redivides = false;
    gpu.mechanism = "green-contexts".to_owned();
    let words = refusal(&inputs);
    let expected =
        "in layout \"busy\": partition \"near-wide\" is of TPCs, and green-contexts cannot";
    assert!(words.contains(expected), "{words}");
}

#[test]
fn all_partition_sizes_of_all_layouts_are_measured() {
    let needs = |text: &str| {
        Needs::of_manifest(text, Path::new("layouts.toml"), &Policies::shipped())
            .unwrap_or_else(|errors| panic!("{errors}"))
    };
    assert_eq!(needs(ON_TPCS).models[0].units, [2, 4]);
    let wider = ON_CORES.replace("cores = [3, 2]", "cores = [3, 2, 0]");
    assert_eq!(needs(&wider).models[0].units, [1, 2, 3]);
    // Neighbours keep busy what the first layout leaves.
    assert_eq!(needs(ON_CORES).partitions.len(), 2);
}

#[test]
fn a_model_is_on_one_device_in_all_layouts() {
    let words = refusal(&inputs(&ON_TPCS.replace("tpcs = [0, 4]", "cores = [2]")));
    assert!(words.contains("is run by"), "{words}");
}

#[test]
fn the_daemon_has_a_core_that_no_layout_names_if_there_is_one() {
    let with = |cores: &str| {
        let partition =
            format!("[[layout.partition]]\nname = \"other\"\n{cores}\ntasks = [\"one\"]\n");
        plan(&format!(
            "{LEAST}\n[[layout]]\nname = \"night\"\n{partition}"
        ))
    };
    assert_eq!(with("cores = [0]").housekeeping_cores, [1]);
    assert_eq!(with("units = 2").housekeeping_cores, [0]);
    // All are named: the first that the first layout leaves.
    assert_eq!(with("cores = [0, 1, 3]").housekeeping_cores, [0]);
}
