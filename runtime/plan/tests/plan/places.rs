//! Places: which ranges the plan offers, which of them pay, and with what budgets.

use std::path::Path;

use punctual_core::{Nanos, PartitionId, StageId};
use punctual_diagnostics::{Diagnostics, Invalid, Rule};
use punctual_plan::{
    DeviceKind, Needs, PlaceReport, PlaceRule, Plan, PlanInputs, Policies, Purpose, Role,
    StageNotProfiled, Warning,
};

use crate::fixture;

const TWO: &str = include_str!("../manifests/good/places.toml");
const GPU: &str = include_str!("../manifests/good/gpu.toml");

/// Each camera with two cores of five.
fn wide() -> String {
    TWO.replace("cores = [2]", "cores = [1, 2]")
        .replace("cores = [3]", "cores = [3, 4]")
}

/// With busy neighbours, stages take `percent` of their time alone. On three cores they take half of one's time, on four
/// 0.375 of it.
fn inputs(manifest: &str, percent: u64) -> PlanInputs {
    let mut inputs = fixture::inputs(manifest, "places.toml");
    inputs.host = fixture::host(6);
    let profile = inputs.profiles[0].profile.as_mut().expect("a profile");
    let on_one = profile.stages.iter().filter(|entry| entry.units == 1);
    let on_one: Vec<_> = on_one.copied().collect();
    for (units, eighths) in [(3, 4), (4, 3)] {
        let mut wider = fixture::beside(&on_one, eighths, 8);
        wider.iter_mut().for_each(|entry| entry.units = units);
        profile.stages.extend(wider);
    }
    profile.beside = fixture::beside(&profile.stages, percent, 100);
    inputs
}

fn plan(inputs: &PlanInputs) -> Plan {
    Plan::build(inputs).unwrap_or_else(|errors| panic!("{errors}"))
}

fn built(manifest: &str, percent: u64) -> Plan {
    plan(&inputs(manifest, percent))
}

fn refused(manifest: &str) -> Diagnostics {
    Plan::build(&inputs(manifest, 110)).expect_err("something is wrong")
}

/// The one cause of a refusal that is of this kind.
fn cause<T: Rule + Clone>(manifest: &str) -> T {
    let errors = refused(manifest);
    let mut causes = errors.problems().iter().filter_map(|p| p.cause::<T>());
    let cause = causes.next().unwrap_or_else(|| panic!("{errors}"));
    assert!(causes.next().is_none(), "{errors}");
    cause.clone()
}

fn names(plan: &Plan) -> Vec<&str> {
    plan.places
        .iter()
        .map(|place| place.name.as_str())
        .collect()
}

fn units(plan: &Plan) -> Vec<&[u16]> {
    plan.places.iter().map(|place| &place.units[..]).collect()
}

fn place<'p>(plan: &'p Plan, name: &str) -> &'p PlaceReport {
    let mut places = plan.places.iter();
    places
        .find(|place| place.name == name)
        .expect("a place of that name")
}

/// Whether a place pays for the model on the left partition, and for the one on the right.
fn pays(plan: &Plan, name: &str) -> [bool; 2] {
    let models = &place(plan, name).models;
    [0, 1].map(|model| models.iter().any(|of| of.model.0 == model && of.pays))
}

fn budget(plan: &Plan, stage: u8, partition: usize) -> Nanos {
    let stage = &plan.scheduler.models[0].stages[StageId(stage).index()];
    stage.times[0].on[partition].budget
}

#[test]
fn cells_are_disjoint_and_the_partitions_and_all_of_them_are_places_too() {
    let plan = built(&wide(), 110);
    let expected = [
        "cell-0",
        "cell-1",
        "cell-2",
        "cell-3",
        "home-of-left",
        "home-of-right",
        "all",
    ];
    assert_eq!(names(&plan), expected);
    let two = [&[1, 2][..], &[3, 4], &[1, 2, 3, 4]];
    assert_eq!(
        units(&plan),
        [&[&[1][..], &[2], &[3], &[4]][..], &two].concat()
    );
    // A cell that is a partition is one place.
    let plan = built(&wide().replace("cell = 1", "cell = 2"), 110);
    assert_eq!(names(&plan), ["cell-0", "cell-1", "all"]);
}

#[test]
fn cells_without_a_size_are_the_smallest_of_at_most_ten_that_partitions_consist_of() {
    let plan = built(&wide().replace("cell = 1\n", ""), 110);
    assert_eq!(names(&plan)[..4], ["cell-0", "cell-1", "cell-2", "cell-3"]);
}

#[test]
fn the_last_cell_has_the_rest() {
    let manifest = wide()
        .replace("[3, 4]", "[3, 4, 5]")
        .replace("cell = 1", "cell = 2");
    let plan = built(&manifest, 110);
    assert_eq!(units(&plan)[..2], [&[1, 2][..], &[3, 4, 5]]);
}

#[test]
fn without_cells_the_partitions_are_lent_whole() {
    let manifest = wide().replace("places = \"cells\"\ncell = 1", "places = \"homes\"");
    let plan = built(&manifest, 110);
    assert_eq!(names(&plan), ["home-of-left", "home-of-right"]);
    assert_eq!(pays(&plan, "home-of-left"), [false, true]);
    assert_eq!(place(&plan, "home-of-left").models.len(), 1);
}

#[test]
fn a_place_pays_up_to_its_break_even() {
    // One core takes 7 ms where two take 4.375 each: 1.25 of 7 on the own compute units, a quarter more on others.
    let near = built(&wide(), 120);
    assert_eq!(pays(&near, "cell-0"), [true, true]);
    assert_eq!(pays(&near, "home-of-right"), [true, false]);
    assert_eq!(pays(&near, "all"), [false, false]);
    let of_left = place(&near, "cell-0").models[0];
    // Noise and decisions count, too, on each core.
    let (co_run, most) = (of_left.co_run.unwrap(), of_left.break_even.unwrap());
    assert!((1.19..1.21).contains(&co_run), "{co_run}");
    // For its own partition, the slower of both times counts: alone, and with neighbours.
    assert!((1.48..1.54).contains(&most), "{most}");
    let most = place(&near, "cell-0").models[1].break_even.unwrap();
    assert!((1.90..1.96).contains(&most), "{most}");
}

/// With neighbours, stages take `percent` of their time on one core, and on more as long as alone.
fn slower_on_one(percent: u64) -> PlanInputs {
    let mut inputs = inputs(&wide(), 100);
    let profile = inputs.profiles[0].profile.as_mut().expect("a profile");
    for entry in profile.beside.iter_mut().filter(|entry| entry.units == 1) {
        *entry = fixture::beside(&[*entry], percent, 100)[0];
    }
    inputs
}

#[test]
fn on_its_own_compute_units_a_place_pays_only_if_it_uses_no_more_than_the_partition() {
    for (percent, expected) in [
        (115, [true, true]),
        (135, [false, true]),
        (150, [false, true]),
        (170, [false, false]),
    ] {
        let plan = plan(&slower_on_one(percent));
        assert_eq!(pays(&plan, "cell-0"), expected, "{percent}");
        let in_plan = plan
            .partitions
            .iter()
            .any(|partition| partition.name == "cell-0");
        assert_eq!(in_plan, expected[1], "{percent}");
    }
}

#[test]
fn only_places_that_pay_are_in_the_plan_behind_the_partitions_of_tasks() {
    let plan = built(&wide(), 110);
    for (position, partition) in plan.partitions.iter().enumerate() {
        assert_eq!(partition.is_place(), position >= 2);
        let config = &plan.scheduler.partitions[position];
        assert_eq!(usize::from(config.units.count), partition.units());
        let of = |role: &Role| matches!(role, Role::Worker { partition, .. } if partition.index() == position);
        let workers = plan.threads.iter().filter(|thread| of(&thread.role));
        let cores: Vec<u16> = workers.map(|thread| thread.core).collect();
        assert_eq!(cores, partition.cores);
    }
    for place in &plan.places {
        let PartitionId(position) = place.partition.unwrap_or(PartitionId(u16::MAX));
        let named = plan.partitions.get(usize::from(position));
        assert_eq!(named.map(|p| &p.name), place.partition.map(|_| &place.name));
        for of_model in &place.models {
            let places = &plan.scheduler.models[of_model.model.index()].places;
            assert_eq!(
                places.contains(&PartitionId(position)),
                of_model.pays,
                "{}",
                place.name
            );
        }
    }
    let workspaces = plan
        .memory
        .items
        .iter()
        .filter(|item| item.purpose == Purpose::Workspace);
    let workspaces: Vec<&str> = workspaces.map(|item| item.of.as_str()).collect();
    let names = plan
        .partitions
        .iter()
        .map(|partition| partition.name.as_str());
    let names: Vec<&str> = names.collect();
    assert_eq!(workspaces, names);
    assert!(names.len() > 2 && !names.contains(&"all"), "{names:?}");
    assert_eq!(
        plan.schedulability.len(),
        2,
        "nothing is promised on a place"
    );
}

#[test]
fn budgets_on_places_are_those_beside_neighbours_and_at_home_the_longer() {
    let without = wide().replace("places = \"cells\"\ncell = 1\n", "");
    let alone = built(&without, 150);
    let plan = built(&wide(), 110);
    let cell = place(&plan, "cell-2").partition.expect("it pays").index();
    // The budget is 1.25 of the time and 20 us.
    let us = Nanos::from_micros;
    assert_eq!(budget(&alone, 0, 0), Nanos::new(781_250) + us(20));
    assert_eq!(budget(&plan, 0, 0), Nanos::new(859_375) + us(20));
    assert_eq!(budget(&plan, 0, cell), us(1_375 + 20));
    let faster = built(&wide(), 90);
    assert_eq!(budget(&faster, 0, 0), budget(&alone, 0, 0));
}

#[test]
fn if_no_place_pays_the_plan_is_the_one_without_places_and_says_so() {
    let without = wide().replace("places = \"cells\"\ncell = 1\n", "");
    let mut inputs = inputs(&wide(), 100);
    let profile = inputs.profiles[0].profile.as_mut().expect("a profile");
    for entry in profile.beside.iter_mut() {
        let times = if entry.units == 1 { 4 } else { 2 };
        *entry = fixture::beside(&[*entry], times, 1)[0];
    }
    // Another partition as wide as the own would pay.
    inputs.manifest_text = wide().replace("places = \"cells\"\ncell = 1\n", "")
        + "[[place]]\nname = \"one\"\ncores = [2]\n";
    let plan = plan(&inputs);
    assert!(
        plan.warnings.contains(&Warning::NoPlacePays),
        "{:?}",
        plan.warnings
    );
    assert_eq!(plan.scheduler, built(&without, 100).scheduler);
    assert_eq!(plan.partitions.len(), 2);
}

#[test]
fn partitions_of_whole_cells_only() {
    let manifest = wide()
        .replace("[1, 2]", "[1, 2, 3]")
        .replace("[3, 4]", "[4]")
        .replace("cell = 1", "cell = 2");
    let expected = PlaceRule::Unaligned {
        home: "left".to_owned(),
        device: DeviceKind::Cpu,
        units: vec![1, 2, 3],
        cell: 2,
    };
    assert_eq!(cause::<PlaceRule>(&manifest), expected);
}

#[test]
fn places_can_be_written_out() {
    let written = |cores: &str| {
        wide().replace("places = \"cells\"\ncell = 1\n", "")
            + &format!("[[place]]\nname = \"middle\"\ncores = {cores}\n")
    };
    let plan = built(&written("[3, 2]"), 110);
    assert_eq!(
        (names(&plan), units(&plan)),
        (vec!["middle"], vec![&[2, 3][..]])
    );
    let cause = |cores: &str| cause::<PlaceRule>(&written(cores));
    assert!(matches!(cause("[1, 3]"), PlaceRule::NotNeighbours { .. }));
    assert!(matches!(cause("[]"), PlaceRule::NotNeighbours { .. }));
    assert!(matches!(cause("[2, 2]"), PlaceRule::NotNeighbours { .. }));
    assert!(matches!(
        cause("[5]"),
        PlaceRule::CoreOfNoPartition { core: 5, .. }
    ));
    let neither = wide() + "[[place]]\nname = \"middle\"\n";
    assert!(matches!(
        self::cause::<Invalid>(&neither),
        Invalid::ExactlyOne { both: false, .. }
    ));
}

#[test]
fn names_of_places_are_their_own() {
    let clash = wide().replace("\"left\"", "\"cell-0\"");
    assert!(matches!(
        cause::<Invalid>(&clash),
        Invalid::Duplicate { .. }
    ));
    let twice = wide() + "[[place]]\nname = \"left\"\ncores = [1]\n";
    assert!(matches!(
        cause::<Invalid>(&twice),
        Invalid::Duplicate { .. }
    ));
    let task = wide().replace("partition = \"left\"", "partition = \"cell-0\"");
    assert!(matches!(
        cause::<Invalid>(&task),
        Invalid::Unresolved { .. }
    ));
}

#[test]
fn policies_that_do_not_lend_refuse_places() {
    for policy in [
        "policy = \"seeb\"",
        "policy = { punctual = { lending = false } }",
    ] {
        let manifest = TWO.replace("share_stages = false", policy);
        assert!(
            matches!(
                cause::<PlaceRule>(&manifest),
                PlaceRule::PolicyDoesNotLend { .. }
            ),
            "{policy}"
        );
    }
}

#[test]
fn nothing_but_cells_has_a_size() {
    let unused = wide().replace("places = \"cells\"", "places = \"homes\"");
    assert_eq!(cause::<PlaceRule>(&unused), PlaceRule::CellUnused);
}

#[test]
fn there_are_at_most_128_partitions_and_places() {
    let cores = |range: std::ops::Range<u16>| format!("cores = {:?}", range.collect::<Vec<_>>());
    let manifest = TWO
        .replace("cores = [2]", &cores(1..65))
        .replace("cores = [3]", &cores(65..129));
    let mut inputs = inputs(&manifest, 110);
    inputs.host = fixture::host(130);
    let errors = Plan::build(&inputs).expect_err("too many");
    let count = errors
        .problems()
        .iter()
        .find_map(|problem| match problem.cause() {
            Some(Invalid::TooMany { count, limit, .. }) => Some((*count, *limit)),
            _ => None,
        });
    assert_eq!(count, Some((128 + 3 + 2, 128)), "{errors}");
}

#[test]
fn figures_beside_neighbours_are_asked_for() {
    let mut inputs = inputs(&wide(), 110);
    let profile = inputs.profiles[0].profile.as_mut().expect("a profile");
    profile.beside.retain(|entry| entry.units != 2);
    let errors = Plan::build(&inputs).expect_err("figures are missing");
    let causes = errors.problems().iter();
    let causes: Vec<&StageNotProfiled> = causes.filter_map(|p| p.cause()).collect();
    // The own partition lacks them; two cores of others would do with those of one.
    assert_eq!(causes.len(), 2, "{errors}");
    assert_eq!((causes[0].units, causes[0].more), (2, 2));
    assert!(causes.iter().all(|cause| cause.beside), "{errors}");
    assert!(
        errors
            .to_string()
            .contains("punctual profile --beside MANIFEST"),
        "{errors}"
    );
}

#[test]
fn what_is_to_be_measured_includes_the_sizes_of_places() {
    let of = |text: &str| {
        let needs = Needs::of_manifest(
            text,
            Path::new("places.toml"),
            &Policies::shipped(),
            &crate::fixture::cores(4),
        );
        let needs = needs.unwrap_or_else(|errors| panic!("{errors}"));
        (needs.models[0].units.clone(), needs.models[0].beside)
    };
    assert_eq!(of(&wide()), (vec![1, 2, 4], true));
    let none = wide().replace("places = \"cells\"\ncell = 1\n", "");
    assert_eq!(of(&none), (vec![2], false));
    let written = none + "[[place]]\nname = \"middle\"\ncores = [1, 2, 3]\n";
    assert_eq!(of(&written), (vec![2, 3], true));
    let gpu = GPU.replace("cores = [0]", "cores = [0]\nplaces = \"cells\"\ncell = 2");
    let needs = Needs::of_manifest(
        &gpu,
        Path::new("gpu.toml"),
        &Policies::shipped(),
        &crate::fixture::cores(4),
    );
    let needs = needs.unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!(
        (&needs.models[1].units[..], needs.models[1].beside),
        (&[2, 4, 6][..], true)
    );
}

#[test]
fn places_of_a_gpu_that_begin_inside_a_partition_have_leaders_of_their_own() {
    let built = |more: &str| {
        let manifest = GPU.replace("cores = [0]", &format!("cores = [0]\n{more}"));
        let mut inputs = fixture::inputs(&manifest, "gpu.toml");
        inputs.host = fixture::host(5);
        Plan::build(&inputs)
    };
    // One core cannot be divided.
    let written = "places = \"none\"\n[[place]]\nname = \"half\"\ntpcs = [2, 2]\n\
                   [[place]]\nname = \"head\"\ntpcs = [0, 2]\n";
    let errors = built(written).expect_err("nobody leads it");
    let cause = errors.problems()[0].cause::<PlaceRule>();
    let expected = PlaceRule::TooFewLeaders {
        begin: vec![2],
        given: 0,
    };
    assert_eq!(cause, Some(&expected), "{errors}");
    let plan = built(&format!("leader_cores = [2]\n{written}"));
    let plan = plan.unwrap_or_else(|errors| panic!("{errors}"));
    let front = plan.partitions[1].cores.clone();
    for (name, cores) in [("half", vec![2]), ("head", front)] {
        let place = plan.partitions.iter().find(|p| p.name == name);
        // A place that does not pay has no leader.
        assert!(place.is_none_or(|place| place.cores == cores), "{name}");
    }
    let rules = ["[1, 2]", "[0, 3]", "[4, 4]", "[0]", "[0, 0]"].map(|tpcs| {
        let written = format!("leader_cores = [2]\n[[place]]\nname = \"odd\"\ntpcs = {tpcs}\n");
        let errors = built(&written).expect_err("not a range of its partitions");
        errors.problems()[0]
            .cause::<PlaceRule>()
            .expect("a rule")
            .clone()
    });
    assert!(matches!(rules[0], PlaceRule::Granularity { .. }));
    assert!(matches!(rules[1], PlaceRule::Granularity { .. }));
    assert!(matches!(
        rules[2],
        PlaceRule::TpcsOfNoPartition { there: 6, .. }
    ));
    assert!(matches!(rules[3], PlaceRule::NotARange { count: 1 }));
    assert!(matches!(rules[4], PlaceRule::TpcsOfNoPartition { .. }));
}

#[test]
fn the_same_manifest_gives_the_same_plan() {
    let (one, other) = (built(&wide(), 110), built(&wide(), 110));
    assert_eq!((one.to_json(), &one.hash), (other.to_json(), &other.hash));
    assert_ne!(one.hash, built(&wide(), 120).hash);
    let none = wide().replace("places = \"cells\"\ncell = 1\n", "");
    let plan = built(&none, 110);
    assert_eq!(
        plan.hash,
        built(&none, 200).hash,
        "figures that are not used"
    );
    assert!(!plan.to_json().contains("\"use\""));
}

#[test]
fn partitions_of_a_device_without_places_that_pay_keep_their_budgets() {
    // A camera on a core, where there are no places, and one on the GPU, where a narrower place pays.
    let written = "[[place]]\nname = \"half\"\ntpcs = [0, 2]\n";
    let gpu = GPU.replace(
        "[[task]]\nname = \"near\"",
        &format!("{written}\n[[task]]\nname = \"near\""),
    );
    let mut inputs = fixture::inputs(&gpu, "gpu.toml");
    let profile = inputs.profiles[1].profile.as_mut().expect("a profile");
    profile.beside = fixture::beside(&profile.stages, 105, 100);
    let with = plan(&inputs);
    assert!(
        with.partitions.iter().any(|partition| partition.is_place()),
        "{with}"
    );
    inputs.manifest_text = GPU.to_owned();
    let without = plan(&inputs);
    let times = |plan: &Plan, model: usize, partition: usize| {
        plan.scheduler.models[model].stages[0].times[0].on[partition]
    };
    assert_eq!(times(&with, 0, 0), times(&without, 0, 0));
    assert!(times(&with, 1, 1).budget > times(&without, 1, 1).budget);
}
