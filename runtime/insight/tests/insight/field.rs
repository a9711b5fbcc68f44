//! Profiles from the field.

use std::collections::BTreeMap;

use punctual_core::Window;
use punctual_core::{
    ActionId, Criticality, Instant, ModelId, Nanos, PartitionId, RequestId, StageId,
};
use punctual_insight::Field;
use punctual_model::{FieldFigure, Profile, ProfileKey, StageProfile};
use punctual_recording::frames::{Member, Outcome, Run, RunEnd};

fn entry(stage: u8, batch: u8, p99_ns: u64, max_ns: u64) -> StageProfile {
    StageProfile {
        stage,
        batch,
        units: 2,
        samples: 345,
        p50_ns: p99_ns / 2,
        p99_ns,
        max_ns,
    }
}

/// Stage 1 is the same as stage 0.
fn before() -> Profile {
    let word = |word: &str| word.to_owned();
    let key = ProfileKey {
        board: word("host"),
        machine: word("model avx2"),
        package: word("00"),
        timing: word("11"),
        power_mode: word("default"),
        clocks: word("unknown"),
    };
    let text = serde_json::json!({
        "key": key, "same_as": [0, 0, 2],
        "stages": [entry(0, 1, 1_000, 9_000), entry(0, 4, 3_000, 4_000), entry(2, 1, 500, 600)],
        "beside": [entry(0, 1, 1_500, 9_500)],
        "prepare": [], "preemption_ns_max": 1,
    });
    serde_json::from_value(text).expect("a profile")
}

fn run(stage: u8, batch: u8, members: u16, outcome: Outcome) -> Run {
    let member = |buffer| Member {
        request: RequestId {
            buffer,
            generation: 1,
        },
        frame: None,
    };
    Run {
        action: ActionId(1),
        partition: PartitionId(0),
        model: ModelId(0),
        stage: StageId(stage),
        batch,
        members: (0..members).map(member).collect(),
        criticality: Criticality::RealTime,
        ordered: Instant::ZERO,
        window: Window {
            earliest: Instant::ZERO,
            latest: Instant::FAR_FUTURE,
        },
        time: None,
        end: Some(RunEnd {
            learned: Instant::ZERO,
            outcome,
        }),
    }
}

fn took(ns: u64) -> Outcome {
    Outcome::Finished {
        started: Instant::ZERO,
        measured: Nanos::new(ns),
    }
}

/// By stage, batch and whether its neighbours were busy.
fn figures(profile: &Profile) -> BTreeMap<(u8, u8, bool), StageProfile> {
    let of = |entries: &[StageProfile], beside| {
        let entries = entries
            .iter()
            .map(move |e| ((e.stage, e.batch, beside), *e));
        entries.collect::<Vec<_>>()
    };
    let all = [of(&profile.stages, false), of(&profile.beside, true)];
    all.into_iter().flatten().collect()
}

#[test]
fn a_figure_with_enough_samples_is_replaced_and_the_others_stay() {
    let mut field = Field::default();
    for sample in 0..210 {
        field.run(&run(0, 1, 1, took(2_000 + sample)), 2, false);
        field.run(&run(2, 1, 1, took(700)), 2, false);
    }
    for _ in 0..206 {
        field.run(&run(0, 4, 4, took(8_000)), 2, false);
    }
    let made = field.profile(&before(), 207, "monday.mcap");
    let (old, new) = (figures(&before()), figures(&made.profile));
    assert_eq!(made.replaced, 2);
    let first = new[&(0, 1, false)];
    assert_eq!((first.samples, first.p99_ns), (210, 2_206));
    assert_eq!(first.max_ns, 9_000, "no longest time becomes shorter");
    assert_eq!(new[&(2, 1, false)].max_ns, 700);
    for kept in [(0, 4, false), (0, 1, true)] {
        assert_eq!(new[&kept], old[&kept]);
    }
    let table = format!("{:200}", made.table());
    assert!(
        table.contains("kept: fewer than 207") && table.contains("from the field"),
        "{table}"
    );
}

#[test]
fn stages_that_are_the_same_are_counted_together_and_places_apart() {
    let mut field = Field::default();
    for _ in 0..104 {
        field.run(&run(0, 1, 1, took(2_000)), 2, false);
        field.run(&run(1, 1, 1, took(3_000)), 2, false);
        field.run(&run(0, 1, 1, took(4_000)), 2, true);
        field.run(&run(1, 1, 1, took(4_000)), 2, true);
    }
    let made = field.profile(&before(), 207, "monday.mcap");
    let new = figures(&made.profile);
    assert_eq!(
        (new[&(0, 1, false)].samples, new[&(0, 1, false)].p99_ns),
        (208, 3_000)
    );
    assert_eq!(
        (new[&(0, 1, true)].samples, new[&(0, 1, true)].p99_ns),
        (208, 4_000)
    );
    assert!(!new.contains_key(&(1, 1, false)));
}

#[test]
fn a_batch_that_is_not_full_is_no_sample() {
    let mut field = Field::default();
    for _ in 0..300 {
        field.run(&run(0, 4, 3, took(10)), 2, false);
        field.run(&run(0, 4, 4, Outcome::NotRun), 2, false);
        field.run(&run(0, 4, 4, Outcome::Failed), 2, false);
    }
    let made = field.profile(&before(), 207, "monday.mcap");
    assert_eq!((made.replaced, &made.profile), (0, &before()));
}

#[test]
fn where_runs_were_preempted_no_quantile_becomes_shorter() {
    let mut field = Field::default();
    for _ in 0..300 {
        field.run(&run(0, 1, 1, took(10)), 2, false);
    }
    field.run(&run(0, 1, 1, Outcome::Preempted), 2, false);
    let made = field.profile(&before(), 207, "monday.mcap");
    assert_eq!(figures(&made.profile)[&(0, 1, false)].p99_ns, 1_000);
}

#[test]
fn a_profile_says_which_figures_are_from_which_recordings() {
    let of = |stage: u8, profile: &Profile, name: &str| {
        let mut field = Field::default();
        for _ in 0..300 {
            field.run(&run(stage, 1, 1, took(2_000)), 2, false);
        }
        field.profile(profile, 207, name).profile
    };
    let once = of(0, &before(), "monday.mcap");
    let twice = of(2, &once, "tuesday.mcap");
    let from = twice.field.clone().expect("it says so");
    assert_eq!(from.recordings, ["monday.mcap", "tuesday.mcap"]);
    let figure = |stage| FieldFigure {
        stage,
        batch: 1,
        units: 2,
    };
    assert_eq!(from.stages, [figure(0), figure(2)]);
    let read = Profile::from_json(&twice.to_json()).expect("what was written");
    assert_eq!(read, twice);
    assert_eq!(
        from.to_string(),
        "2 figures are from the field: monday.mcap, tuesday.mcap"
    );
}
