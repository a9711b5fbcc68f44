//! Partitions that ONNX Runtime runs: which profile, which memory, what is warned of and refused.

use punctual_plan::{
    DeviceKind, DeviceRule, ModelRule, Needs, PagingRule, Plan, PlanInputs, Policies, Purpose,
    Warning,
};

const ORT: &str = include_str!("../manifests/good/ort.toml");

fn inputs(manifest: &str) -> PlanInputs {
    crate::fixture::inputs(manifest, "ort.toml")
}

fn said(inputs: &PlanInputs) -> String {
    Plan::build(inputs)
        .expect_err("something is wrong")
        .to_string()
}

#[test]
fn a_partition_of_cores_is_run_by_the_library_that_the_manifest_names() {
    let plan = Plan::build(&inputs(ORT)).unwrap_or_else(|errors| panic!("{errors}"));
    let devices: Vec<DeviceKind> = plan.partitions.iter().map(|p| p.device).collect();
    assert_eq!(devices, [DeviceKind::Cpu, DeviceKind::Ort]);
    let devices: Vec<DeviceKind> = plan.models.iter().map(|model| model.device).collect();
    assert_eq!(devices, [DeviceKind::Cpu, DeviceKind::Ort]);
    // Its own profile: twice as slow, and no stage ends before its end.
    let stage = |model: usize| plan.scheduler.models[model].stages[0].times[0].on[model].max_seen;
    assert_eq!(stage(1), stage(0) + stage(0));
    let longest = plan.scheduler.models[1].stages.iter();
    let longest = longest.map(|stage| stage.times[0].on[1].max_seen).max();
    assert!(longest.is_some());
    let warned = plan.warnings.iter().any(|warning| {
        matches!(warning, Warning::OrtPromisesLess { partition, .. } if partition == "library")
    });
    assert!(warned, "{:?}", plan.warnings);
    let lines = |purpose| {
        plan.memory
            .items
            .iter()
            .filter(move |item| item.purpose == purpose)
    };
    assert!(lines(Purpose::Weights).any(|item| item.of == "signs-ort"));
    assert!(lines(Purpose::Workspace).any(|item| item.of == "library"));
}

#[test]
fn stages_are_measured_with_the_library_by_its_own_partition_sizes() {
    let needs = Needs::of_manifest(
        ORT,
        "ort.toml".as_ref(),
        &Policies::shipped(),
        &crate::fixture::cores(4),
    );
    let needs = needs.expect("a valid manifest");
    let by_ort: Vec<_> = needs
        .models
        .iter()
        .filter(|m| m.device == DeviceKind::Ort)
        .collect();
    assert_eq!(
        (by_ort.len(), &by_ort[0].units[..], &by_ort[0].batches[..]),
        (1, &[1][..], &[1, 2][..])
    );
}

#[test]
fn what_the_library_lacks_is_refused_by_its_rule() {
    let mut without = inputs(ORT);
    without.host.ort = Err("no ONNX Runtime: set ORT_DYLIB_PATH".to_owned());
    let errors = Plan::build(&without).expect_err("no library");
    let rules: Vec<&DeviceRule> = errors.problems().iter().filter_map(|p| p.cause()).collect();
    assert!(
        matches!(rules[..], [DeviceRule::NoLibrary { .. }]),
        "{errors}"
    );

    let mut unknown = inputs(ORT);
    unknown.packages[0].footprints.clear();
    assert!(
        said(&unknown)
            .contains("the memory that model \"signs-ort\" takes with ONNX Runtime is not known")
    );

    let mut unmeasured = inputs(ORT);
    unmeasured
        .profiles
        .retain(|input| !input.path.ends_with("signs.ort.profile.json"));
    let errors = Plan::build(&unmeasured).expect_err("not measured");
    let missing = errors
        .problems()
        .iter()
        .filter_map(|p| p.cause::<ModelRule>());
    assert!(missing.count() > 0, "{errors}");

    let paged = ORT
        .replacen("[daemon]", "[daemon]\nweight_cache = \"64 MiB\"", 1)
        .replacen("batch_max = 2", "reserved = false", 1);
    let errors = Plan::build(&inputs(&paged)).expect_err("no pages");
    let refused = errors.problems().iter().filter_map(|p| p.cause());
    let refused: Vec<&PagingRule> = refused.collect();
    assert!(
        matches!(refused[..], [PagingRule::OrtDoesNotPage { .. }]),
        "{errors}"
    );
}
