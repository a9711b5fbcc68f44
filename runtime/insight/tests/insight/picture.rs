//! Pages that draw a recording, and the comparison of expected and measured times.

use std::collections::BTreeMap;

use punctual_core::{Action, Event, Instant, Nanos, Verdict};
use punctual_insight::{Expected, Part, page, trace};
use punctual_recording::frames::{Follower, Item};
use punctual_recording::{Entry, Recording};
use punctual_types::Random;
use serde_json::Value;

use crate::recorded::{Recorded, long_run};

fn drawn(recorded: &Recorded, part: Part) -> (String, Value) {
    let file = recorded.file();
    let recording = Recording::of(&file).expect("a recording");
    let page = page(&recording, &recorded.setting, "a <recording>", part).expect("it is whole");
    let html = page.html();
    let (_, data) = html
        .split_once("<script type=\"application/json\">")
        .expect("a chart");
    let (data, _) = data.split_once("</script>").expect("its end");
    let data = serde_json::from_str(data).expect("JSON");
    (html, data)
}

const ALL: Part = Part {
    from: Some(Nanos::ZERO),
    length: Nanos::from_millis(3_600_000),
};

#[test]
fn a_page_has_every_row_and_needs_no_other_file() {
    let recorded = long_run();
    let (html, data) = drawn(&recorded, ALL);
    let rows = data["rows"].as_array().expect("rows");
    let groups: Vec<&str> = rows
        .iter()
        .filter_map(|row| row["group"].as_str())
        .collect();
    for group in ["Scheduler", "Tasks", "Partitions", "Clients", "Threads"] {
        assert!(groups.contains(&group), "{groups:?}");
    }
    assert!(html.contains("<title>a &lt;recording&gt;</title>"));
    assert!(!html.contains("http-equiv") && !html.contains("src="));
    let bars = data["bars"].as_array().expect("bars");
    for bar in bars {
        let (row, lane) = (&bar[0][0], &bar[0][1]);
        let row = row.as_u64().expect("a number") as usize;
        assert!(lane.as_u64() < rows[row]["lanes"].as_u64(), "{bar}");
        assert!(bar[0][2].as_f64() <= bar[0][3].as_f64(), "{bar}");
    }
    assert!(bars.len() > 300);
}

#[test]
fn until_a_frame_is_due_its_lane_is_its_own() {
    let (_, data) = drawn(&long_run(), ALL);
    let bars = data["bars"].as_array().expect("bars");
    let of = |shape: &'static str| bars.iter().filter(move |bar| bar[1][1] == shape);
    let place = |bar: &Value| (bar[0][0].as_u64(), bar[0][1].as_u64());
    assert!(of("due").count() > 10);
    for due in of("due") {
        let others = of("frame").filter(|bar| place(bar) == place(due) && bar[4] != due[4]);
        for other in others {
            let is_apart = other[0][2].as_f64() >= due[0][3].as_f64()
                || other[0][3].as_f64() <= due[0][2].as_f64();
            assert!(is_apart, "{due} in {other}");
        }
    }
}

#[test]
fn a_batch_says_how_many_frames_it_has() {
    let (_, data) = drawn(&long_run(), ALL);
    let bars = data["bars"].as_array().expect("bars");
    let runs = bars.iter().filter(|bar| bar[1][1] == "full");
    let mut batches = 0;
    for run in runs {
        let frames = run[4].as_array().map_or(0, Vec::len);
        let labels = run[2].as_array().expect("labels");
        if frames > 1 {
            batches += 1;
            assert_eq!(labels.last(), Some(&Value::from(format!("x{frames}"))));
        }
    }
    assert!(batches > 0);
}

/// Makes a verdict in the middle of a recording a late one, and returns its time.
fn make_late(recorded: &mut Recorded) -> Instant {
    let middle = recorded.entries.len() / 2;
    for entry in &mut recorded.entries[middle..] {
        let Entry::Step(step) = entry else { continue };
        for action in &mut step.actions {
            if let Action::Reply(reply) = action {
                reply.verdict = Verdict::Late;
                return step.now;
            }
        }
    }
    panic!("frames have verdicts");
}

#[test]
fn without_a_wish_the_first_late_frame_is_in_the_middle() {
    let mut recorded = long_run();
    let late = make_late(&mut recorded).as_nanos() as f64 / 1e3;
    let length = Nanos::from_millis(40);
    let (html, data) = drawn(&recorded, Part { from: None, length });
    let time = |name: &str| data[name].as_f64().expect("a time");
    let middle = f64::midpoint(time("from"), time("to"));
    assert!((middle - late).abs() < 1.0, "{middle} {late}");
    assert!((time("to") - time("from") - 40_000.0).abs() < 1.0);
    assert!(html.contains("late"));
}

#[test]
fn a_time_behind_the_end_is_an_empty_picture() {
    let recorded = long_run();
    let part = Part {
        from: Some(Nanos::from_millis(86_400_000)),
        length: Nanos::from_millis(1),
    };
    let (_, data) = drawn(&recorded, part);
    assert_eq!(data["bars"].as_array().map(Vec::len), Some(0));
}

#[test]
fn what_stages_took_is_counted_as_it_was_recorded() {
    let recorded = long_run();
    let mut expected = Expected::default();
    let mut follower = Follower::new(&recorded.setting.config);
    // By the order's id: batch and budget; what they took.
    let (mut ordered, mut took) = (BTreeMap::new(), BTreeMap::new());
    for entry in &recorded.entries {
        follower.entry(entry, &mut |item| {
            if let Item::Run(run) = item {
                expected.run(&run);
            }
        });
        let Entry::Step(step) = entry else { continue };
        if let Event::Finished(finished) = &step.event {
            took.insert(finished.action.0, finished.measured.as_nanos().max(1));
        }
        for action in &step.actions {
            if let Action::Infer(infer) = action {
                let cell = (infer.model.0, infer.stage.0, infer.batch, infer.partition.0);
                ordered.insert(infer.id.0, cell);
            }
        }
    }
    let rows = expected.rows(&recorded.setting.names);
    assert_eq!(
        rows.iter().map(|row| row.runs as usize).sum::<usize>(),
        took.len()
    );
    let longest = took.values().max();
    assert_eq!(rows.iter().map(|row| row.max_ns).max().as_ref(), longest);
    let mut over = 0;
    for (id, took) in &took {
        let (model, stage, batch, partition) = ordered[id];
        let stage = &recorded.setting.config.models[usize::from(model)].stages[usize::from(stage)];
        let time = stage
            .times
            .iter()
            .find(|time| time.batch == batch)
            .expect("planned");
        over += u64::from(*took > time.on[usize::from(partition)].budget.as_nanos());
    }
    assert!(over > 0, "weather is foul");
    assert_eq!(rows.iter().map(|row| row.over_budget).sum::<u64>(), over);
    let table = expected.table(&recorded.setting.names).to_string();
    assert!(
        table.contains("over budget") && table.contains("model-0"),
        "{table}"
    );
}

#[test]
fn damaged_recordings_are_errors_or_other_pictures() {
    let mut recorded = long_run();
    recorded.entries.truncate(250);
    let whole = recorded.file();
    let mut random = Random::new(5);
    for _ in 0..300 {
        let mut damaged = whole.clone();
        for _ in 0..random.within(1, 4) {
            let at = random.below(damaged.len() as u64) as usize;
            damaged[at] = random.next_u64() as u8;
        }
        let Ok(recording) = Recording::of(&damaged) else {
            continue;
        };
        // The plan of another recording may be named by it, too.
        let setting = recording.setting().unwrap_or(recorded.setting.clone());
        let _ = page(&recording, &setting, "damaged", ALL).map(|page| page.html());
        let ahead_ns = recording.ahead_ns().unwrap_or_default();
        let _ = trace(recording.entries(), &setting, ahead_ns, std::io::sink());
    }
}
