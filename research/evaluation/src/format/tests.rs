use std::io;

use punctual_core::{PolicySpec, PunctualConfig, TaskId, Units};

use super::*;
use punctual_simulator::arrivals::Pattern;
use punctual_simulator::run::{Settings, simulate};

const EXAMPLE: &str = include_str!("../../../../examples/workload.toml");
const REFERENCE: &str = include_str!("../../../../docs/workloads.md");

fn parse_as(path: &str, text: &str, files: Files<'_>) -> Result<Workload, Diagnostics> {
    parse(Path::new(path), text, files)
}

fn none(_: &str) -> io::Result<String> {
    Err(io::ErrorKind::NotFound.into())
}

/// A workload that is as small as can be, with further lines before the tables.
fn small(head: &str, task: &str) -> String {
    format!(
        "{head}\n[[model]]\nname = \"m\"\nlike = \"signs\"\n[[task]]\nname = \"t\"\nmodel = \"m\"\n\
         deadline_ms = 20\n{task}\n"
    )
}

fn problems(text: &str) -> String {
    parse_as("w.toml", text, &none)
        .expect_err("problems")
        .to_string()
}

#[test]
fn the_example_runs_under_every_policy() {
    let document = parse_as("examples/workload.toml", EXAMPLE, &none);
    let document = document.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(document.scenario.name, "workload");
    assert_eq!(document.policies.len(), 1);
    assert_eq!(document.scenario.faults.len(), 1);
    let settings = Settings {
        seed: 1,
        keep_requests: false,
    };
    for policy in punctual_baselines::all().iter() {
        let outcome = simulate(&document.scenario, policy, 1.0, settings, &mut ());
        let outcome = outcome.unwrap_or_else(|error| panic!("{}: {error}", policy.name()));
        assert_eq!(outcome.summary().lost, 0, "{}", policy.name());
        assert!(
            outcome.summary_of(TaskId(1)).submitted > 0,
            "{}",
            policy.name()
        );
    }
}

#[test]
fn all_queries_of_the_pipeline_of_the_example_are_on_time_and_a_follower_has_what_its_root_has() {
    let text = include_str!("../../../../examples/traffic.toml");
    let workload = parse_as("examples/traffic.toml", text, &none);
    let mut scenario = workload.unwrap_or_else(|error| panic!("{error}")).scenario;
    let [street, cars, faces, _] = &scenario.tasks[..] else {
        panic!("four tasks");
    };
    for (follower, most) in [(cars, 8), (faces, 4)] {
        let config = &follower.config;
        assert_eq!((config.reserved, config.burst), (true, most));
        assert_eq!(config.period, street.config.period);
        // The deadline of the root, the hand-over, and all preparations.
        let us = 45_000 + 200 + 100 * u64::from(most);
        assert_eq!(config.jitter, Nanos::from_micros(us));
    }
    scenario.length = Nanos::from_millis(5_000);
    let settings = Settings {
        seed: 1,
        keep_requests: false,
    };
    let policy = PunctualConfig::default();
    let outcome = simulate(&scenario, &policy, 1.0, settings, &mut ());
    let outcome = outcome.expect("the plan is valid");
    let [queries] = outcome.queries[..] else {
        panic!("one pipeline: {:?}", outcome.queries);
    };
    assert_eq!((queries.submitted, queries.on_time), (75, 75));
    assert!(queries.parts > 300, "{queries:?}");
    assert_eq!(queries.parts, queries.parts_on_time);
}

#[test]
fn what_a_pipeline_lacks_is_named() {
    let without = small("", "arrivals = { kind = \"parts\", after = \"t\" }");
    assert!(problems(&without).contains("at_most"));
    let beyond = "arrivals = { kind = \"parts\", after = \"t\", at_most = 4, fan_out = 5 }";
    assert!(problems(&small("", beyond)).contains("fan_out"));
}

#[test]
fn every_block_of_the_reference_can_be_read() {
    let blocks: Vec<&str> = REFERENCE
        .split("```toml\n")
        .skip(1)
        .filter_map(|rest| rest.split("```").next())
        .collect();
    assert!(blocks.len() >= 2, "{}", blocks.len());
    for block in blocks {
        if let Err(error) = parse_as("docs.toml", block, &none) {
            panic!("{error}\n{block}");
        }
    }
}

#[test]
fn the_smallest_workload_has_sensible_rest() {
    let text = small("", "arrivals = { kind = \"periodic\", rate_hz = 30 }");
    let document = parse_as("small.toml", &text, &none).expect("it can be read");
    let task = &document.scenario.tasks[0];
    assert!(
        task.config.reserved,
        "a periodic real-time task is promised"
    );
    assert_eq!(task.config.period.as_nanos(), 33_333_333);
    assert_eq!(document.scenario.planned.len(), 1);
}

#[test]
fn all_problems_come_at_once_with_line_key_and_rule() {
    let text = "secnds = 3\n[board]\nunits = 0\n[[model]]\nname = \"m\"\nlike = \"sings\"\n\
                [[task]]\nname = \"t\"\nmodel = \"x\"\ndeadline_ms = -1\n\
                arrivals = { kind = \"poisson\", rate = 3 }\n";
    let errors = parse_as("w.toml", text, &none).expect_err("problems");
    let found = errors.problems().iter().map(|problem| {
        let line = problem.place.as_ref().map_or(0, |place| place.line);
        format!(
            "{line}: `{}`: {}; {}",
            problem.key,
            problem.cause,
            problem.cause.help()
        )
    });
    let found: Vec<String> = found.collect();
    for expected in [
        "1: `secnds`: unknown key `secnds`; did you mean `seconds`?",
        "3: `board.units`: expected 1 to 256, found 0; choose 1 to 256",
        "6: `model[0].like`: \"sings\" is not one of `",
        "9: `task[0].model`: there is no model \"x\", only `m`; choose `m`",
        "10: `task[0].deadline_ms`: expected 0.001 to 3600000 ms, found -1",
        "11: `task[0].arrivals.rate_hz`: `rate_hz` is missing: expected a number",
        "11: `task[0].arrivals.rate`: unknown key `rate`; did you mean `rate_hz`?",
    ] {
        let said = found.iter().any(|problem| problem.starts_with(expected));
        assert!(said, "no `{expected}` in:\n{errors}");
    }
    assert!(
        errors.to_string().ends_with("7 problems, no workload"),
        "{errors}"
    );
}

#[test]
fn what_is_no_workload_is_refused() {
    assert!(problems("").contains("there is no [[model]]"));
    assert!(problems("a = ").contains("w.toml:1:"));
    assert!(problems(&"#\n".repeat(600_000)).contains("1200000 bytes or more, and at most"));
    let nan = small("seconds = nan", "arrivals = { kind = \"continuous\" }");
    assert!(problems(&nan).contains("expected 0.001 to 1000000 s, found NaN"));
    let file = read(Path::new("/nowhere/w.toml"))
        .expect_err("not there")
        .to_string();
    assert!(file.contains("cannot read the file"), "{file}");
}

#[test]
fn a_promise_that_cannot_be_kept_is_refused() {
    let text = small("", "arrivals = { kind = \"periodic\", rate_hz = 1000 }");
    assert!(problems(&text).contains("the default policy refuses the plan"));
    let extra = small(
        "",
        "reserved = false\narrivals = { kind = \"periodic\", rate_hz = 1000 }",
    );
    assert!(parse_as("w.toml", &extra, &none).is_ok());
}

#[test]
fn a_recording_is_given_to_the_tasks_that_play_it() {
    let text = small(
        "trace = \"t.csv\"",
        "arrivals = { kind = \"trace\", repeat_ms = 100 }",
    );
    let files = |name: &str| match name {
        "t.csv" => Ok("time_ms,task\n5,t\n50,t,12\n".to_owned()),
        _ => Err(io::ErrorKind::NotFound.into()),
    };
    let document = parse_as("w.toml", &text, &files).unwrap_or_else(|error| panic!("{error}"));
    let Pattern::Trace { entries, .. } = &document.scenario.tasks[0].pattern else {
        panic!("a recording");
    };
    assert_eq!(entries.len(), 2);
    assert!(problems(&text).contains("t.csv cannot be read"));
    let wrong = |_: &str| Ok("5,u\n".to_owned());
    let error = parse_as("w.toml", &text, &wrong)
        .expect_err("no task u")
        .to_string();
    assert!(
        error.contains("t.csv: line 1: no task `u` has arrivals of kind `trace`"),
        "{error}"
    );
}

#[test]
fn parameters_of_policies_are_checked() {
    let arrivals = "arrivals = { kind = \"continuous\" }";
    let with = |policy: &str| small("", &format!("{arrivals}\n{policy}"));
    let document = parse_as("w.toml", &with("[policy.branchynet]\nbatch = 4"), &none);
    assert_eq!(document.expect("fine").policies[0].name(), "branchynet");
    assert!(problems(&with("[policy.branchy]\nx = 1")).contains("\"branchy\" is not one of"));
    assert!(problems(&with("[policy.branchynet]\nx = 1")).contains("key: policy.branchynet"));
}

#[test]
fn partitions_can_be_given() {
    let text = small(
        "[board]\nunits = 2\n[[partition]]\nunits = 1\ntasks = [\"t\"]",
        "arrivals = { kind = \"continuous\" }",
    );
    let document = parse_as("w.toml", &text, &none).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(
        document.scenario.planned,
        [(Units { first: 0, count: 1 }, vec![0])]
    );
    let text = text.replace("tasks = [\"t\"]", "tasks = []");
    assert!(problems(&text).contains("no partition has the tasks t"));
}

/// Values that a file may have anywhere, most of them wrong there.
const VALUES: [&str; 16] = [
    "0",
    "1",
    "-1",
    "3.5",
    "1e308",
    "nan",
    "-inf",
    "99999999999999999999",
    "true",
    "\"\"",
    "\"m\"",
    "[]",
    "[[1, 2], [0]]",
    "{}",
    "{ kind = \"trace\" }",
    "1979-05-27",
];

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(48))]

    #[test]
    fn no_value_anywhere_makes_reading_panic(line in 0usize..200, value in 0usize..VALUES.len()) {
        let lines: Vec<&str> = EXAMPLE.lines().collect();
        let line = line % lines.len();
        let mut changed: Vec<String> = lines.iter().map(|&line| line.to_owned()).collect();
        if let Some((key, _)) = changed[line].split_once(" = ") {
            changed[line] = format!("{key} = {}", VALUES[value]);
        } else {
            changed.remove(line);
        }
        let text = changed.join("\n");
        match parse_as("w.toml", &text, &none) {
            Ok(document) => proptest::prop_assert!(!document.scenario.tasks.is_empty()),
            Err(error) => proptest::prop_assert!(!error.problems().is_empty()),
        }
    }
}

#[test]
fn former_names_of_keys_mean_the_same_and_each_is_warned_of_once() {
    let file = |keys: [&str; 4]| {
        let [dispatch, egress, queue, offload] = keys;
        let head = format!("[board]\n{dispatch} = 30\n{egress} = 40");
        let task = format!("{queue} = 3");
        let other = format!(
            "[[task]]\nname = \"u\"\nmodel = \"m\"\ndeadline_ms = 20\nreserved = false\n{offload} = \"t\"\n\
             {queue} = 3\narrivals = {{ kind = \"continuous\" }}\n"
        );
        let task = format!("{task}\narrivals = {{ kind = \"continuous\" }}\n{other}");
        parse_as("w.toml", &small(&head, &task), &none).unwrap_or_else(|error| panic!("{error}"))
    };
    let former = file(["dispatch_us", "egress_us", "queue", "spill"]);
    let present = file([
        "dispatch_bound_us",
        "egress_bound_us",
        "queue_depth",
        "offload_to",
    ]);
    let names: Vec<&str> = former.renamed_keys.iter().map(|key| key.former).collect();
    assert_eq!(
        names,
        ["dispatch_us", "egress_us", "queue", "spill"],
        "board first; keys of a table are sorted"
    );
    assert!(present.renamed_keys.is_empty());
    assert_eq!(
        format!("{:?}", former.scenario),
        format!("{:?}", present.scenario)
    );
}
