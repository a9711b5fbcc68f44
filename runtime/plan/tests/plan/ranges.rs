//! Policies that divide a device anew at each stage have every range of its units; on a GPU by masks, with few streams
//! and few leaders.

use punctual_core::Units;
use punctual_diagnostics::Rule;
use punctual_model::{PrepareOnDevice, StageProfile};
use punctual_plan::{
    GpuRule, LeaderWait, ModelRule, Needs, Plan, PlanInputs, Policies, PrepareRule, Purpose,
    RangesRule,
};

/// Eight TPCs, of which Algorithm 1 of SEEB-GPU gives each stage its share.
const SEEB: &str = r#"
[daemon]
board = "gpu-board"
cores = [0]
policy = "seeb"

[[model]]
name = "signs"
package = "signs.punctual"

[[partition]]
name = "left"
tpcs = 4
cores = [2]

[[partition]]
name = "right"
tpcs = 4
cores = [3]

[[task]]
name = "front"
model = "signs"
partition = "left"
criticality = "real-time"
rate_hz = 30
deadline_ms = 33
frame = { format = "rgb8", width = 640, height = 480, crop = [192, 192] }

[[task]]
name = "watch"
model = "signs"
partition = "right"
criticality = "best-effort"
frame = { format = "nv12", width = 640, height = 480, crop = [192, 192] }
"#;

fn inputs(manifest: &str) -> PlanInputs {
    let mut inputs = crate::fixture::inputs(manifest, "seeb-gpu.toml");
    inputs.host.gpu.as_mut().expect("a GPU").granularity = 1;
    for input in &mut inputs.profiles {
        let profile = input.profile.as_mut().expect("a profile");
        // No faster than on two TPCs, and measured on each number of them.
        let two = profile
            .stages
            .iter()
            .filter(|stage| stage.units == 2)
            .cloned();
        let two: Vec<_> = two.collect();
        let units = |units| {
            two.iter()
                .map(move |stage| StageProfile { units, ..*stage })
        };
        profile.stages = (1..=8).flat_map(units).collect();
    }
    inputs
}

fn built(manifest: &str) -> Plan {
    Plan::build(&inputs(manifest)).unwrap_or_else(|errors| panic!("{errors}"))
}

/// The one cause of a refusal that is of this kind.
fn cause<T: Rule + Clone>(inputs: &PlanInputs) -> T {
    let errors = Plan::build(inputs).expect_err("something is wrong");
    let mut causes = errors.problems().iter().filter_map(|p| p.cause::<T>());
    let cause = causes.next().unwrap_or_else(|| panic!("{errors}"));
    assert!(causes.next().is_none(), "{errors}");
    cause.clone()
}

#[test]
fn eight_tpcs_have_36_ranges_and_eight_streams() {
    let plan = built(SEEB);
    assert_eq!(plan.partitions.len(), 36);
    for first in 0..8 {
        let begins = |p: &&punctual_plan::PartitionPlan| p.tpcs[0] == first;
        let ranges: Vec<_> = plan.partitions.iter().filter(begins).collect();
        assert_eq!(ranges.len(), 8 - usize::from(first));
        assert!(ranges.iter().all(|range| range.cores == ranges[0].cores));
    }
    let leaders: Vec<u16> = plan.partitions.iter().map(|p| p.cores[0]).collect();
    assert!(leaders.contains(&2) && leaders.contains(&3), "{leaders:?}");
    let of = |purpose| {
        plan.memory
            .items
            .iter()
            .filter(move |i| i.purpose == purpose)
    };
    assert_eq!(of(Purpose::GpuWorkspace).count(), 8);
    let all = plan.scheduler.partitions.iter().map(|p| p.units);
    assert!(
        all.clone()
            .any(|units| units == Units { first: 0, count: 8 })
    );
    assert!(
        all.clone()
            .any(|units| units == Units { first: 5, count: 1 })
    );
}

#[test]
fn stages_are_to_be_measured_on_every_number_of_tpcs() {
    let needs = Needs::of_manifest(
        SEEB,
        "seeb-gpu.toml".as_ref(),
        &Policies::shipped(),
        &crate::fixture::cores(4),
    );
    let needs = needs.expect("a valid manifest");
    assert_eq!(needs.models[0].units, [1, 2, 3, 4, 5, 6, 7, 8]);
}

#[test]
fn a_gpu_with_memory_of_its_own_has_queues_for_ranges_of_sixteen_tpcs() {
    let card = |tpcs: u16| {
        let mut card = inputs(&SEEB.replacen("tpcs = 4", &format!("tpcs = {}", tpcs - 4), 1));
        let gpu = card.host.gpu.as_mut().expect("a GPU");
        (gpu.tpcs, gpu.integrated) = (tpcs, false);
        card
    };
    let expected = RangesRule::TooManyStreams {
        policy: "seeb",
        tpcs: 24,
        streams: 48,
        most: 16,
    };
    assert_eq!(cause::<RangesRule>(&card(24)), expected);
    let errors = Plan::build(&card(16)).err();
    let is_of_ranges = |errors: &punctual_diagnostics::Diagnostics| {
        let mut problems = errors.problems().iter();
        problems.any(|problem| problem.cause::<RangesRule>().is_some())
    };
    assert!(!errors.as_ref().is_some_and(is_of_ranges), "{errors:?}");
}

#[test]
fn streams_of_frames_count_among_the_hardware_queues() {
    let card = |tpcs: u16| {
        let sized = SEEB.replacen("tpcs = 4", &format!("tpcs = {}", tpcs - 4), 1);
        let named = "criticality = \"real-time\"\n";
        let mut card = inputs(&sized.replacen(named, &format!("{named}prepare = \"gpu\"\n"), 1));
        let gpu = card.host.gpu.as_mut().expect("a GPU");
        (gpu.tpcs, gpu.integrated) = (tpcs, false);
        for input in &mut card.profiles {
            let profile = input.profile.as_mut().expect("a profile");
            let two = profile.stages.iter().filter(|stage| stage.units == 2);
            let two: Vec<_> = two.cloned().collect();
            let more = |units| {
                two.iter()
                    .map(move |stage| StageProfile { units, ..*stage })
            };
            profile.stages.extend((9..=16).flat_map(more));
            profile.prepare_on_device.push(PrepareOnDevice {
                units: tpcs as u8 - 4,
                frames: vec![crate::fixture::prepare("rgb8", [192, 192])],
            });
        }
        card
    };
    let expected = PrepareRule::TooManyStreams {
        frames: 1,
        stages: 32,
        queues: 32,
    };
    assert_eq!(cause::<PrepareRule>(&card(16)), expected);
    assert!(expected.to_string().contains("hardware queues"));
    let errors = Plan::build(&card(15)).err();
    let of_frames = |errors: &punctual_diagnostics::Diagnostics| {
        let mut problems = errors.problems().iter();
        problems.any(|problem| problem.cause::<PrepareRule>().is_some())
    };
    assert!(!errors.as_ref().is_some_and(of_frames), "{errors:?}");
}

#[test]
fn without_masks_of_single_tpcs_the_policy_is_refused_with_the_reason() {
    let mut coarse = inputs(SEEB);
    coarse.host.gpu.as_mut().expect("a GPU").granularity = 2;
    let expected = RangesRule::Coarse {
        policy: "seeb",
        mechanism: "stream-mask".to_owned(),
        granularity: 2,
    };
    assert_eq!(cause::<RangesRule>(&coarse), expected);
    let mut green = inputs(SEEB);
    let gpu = green.host.gpu.as_mut().expect("a GPU");
    (gpu.redivides, gpu.mechanism) = (false, "green-contexts".to_owned());
    let expected = RangesRule::NotRedivided {
        policy: "seeb",
        mechanism: "green-contexts".to_owned(),
    };
    assert_eq!(cause::<RangesRule>(&green), expected);
}

#[test]
fn cores_and_tpcs_are_not_divided_together() {
    let cores = "\n[[partition]]\nname = \"core\"\ncores = [1]\n\n[[task]]";
    let mixed = SEEB.replacen("\n[[task]]", cores, 1);
    let expected = RangesRule::SeveralDevices { policy: "seeb" };
    assert_eq!(cause::<RangesRule>(&inputs(&mixed)), expected);
}

#[test]
fn leaders_that_sleep_need_figures_of_such_leaders() {
    let asleep = SEEB.replacen("policy =", "leader_wait = \"sleep\"\npolicy =", 1);
    let missing: ModelRule = cause(&inputs(&asleep));
    assert!(
        matches!(&missing, ModelRule::ProfileMismatch { wanted, .. } if wanted.ends_with("leaders sleep")),
        "{missing}"
    );
    let mut measured = inputs(&asleep);
    let machine = measured
        .host
        .gpu
        .as_ref()
        .expect("a GPU")
        .machine_asleep
        .clone();
    for input in &mut measured.profiles {
        let profile = input.profile.as_mut().expect("a profile");
        if machine.starts_with(&profile.key.machine) {
            profile.key.machine.clone_from(&machine);
        }
    }
    let plan = Plan::build(&measured).unwrap_or_else(|errors| panic!("{errors}"));
    let gpu = plan.gpu.expect("a GPU");
    assert_eq!((gpu.leader_wait, gpu.machine), (LeaderWait::Sleep, machine));
}

#[test]
fn without_tpcs_nobody_waits_for_the_gpu() {
    let manifest = include_str!("../manifests/good/written.toml");
    let asleep = manifest.replacen("board =", "leader_wait = \"sleep\", board =", 1);
    let inputs = crate::fixture::inputs(&asleep, "written.toml");
    assert_eq!(cause::<GpuRule>(&inputs), GpuRule::NobodyWaits);
}

#[test]
fn a_leader_of_partitions_that_run_at_once_serves_no_real_time_task() {
    let halves = SEEB.replacen("policy = \"seeb\"\n", "", 1).replacen(
        "tpcs = 4\ncores = [3]",
        "tpcs = 4\ncores = [2]",
        1,
    );
    let expected = GpuRule::SharedLeader {
        task: "front".to_owned(),
        other: "right".to_owned(),
        core: 2,
    };
    assert_eq!(cause::<GpuRule>(&inputs(&halves)), expected);
    let unpromised = halves.replacen(
        "criticality = \"real-time\"\nrate_hz = 30\ndeadline_ms = 33",
        "criticality = \"best-effort\"",
        1,
    );
    let plan = built(&unpromised);
    let cores: Vec<u16> = plan.partitions.iter().map(|p| p.cores[0]).collect();
    assert_eq!(cores, [2, 2]);
}
