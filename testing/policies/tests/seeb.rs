//! Worked examples of the whole policy; Algorithms 1 and 2 alone are tested next to their code.

use punctual_core::{ACCURACY_BINS, Confidence, Config, Nanos, StageId, TaskId, Units};
use punctual_policy_seeb::{SeebConfig, fit};
use punctual_policy_testing::timeline::{self, Network, Timeline};

const SURE: Confidence = Confidence::ONE;
const UNSURE: Confidence = Confidence(0);

/// Two tasks with a network of two stages each, of 2 ms for an image and 3 ms for two, whatever the TPCs.
fn plan(ranges: &[Units]) -> Config {
    let time = |_, batch: u8, _| 1 + u64::from(batch);
    let network = || Network {
        stages: 2,
        batches: &[1, 2],
        time: &time,
    };
    let tasks = vec![timeline::task(0, 1000), timeline::task(1, 1000)];
    timeline::plan(ranges, &[network(), network()], tasks)
}

/// First stages, as (at, task, first TPC, TPCs, members).
fn begun(config: &Config, played: &Timeline) -> Vec<(u64, u16, u16, u16, usize)> {
    let first = played
        .ran
        .iter()
        .filter(|ran| ran.infer.stage == StageId(0));
    let row = |ran: &timeline::Ran| {
        let units = config.partitions[ran.infer.partition.index()].units;
        let (at, model) = (ran.at, ran.infer.model.0);
        (at, model, units.first, units.count, ran.members.len())
    };
    first.map(row).collect()
}

/// Section 3.3.1 in time: while one image holds all 42 TPCs, 10 and 20 images gather; then they
/// get TPCs 0 to 13 and 14 to 41. The published cost is per batch, so batches are of one image.
#[test]
fn groups_that_gathered_get_ranges_in_proportion_to_their_images() {
    let config = plan(&timeline::all_ranges(42));
    let images = [vec![(0, 0)], vec![(1, 0); 10], vec![(1, 1); 20]].concat();
    let played = timeline::play(&config, &SeebConfig::default(), &images, &|_, _| SURE);
    let begun = begun(&config, &played);
    assert_eq!(
        begun[..3],
        [(0, 0, 0, 42, 1), (2, 0, 0, 14, 1), (2, 1, 14, 28, 1)]
    );
    // Each image of the second group takes 2 ms: all twenty are through at 2 + 20 * 2.
    assert_eq!(played.replies[&30].0, 42);
}

#[test]
fn members_leave_at_the_first_exit_that_reaches_the_threshold() {
    let config = plan(&timeline::all_ranges(1));
    let confidence = |image, _| if image == 0 { SURE } else { UNSURE };
    let played = timeline::play(
        &config,
        &SeebConfig::default(),
        &[(0, 0), (10, 0)],
        &confidence,
    );
    let ended = |image| {
        let (at, reply) = &played.replies[&image];
        (*at, reply.answer.expect("answered").0)
    };
    assert_eq!(ended(0), (2, StageId(0)));
    assert_eq!(ended(1), (14, StageId(1)));
}

/// A group of five images gets both TPCs at 4. At the first end of a batch (of one image, 4 ms) after 10 ms,
/// two images have not begun; they share the TPCs with the one of the other task that has come meanwhile.
#[test]
fn a_group_gives_its_range_back_after_the_interval() {
    let rules = SeebConfig {
        interval: Nanos::from_millis(10),
        ..SeebConfig::default()
    };
    let config = plan(&timeline::all_ranges(2));
    let images = [vec![(0, 0)], vec![(1, 0); 5], vec![(5, 1)]].concat();
    let played = timeline::play(&config, &rules, &images, &|_, _| UNSURE);
    let begun = begun(&config, &played);
    let expected = [
        (0, 0, 0, 2, 1),
        (4, 0, 0, 2, 1),
        (8, 0, 0, 2, 1),
        (12, 0, 0, 2, 1),
        (16, 0, 0, 1, 1),
        (16, 1, 1, 1, 1),
        (20, 0, 0, 1, 1),
    ];
    assert_eq!(begun, expected);
}

/// Table 5: fixed batches wait until they are full or for the interval; without masks each task
/// has a stream on all TPCs.
#[test]
fn fixed_batches_fill_and_streams_overlap() {
    let rules = SeebConfig {
        fixed_batch: Some(2),
        tpc_masks: false,
        ..SeebConfig::default()
    };
    let all = Units {
        first: 0,
        count: 42,
    };
    let mut config = plan(&[all, all]);
    config.tasks[1].partition = punctual_core::PartitionId(1);
    let images = [(0, 0), (1, 1), (2, 0), (3, 1), (10, 0)];
    let played = timeline::play(&config, &rules, &images, &|_, _| UNSURE);
    let expected = [(2, 0, 0, 42, 2), (3, 1, 0, 42, 2), (110, 0, 0, 42, 1)];
    assert_eq!(begun(&config, &played), expected);
}

/// A network of one stage that takes exactly 3 + 2 batch + 12 / TPCs ms: the fit finds it. There
/// is nothing to leave for, so the threshold has no influence.
#[test]
fn the_fit_finds_a_latency_that_has_the_models_form() {
    let time = |_, batch: u8, units| 3 + 2 * u64::from(batch) + 12 / u64::from(units);
    let network = Network {
        stages: 1,
        batches: &[1, 2, 4],
        time: &time,
    };
    let rules = SeebConfig::default();
    let thresholds = rules.thresholds.clone();
    let ranges = timeline::all_ranges(4);
    let config = timeline::plan(&ranges, &[network], vec![timeline::task(0, 100)]);
    let model = fit(&config, TaskId(0), &thresholds);
    let near = |a: f64, b: f64| (a - b).abs() < 1.0;
    assert!(near(model.base, 3e6), "{model:?}");
    assert!(near(model.per_image, 2e6), "{model:?}");
    assert!(near(model.per_unit, 12e6), "{model:?}");
    assert!(near(model.per_threshold, 0.0), "{model:?}");
    assert!(
        model.r_squared > 0.999_999 && model.error_max < 1e-6,
        "{model:?}"
    );
}

/// Half of the requests are in the lowest bin at the first exit, half in the highest. At a
/// threshold at the middle the lower half goes on: 10 + 10 / 2 = 15 ms. At 15/16, in the middle of
/// the highest bin, half of the upper half goes on as well: 17.5 ms.
#[test]
fn the_profiled_latency_counts_a_stage_as_often_as_it_is_reached() {
    let time = |_, _, _| 10;
    let network = Network {
        stages: 2,
        batches: &[1],
        time: &time,
    };
    let ranges = timeline::all_ranges(1);
    let mut config = timeline::plan(&ranges, &[network], vec![timeline::task(0, 100)]);
    for row in &mut config.models[0].stages[0].follows {
        (row[0], row[ACCURACY_BINS - 1]) = (32_768, 32_767);
    }
    let latency = |threshold: u16| fit(&config, TaskId(0), &[Confidence(threshold)]).base;
    assert!((latency(32_768) - 15e6).abs() < 1e3, "{}", latency(32_768));
    assert!(
        (latency(61_439) - 17.5e6).abs() < 1e3,
        "{}",
        latency(61_439)
    );
    config.tasks[0].mandatory_exit = StageId(1);
    let latency = fit(&config, TaskId(0), &[Confidence(0)]).base;
    assert!((latency - 20e6).abs() < 1e3, "{latency}");
}
