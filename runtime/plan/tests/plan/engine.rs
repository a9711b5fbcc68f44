//! Partitions of TPCs that an engine of others runs: which profile, which memory, which blocking, what is refused.

use punctual_diagnostics::Rule;
use punctual_plan::{
    DeviceKind, DeviceRule, EngineRule, ModelRule, Needs, PagingRule, PlaceRule, Plan, PlanInputs,
    Policies, Purpose, Warning,
};

const ENGINE: &str = include_str!("../manifests/good/engine.toml");

fn inputs(manifest: &str) -> PlanInputs {
    crate::fixture::inputs(manifest, "engine.toml")
}

/// The rules of a kind that a manifest breaks.
fn broken<R: Rule + Clone>(manifest: &str) -> Vec<R> {
    let errors = Plan::build(&inputs(manifest)).expect_err("something is wrong");
    let causes = errors.problems().iter().filter_map(|p| p.cause::<R>());
    causes.cloned().collect()
}

#[test]
fn an_engine_has_tpcs_of_its_own_behind_those_of_our_kernels() {
    let plan = Plan::build(&inputs(ENGINE)).unwrap_or_else(|errors| panic!("{errors}"));
    let [own, engine] = &plan.partitions[..] else {
        panic!("two partitions");
    };
    assert_eq!(own.device, DeviceKind::Cuda);
    assert_eq!(engine.device, DeviceKind::OrtCuda);
    assert_eq!(engine.tpcs, [4, 5]);
    assert_ne!(own.cores, engine.cores);
    let gpu = plan.gpu.as_ref().expect("a plan of the GPU");
    assert_eq!(gpu.machine, crate::fixture::GPU_MACHINE);
    // The test's GPU is integrated: what is taken there is taken of the machine's memory.
    let has = |purpose, of: &str| {
        let mut items = plan.memory.items.iter();
        items.any(|item| item.purpose == purpose && item.of == of)
    };
    assert!(has(Purpose::Weights, "signs-engine"));
    assert!(has(Purpose::GpuWorkspace, "engine"));
    assert!(has(Purpose::GpuRequests, "models of engines"));
    assert!(has(Purpose::LibraryHeap, "ONNX Runtime"));
    let warned = plan.warnings.iter().any(|warning| {
        matches!(warning, Warning::OrtPromisesLess { partition, .. } if partition == "engine")
    });
    assert!(warned, "{:?}", plan.warnings);
}

/// Its stages are not stopped: best-effort work blocks for the longest of them, as its profile says.
#[test]
fn best_effort_work_of_an_engine_blocks_for_its_longest_stage() {
    let blocked = |longest_ns: u64| {
        let mut inputs = inputs(ENGINE);
        let profile = inputs.profiles.last_mut().expect("the engine's");
        let profile = profile.profile.as_mut().expect("a profile");
        profile.preemption_ns_max = longest_ns;
        let plan = Plan::build(&inputs).unwrap_or_else(|errors| panic!("{errors}"));
        let mut reports = plan.schedulability.iter();
        let of_engine = reports.find(|report| report.partition.index() == 1);
        let bound = of_engine.and_then(|report| report.preemption);
        bound.expect("a partition with best-effort work").as_nanos()
    };
    let (short, long) = (blocked(40_000), blocked(400_000));
    assert!(long >= short + 360_000, "{short} and {long}");
}

#[test]
fn stages_are_measured_with_the_engine_by_its_own_tpcs() {
    let cores = crate::fixture::cores(4);
    let needs = Needs::of_manifest(ENGINE, "engine.toml".as_ref(), &Policies::shipped(), &cores);
    let needs = needs.expect("a valid manifest");
    let models = needs.models.iter();
    let measured: Vec<_> = models
        .map(|model| (model.device, &model.units[..], &model.batches[..]))
        .collect();
    assert_eq!(measured[0], (DeviceKind::Cuda, &[4][..], &[1][..]));
    assert_eq!(measured[1], (DeviceKind::OrtCuda, &[2][..], &[1, 2, 4][..]));
}

#[test]
fn a_folder_of_engines_is_tensorrts() {
    let manifest = ENGINE.replacen("ort-cuda", "ort-tensorrt", 1).replacen(
        "[daemon]",
        "[daemon]\nengines = \"built\"",
        1,
    );
    let (policies, cores) = (Policies::shipped(), crate::fixture::cores(4));
    let needs = Needs::of_manifest(&manifest, "engine.toml".as_ref(), &policies, &cores);
    let needs = needs.expect("a valid manifest");
    assert_eq!(needs.engines.as_deref(), Some("built"));
}

#[test]
fn an_engine_that_is_not_there_is_refused_by_name_and_with_the_reason() {
    let tensorrt = ENGINE.replacen("ort-cuda", "ort-tensorrt", 1);
    let found: Vec<EngineRule> = broken(&tensorrt);
    let [EngineRule::NotThere { device, reason }] = &found[..] else {
        panic!("{found:?}");
    };
    assert_eq!(*device, DeviceKind::OrtTensorrt);
    assert!(
        reason.contains("has no TensorrtExecutionProvider"),
        "{reason}"
    );
}

#[test]
fn what_an_engine_cannot_have_or_run_beside_is_refused_by_its_rule() {
    let of_cores = ENGINE.replacen("tpcs = 2\n", "cores = [3]\n", 1);
    assert!(matches!(broken(&of_cores)[..], [DeviceRule::NoTpcs]));

    let given = ENGINE.replacen("[daemon]", "[daemon]\nengines = \"built\"", 1);
    assert!(matches!(broken(&given)[..], [EngineRule::Unused]));

    let led_together = ENGINE
        .replacen("tpcs = 4", "tpcs = 4\ncores = [2]", 1)
        .replacen("tpcs = 2", "tpcs = 2\ncores = [2]", 1);
    let found: Vec<EngineRule> = broken(&led_together);
    assert!(
        matches!(&found[..], [EngineRule::LeaderShared { core: 2, other }] if other == "own"),
        "{found:?}"
    );

    let filled = ENGINE.replacen(
        "[[task]]",
        "[[partition]]\nname = \"filler\"\nfill = true\ncores = [1]\n\n[[task]]",
        1,
    );
    let found: Vec<EngineRule> = broken(&filled);
    assert!(
        matches!(&found[..], [EngineRule::BesideFill { filler }] if filler == "filler"),
        "{found:?}"
    );

    let lent = ENGINE.replacen(
        "[[task]]",
        "[[place]]\nname = \"wide\"\ntpcs = [2, 4]\n\n[[task]]",
        1,
    );
    let found: Vec<PlaceRule> = broken(&lent);
    assert!(
        matches!(
            found[..],
            [PlaceRule::TpcsOfNoPartition { .. } | PlaceRule::TpcsOfEngine { .. }]
        ),
        "{found:?}"
    );

    let paged = ENGINE
        .replacen("[daemon]", "[daemon]\nweight_cache = \"64 MiB\"", 1)
        .replacen("batch_max = 4", "reserved = false", 1);
    assert!(matches!(
        broken(&paged)[..],
        [PagingRule::OrtDoesNotPage { .. }]
    ));
}

#[test]
fn an_engine_needs_a_profile_that_names_it() {
    let mut unmeasured = inputs(ENGINE);
    unmeasured
        .profiles
        .retain(|input| !input.path.ends_with("signs.ort-cuda.profile.json"));
    let errors = Plan::build(&unmeasured).expect_err("not measured");
    let missing = errors
        .problems()
        .iter()
        .filter_map(|p| p.cause::<ModelRule>());
    assert!(missing.count() > 0, "{errors}");
}
