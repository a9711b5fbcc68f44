//! Partitions that fill what real-time launches leave of the GPU.

use punctual_core::Units;
use punctual_diagnostics::Rule;
use punctual_model::LaunchProfile;
use punctual_plan::{
    DeviceKind, FillRule, LaunchesNotProfiled, Needs, Plan, PlanInputs, Policies, Warning,
};

const FILLED: &str = r#"
[daemon]
board = "gpu-board"
cores = [0]

[[model]]
name = "signs"
package = "signs.punctual"

[[partition]]
name = "first"
tpcs = 4
cores = [1]

[[partition]]
name = "rest"
fill = true
cores = [2]

[[task]]
name = "front"
model = "signs"
partition = "first"
criticality = "real-time"
rate_hz = 30
deadline_ms = 33
frame = { format = "rgb8", width = 640, height = 480, crop = [192, 192] }

[[task]]
name = "watch"
model = "signs"
partition = "rest"
criticality = "best-effort"
frame = { format = "nv12", width = 640, height = 480, crop = [192, 192] }
"#;

/// With masks of single TPCs, and times of launches in all profiles.
fn inputs(manifest: &str) -> PlanInputs {
    let mut inputs = crate::fixture::inputs(manifest, "fill.toml");
    inputs.host.gpu.as_mut().expect("a GPU").granularity = 1;
    for input in &mut inputs.profiles {
        let profile = input.profile.as_mut().expect("a profile");
        let launches = profile.stages.iter().map(|stage| LaunchProfile {
            stage: stage.stage,
            batch: stage.batch,
            units: stage.units,
            on: 8,
            ns: vec![5_000; 3],
            enough: vec![4; 3],
        });
        profile.launches = launches.collect();
    }
    inputs
}

fn built(inputs: &PlanInputs) -> Plan {
    Plan::build(inputs).unwrap_or_else(|errors| panic!("{errors}"))
}

/// The one cause of a refusal that is of this kind.
fn cause<T: Rule + Clone>(inputs: &PlanInputs) -> T {
    let errors = Plan::build(inputs).expect_err("something is wrong");
    let mut causes = errors.problems().iter().filter_map(|p| p.cause::<T>());
    let cause = causes.next().unwrap_or_else(|| panic!("{errors}"));
    assert!(causes.next().is_none(), "{errors}");
    cause.clone()
}

fn with(line: &str, replacement: &str) -> PlanInputs {
    assert!(FILLED.contains(line), "{line}");
    inputs(&FILLED.replacen(line, replacement, 1))
}

#[test]
fn to_the_scheduler_a_filler_is_a_device_of_its_own_whose_stages_take_long() {
    let plan = built(&inputs(FILLED));
    let units = |partition: usize| plan.scheduler.partitions[partition].units;
    assert_eq!(units(0), Units { first: 0, count: 4 });
    assert_eq!(units(1), Units { first: 4, count: 1 });
    assert_eq!(plan.partitions[1].tpcs, [0, 1, 2, 3]);
    let times = &plan.scheduler.models[0].stages[0].times[0].on;
    assert_eq!(times[1].budget.as_nanos(), 20 * times[0].budget.as_nanos());
    assert_eq!(plan.models[0].launches.len(), 3, "a list a stage");
    let fills = Warning::FillsUnmeasured {
        partition: "rest".to_owned(),
    };
    assert!(plan.warnings.contains(&fills), "{:?}", plan.warnings);
    assert!(plan.to_string().contains("partition rest, fills"), "{plan}");
}

#[test]
fn launches_are_to_be_measured_and_their_times_must_be_there() {
    let needs = Needs::of_manifest(
        FILLED,
        "fill.toml".as_ref(),
        &Policies::shipped(),
        &crate::fixture::cores(4),
    );
    let needs = needs.expect("a valid manifest");
    let model = &needs.models[0];
    assert_eq!(
        (model.device, &model.units[..]),
        (DeviceKind::Cuda, &[4][..])
    );
    assert!(model.launches);
    assert_eq!(needs.partitions.len(), 1);
    let mut unmeasured = inputs(FILLED);
    for input in &mut unmeasured.profiles {
        input.profile.as_mut().expect("a profile").launches.clear();
    }
    let missing: LaunchesNotProfiled = cause(&unmeasured);
    assert_eq!((missing.stage, missing.batch, missing.units), (0, 1, 4));
}

#[test]
fn what_contradicts_filling_is_refused_by_name() {
    let key = |key| FillRule::HasUnits { key };
    let fill = "fill = true\n";
    assert_eq!(
        cause::<FillRule>(&with(fill, "fill = true\ntpcs = 2\n")),
        key("tpcs")
    );
    assert_eq!(
        cause::<FillRule>(&with(fill, "fill = true\ndevice = \"cpu\"\n")),
        FillRule::OtherDevice {
            device: DeviceKind::Cpu
        }
    );
    assert_eq!(
        cause::<FillRule>(&with("tpcs = 4\ncores", "cores")),
        FillRule::NothingToFill
    );
    assert_eq!(
        cause::<FillRule>(&with("cores = [2]", "cores = [1]")),
        FillRule::LeaderShared {
            core: 1,
            other: "first".to_owned()
        }
    );
    assert_eq!(
        cause::<FillRule>(&with("cores = [0]", "cores = [0]\nplaces = \"cells\"")),
        FillRule::WithPlaces
    );
    assert_eq!(
        cause::<FillRule>(&with("partition = \"first\"", "partition = \"rest\"")),
        FillRule::RealTime {
            task: "front".to_owned()
        }
    );
    assert_eq!(
        cause::<FillRule>(&with("cores = [0]", "cores = [0]\npolicy = \"seeb\"")),
        FillRule::PolicyDivides { policy: "seeb" }
    );
}

#[test]
fn without_masks_of_single_tpcs_nothing_fills() {
    let mut coarse = inputs(FILLED);
    coarse.host.gpu.as_mut().expect("a GPU").granularity = 2;
    let expected = FillRule::NotRedivided {
        mechanism: "stream-mask".to_owned(),
        granularity: 2,
    };
    assert_eq!(cause::<FillRule>(&coarse), expected);
}
