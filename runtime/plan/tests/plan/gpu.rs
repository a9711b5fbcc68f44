//! Partitions of the GPU: whose TPCs, whose profile, whose memory.

use punctual_core::Units;
use punctual_diagnostics::{Diagnostics, Rule};
use punctual_plan::{
    DeviceKind, GpuRule, MemoryItem, MemoryRule, ModelRule, Needs, PagingRule, PlacementRule, Plan,
    PlanInputs, Policies, Purpose, Warning,
};

const GPU: &str = include_str!("../manifests/good/gpu.toml");

fn inputs(manifest: &str) -> PlanInputs {
    crate::fixture::inputs(manifest, "gpu.toml")
}

fn plan(inputs: &PlanInputs) -> Plan {
    Plan::build(inputs).unwrap_or_else(|errors| panic!("{errors}"))
}

fn built(manifest: &str) -> Plan {
    plan(&inputs(manifest))
}

fn refused(inputs: &PlanInputs) -> Diagnostics {
    Plan::build(inputs).expect_err("something is wrong")
}

/// The one cause of a refusal that is of this kind.
fn cause<T: Rule + Clone>(inputs: &PlanInputs) -> T {
    let errors = refused(inputs);
    let mut causes = errors.problems().iter().filter_map(|p| p.cause::<T>());
    let cause = causes.next().unwrap_or_else(|| panic!("{errors}"));
    assert!(causes.next().is_none(), "{errors}");
    cause.clone()
}

/// The manifest with one line replaced.
fn with(line: &str, replacement: &str) -> String {
    assert!(GPU.contains(line), "{line}");
    GPU.replacen(line, replacement, 1)
}

fn taken(items: &[MemoryItem], purpose: Purpose) -> u64 {
    let of = items.iter().filter(|item| item.purpose == purpose);
    of.map(MemoryItem::total_bytes).sum()
}

#[test]
fn tpcs_are_given_in_the_manifests_order_and_overlap_no_unit() {
    let plan = built(GPU);
    let tpcs: Vec<&[u16]> = plan.partitions.iter().map(|p| &p.tpcs[..]).collect();
    assert_eq!(tpcs, [&[][..], &[0, 1, 2, 3], &[4, 5]]);
    let units = |partition: usize| plan.scheduler.partitions[partition].units;
    assert_eq!(units(0), Units { first: 0, count: 1 });
    assert_eq!(units(1), Units { first: 1, count: 4 });
    assert_eq!(units(2), Units { first: 5, count: 2 });
    assert_eq!(plan.partitions[2].cores, [3]);
    assert!(plan.needs(DeviceKind::Cpu) && plan.needs(DeviceKind::Cuda));
    assert_eq!(plan.hash, built(GPU).hash);
}

#[test]
fn each_model_is_budgeted_by_the_profile_of_its_device() {
    let plan = built(GPU);
    let budget = |model: usize, partition: usize| {
        plan.scheduler.models[model].stages[0].times[0].on[partition].budget
    };
    // 1 ms on one core; a tenth of 0.625 ms on four TPCs; 0.1 ms on two: each by 1.25, and 20 us.
    assert_eq!(budget(0, 0).as_nanos(), 1_270_000);
    assert_eq!(budget(1, 1).as_nanos(), 98_125);
    assert_eq!(budget(1, 2).as_nanos(), 145_000);
    let devices: Vec<DeviceKind> = plan.models.iter().map(|model| model.device).collect();
    assert_eq!(devices, [DeviceKind::Cpu, DeviceKind::Cuda]);
    let shared = plan.scheduler.models[1].stages.iter();
    assert!(shared.into_iter().all(|stage| stage.runs_as.is_none()));
}

#[test]
fn what_is_to_be_measured_says_where() {
    let needs = Needs::of_manifest(
        GPU,
        "gpu.toml".as_ref(),
        &Policies::shipped(),
        &crate::fixture::cores(4),
    )
    .expect("a valid manifest");
    let of = |model: usize| (needs.models[model].device, &needs.models[model].units[..]);
    assert_eq!(of(0), (DeviceKind::Cpu, &[1][..]));
    assert_eq!(of(1), (DeviceKind::Cuda, &[2, 4][..]));
}

#[test]
fn without_the_gpus_own_profile_or_the_processors_there_is_no_plan() {
    for (missing, left) in [(1, "cpu"), (0, "gpu")] {
        let mut inputs = inputs(GPU);
        inputs.profiles.remove(missing);
        let errors = refused(&inputs);
        let mut all = errors.problems().iter();
        let mismatch =
            |cause: Option<&ModelRule>| matches!(cause, Some(ModelRule::ProfileMismatch { .. }));
        assert!(all.all(|p| mismatch(p.cause())), "{left}: {errors}");
    }
}

#[test]
fn a_machine_without_the_boards_gpu_says_so_once() {
    let mut inputs = inputs(GPU);
    inputs.host.gpu = None;
    assert_eq!(cause::<GpuRule>(&inputs), GpuRule::NoneOnHost);
    assert_eq!(refused(&inputs).problems().len(), 1);
}

#[test]
fn tpcs_that_the_power_mode_took_away_are_not_given() {
    let mut inputs = inputs(GPU);
    inputs.host.gpu.as_mut().expect("a GPU").tpcs = 4;
    let cause: GpuRule = cause(&inputs);
    let taken_away = GpuRule::TooFewTpcs {
        asked: 2,
        free: 0,
        there: 4,
        mode: None,
    };
    assert_eq!(cause, taken_away);
}

#[test]
fn a_granularity_of_zero_is_that_of_one() {
    let mut inputs = inputs(&with("tpcs = 4", "tpcs = 5"));
    inputs.host.gpu.as_mut().expect("a GPU").granularity = 0;
    assert_eq!(plan(&inputs).partitions[1].tpcs.len(), 5);
}

#[test]
fn leaders_share_their_core_with_no_partition_of_cores() {
    let overlap: PlacementRule = cause(&inputs(&with("units = 1", "cores = [3]")));
    assert!(
        matches!(overlap, PlacementRule::CoreOverlap { core: 3, .. }),
        "{overlap}"
    );
    // A partition that only says how many gives way.
    let named = built(&with("cores = [3]", "cores = [1]"));
    assert_eq!(named.partitions[0].cores, [2]);
}

#[test]
fn a_leader_on_the_daemons_core_is_warned_of_and_its_budgets_are_stretched() {
    let shared = built(&with("cores = [3]", "cores = [0]"));
    let warned = Warning::SharedCore { core: 0 };
    assert!(shared.warnings.contains(&warned), "{:?}", shared.warnings);
    let budget = |plan: &Plan| plan.scheduler.models[1].stages[0].times[0].on[2].budget;
    assert!(budget(&shared) > budget(&built(GPU)));
}

#[test]
fn a_stage_on_the_gpu_loads_its_leaders_core() {
    let plan = built(GPU);
    let load = |core| {
        let found = plan.core_loads.iter().find(|load| load.core == core);
        found.expect("a core of the plan").load
    };
    assert!(load(2) > 0.04, "leads 60 frames a second");
    assert!(load(3) == 0.0, "best-effort work is promised nothing");
}

#[test]
fn an_integrated_gpus_memory_is_the_machines_and_another_has_its_own() {
    let integrated = built(GPU);
    let gpu = integrated.gpu.as_ref().expect("a GPU");
    assert_eq!(gpu.memory, None);
    let page = 16 << 20;
    let weights = taken(&integrated.memory.items, Purpose::Weights);
    assert_eq!(weights, page + (256 << 10));

    let mut inputs = inputs(GPU);
    inputs.host.gpu.as_mut().expect("a GPU").integrated = false;
    let discrete = plan(&inputs);
    let own = discrete.gpu.as_ref().and_then(|gpu| gpu.memory.as_ref());
    let own = own.expect("its own memory");
    assert_eq!(taken(&own.items, Purpose::Weights), page);
    assert_eq!(taken(&own.items, Purpose::GpuWorkspace), 2 * 262_144);
    assert_eq!(
        discrete.memory.total_bytes() + own.total_bytes(),
        integrated.memory.total_bytes()
    );

    let host = inputs.host.gpu.as_mut().expect("a GPU");
    host.memory_bytes = own.total_bytes() - 1;
    let cause: MemoryRule = cause(&inputs);
    assert!(matches!(cause, MemoryRule::GpuExceeded { total, limit, .. } if limit == total - 1));
}

#[test]
fn a_model_that_nobody_lowered_is_not_served_by_the_gpu() {
    let mut inputs = inputs(GPU);
    inputs.packages[0].footprints.clear();
    let model = "signs-gpu".to_owned();
    let cause: ModelRule = cause(&inputs);
    assert!(matches!(cause, ModelRule::NotLowered { model: of } if of == model));
    let on_cores = GPU
        .replacen("tpcs = 4", "cores = [2]", 1)
        .replacen("tpcs = 2\n", "", 1)
        .replacen("mandatory_exit = 2", "mandatory_exit = 0", 1);
    let needs = Needs::of_manifest(
        &on_cores,
        "gpu.toml".as_ref(),
        &Policies::shipped(),
        &crate::fixture::cores(4),
    )
    .expect("a valid manifest");
    assert!(needs.models.iter().all(|m| m.device == DeviceKind::Cpu));
    inputs.manifest_text = on_cores;
    assert_eq!(plan(&inputs).gpu, None, "nothing asks for a GPU");
}

#[test]
fn weights_come_and_go_on_one_device() {
    let paged = |manifest: &str| {
        manifest
            .replacen("[daemon]", "[daemon]\nweight_cache = \"64 MiB\"", 1)
            .replacen("mandatory_exit = 2", "reserved = false", 1)
    };
    let gpu_only = paged(GPU);
    let gpu_plan = built(&gpu_only);
    assert_eq!(gpu_plan.page_bytes(), 16 << 20);
    assert_eq!(gpu_plan.scheduler.pages, 4);
    assert!(gpu_plan.scheduler.models[0].weights.is_none());
    let weights = gpu_plan.scheduler.models[1].weights.expect("paged");
    assert_eq!(weights.pages, 1);

    let both = gpu_only.replacen("deadline_ms = 33", "deadline_ms = 33\nreserved = false", 1);
    let errors = refused(&inputs(&both));
    let [problem] = errors.problems() else {
        panic!("{errors}");
    };
    assert!(
        matches!(problem.cause(), Some(PagingRule::TwoDevices { .. })),
        "{errors}"
    );
}

#[test]
fn partitions_that_the_driver_does_not_keep_apart_are_warned_of() {
    let mut inputs = inputs(GPU);
    inputs.host.gpu.as_mut().expect("a GPU").enforced = false;
    let partitions = 2;
    let warned = Warning::TpcsNotEnforced { partitions };
    assert!(plan(&inputs).warnings.contains(&warned));
}

#[test]
fn every_number_of_tpcs_is_granted_or_refused_by_its_rule() {
    for granularity in 1..=4 {
        for tpcs in 0..=130_u16 {
            let mut inputs = inputs(&with("tpcs = 4", &format!("tpcs = {tpcs}")));
            inputs.host.gpu.as_mut().expect("a GPU").granularity = granularity;
            let fits = tpcs.is_multiple_of(granularity) && (1..=6).contains(&tpcs);
            let second = 2_u16.is_multiple_of(granularity);
            match Plan::build(&inputs) {
                Ok(plan) => {
                    assert!(fits && second, "{tpcs} of {granularity}");
                    let given: Vec<u16> = (0..tpcs).collect();
                    assert_eq!(plan.partitions[1].tpcs, given);
                }
                // The profile starts at two.
                Err(_) => assert!(!fits || !second || tpcs < 2, "{tpcs} of {granularity}"),
            }
        }
    }
}
