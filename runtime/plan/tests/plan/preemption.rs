//! The blocking of a partition is the largest bound of the best-effort stages and batches that may run on it.

use punctual_core::Nanos;
use punctual_model::PreemptionProfile;
use punctual_plan::{Plan, PlanInputs, PreemptedStage, Warning};

const GPU: &str = include_str!("../manifests/good/gpu.toml");

/// With figures by stage in all profiles: `ns` more for each stage and batch.
fn inputs(ns: u64) -> PlanInputs {
    let mut inputs = crate::fixture::inputs(GPU, "gpu.toml");
    for input in &mut inputs.profiles {
        let profile = input.profile.as_mut().expect("a profile");
        let stages = profile.stages.iter();
        let entry = stages.map(|stage| {
            let ns = ns * (u64::from(stage.stage) + u64::from(stage.batch));
            PreemptionProfile {
                stage: stage.stage,
                batch: stage.batch,
                units: stage.units,
                samples: 1_000,
                p99_ns: ns,
                max_ns: ns,
            }
        });
        profile.preemption = entry.collect();
    }
    inputs
}

fn built(inputs: &PlanInputs) -> Plan {
    Plan::build(inputs).unwrap_or_else(|errors| panic!("{errors}"))
}

/// "rest", on which a best-effort task runs batches of one.
const REST: usize = 2;

fn bound(plan: &Plan) -> Nanos {
    plan.scheduler.partitions[REST].preemption_bound
}

#[test]
fn the_bound_is_that_of_the_stage_that_takes_longest_to_stop() {
    let plan = built(&inputs(1_000));
    // Stage 2 at batch 1, by 1.25 and 20 us.
    assert_eq!(bound(&plan).as_nanos(), 3 * 1_250 + 20_000);
    let report = &plan.schedulability[REST];
    let expected = PreemptedStage {
        model: "signs-gpu".to_owned(),
        stage: 2,
        batch: 1,
    };
    assert_eq!(report.preempted, Some(expected));
    let text = format!("{plan:200}");
    assert!(text.contains("signs-gpu, stage 2, batch 1"), "{text}");
    assert!(
        serde_json::to_string(&plan)
            .expect("JSON")
            .contains("\"preempted\"")
    );
}

#[test]
fn a_profile_without_figures_by_stage_blocks_as_long_as_before_and_is_warned_of() {
    let mut old = inputs(1_000);
    for input in &mut old.profiles {
        input
            .profile
            .as_mut()
            .expect("a profile")
            .preemption
            .clear();
    }
    let plan = built(&old);
    assert!(bound(&plan) > bound(&built(&inputs(1_000))));
    let warning = Warning::PreemptionUnmeasured {
        model: "signs-gpu".to_owned(),
    };
    assert!(plan.warnings.contains(&warning), "{:?}", plan.warnings);
    assert!(!built(&inputs(1_000)).warnings.contains(&warning));
}
