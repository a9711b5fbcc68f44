//! `punctual trace` and `punctual profile --from`, on a recording of one camera.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use punctual_core::{
    Action, ActionId, Answer, Answers, Arrival, BatchTime, ClientId, Confidence, Config,
    Criticality, Delivery, Event, Finished, Infer, Instant, ModelConfig, ModelId, Nanos,
    PartitionConfig, PartitionId, Reply, RequestId, StageConfig, StageId, StageTime, TaskConfig,
    TaskId, Ticket, Units, Verdict, Window,
};
use punctual_model::{Profile, StageProfile};
use punctual_recording::{Names, Setting, Step, Writer};

const FRAMES: u64 = 300;

fn ms(ms: u64) -> Nanos {
    Nanos::from_millis(ms)
}

/// One task, one model of one stage, on one partition of two cores.
fn config() -> Config {
    let task = TaskConfig {
        model: ModelId(0),
        partition: PartitionId(0),
        criticality: Criticality::RealTime,
        deadline: Some(ms(30)),
        period: ms(33),
        burst: 1,
        jitter: ms(2),
        prepare: ms(1),
        mandatory_exit: StageId(0),
        threshold: Confidence::ONE,
        threshold_min: Confidence::ONE,
        batch_max: 1,
        queue_max: 2,
        reserved: true,
        answers: Answers::Final,
        weight: 1,
        offload_to: None,
        delivery: Delivery::EveryFrame,
    };
    let time = StageTime {
        budget: ms(5),
        max_seen: ms(6),
    };
    let stage = StageConfig {
        times: vec![BatchTime {
            batch: 1,
            on: vec![time],
        }],
        accuracy: [0; 8],
        deeper: Vec::new(),
        follows: [[0; 8]; 8],
        answers: true,
        runs_as: None,
    };
    Config {
        tasks: vec![task],
        models: vec![ModelConfig {
            stages: vec![stage],
            weights: None,
            places: Vec::new(),
        }],
        partitions: vec![PartitionConfig {
            units: Units { first: 0, count: 2 },
            preemption_bound: ms(1),
            share_max: 1000,
        }],
        request_buffers: 2,
        pages: 0,
        dispatch_cost: Nanos::ZERO,
        egress_bound: Nanos::ZERO,
    }
}

/// The steps of a frame. Its stage takes 4 ms, and 7 in one of ten.
fn steps(frame: u64) -> Vec<Step> {
    let captured = Instant::ZERO + ms(33 * frame);
    let ticket = Ticket {
        client: ClientId(3),
        slot: 0,
        part: 0,
        sequence: frame,
    };
    let request = RequestId {
        buffer: 0,
        generation: frame as u32,
    };
    let measured = if frame.is_multiple_of(10) {
        ms(7)
    } else {
        ms(4)
    };
    let (arrived, prepared) = (captured + ms(1), captured + ms(2));
    let ended = prepared + measured;
    let step = |now, event, action| Step {
        now,
        took: Nanos::from_micros(20),
        event,
        actions: vec![action],
    };
    let task = TaskId(0);
    let arrival = Arrival {
        task,
        ticket,
        captured,
        deadline: None,
        egress: Nanos::ZERO,
    };
    let infer = Infer {
        id: ActionId(frame),
        partition: PartitionId(0),
        model: ModelId(0),
        stage: StageId(0),
        batch: 1,
        members: [request].into_iter().collect(),
        window: Window {
            earliest: prepared,
            latest: prepared + ms(10),
        },
        criticality: Criticality::RealTime,
    };
    let answer = Answer {
        class: 1,
        confidence: Confidence::ONE,
    };
    let finished = Finished {
        action: ActionId(frame),
        started: prepared,
        measured,
        members: [answer].into_iter().collect(),
    };
    let reply = Reply {
        request: Some(request),
        task,
        ticket,
        verdict: Verdict::OnTime,
        answer: Some((StageId(0), answer)),
        captured,
        deadline: captured + ms(30),
        delivered: None,
    };
    let ready = Event::Prepared {
        request,
        measured: Nanos::from_micros(800),
        ready: Ok(()),
    };
    let prepare = Action::Prepare {
        request,
        task,
        ticket,
    };
    vec![
        step(arrived, Event::Arrived(arrival), prepare),
        step(prepared, ready, Action::Infer(infer)),
        step(ended, Event::Finished(finished), Action::Reply(reply)),
    ]
}

/// Measured as 3 ms before, at most 9.
fn profile() -> Profile {
    let entry = StageProfile {
        stage: 0,
        batch: 1,
        units: 2,
        samples: 345,
        p50_ns: 2_000_000,
        p99_ns: 3_000_000,
        max_ns: 9_000_000,
    };
    let text = serde_json::json!({
        "key": {"board": "host", "machine": "m", "package": "00", "power_mode": "default", "clocks": "unknown"},
        "stages": [entry], "prepare": [], "preemption_ns_max": 1,
    });
    serde_json::from_value(text).expect("a profile")
}

/// A folder with `robot.mcap`, which has these attachments.
fn scratch(name: &str, attachments: &[(&str, &str)]) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("a folder");
    let file = fs::File::create(folder.join("robot.mcap")).expect("a file");
    let setting = Setting {
        config: config(),
        policy: serde_json::json!({"punctual": {}}),
        names: Names {
            tasks: vec!["front".to_owned()],
            models: vec!["signs".to_owned()],
            partitions: vec!["cores".to_owned()],
        },
    };
    let mut writer = Writer::new(file, 0, &setting).expect("written");
    for (name, content) in attachments {
        writer
            .attach(name, "application/json", content.as_bytes())
            .expect("written");
    }
    writer.segment(0, Instant::ZERO, None).expect("written");
    for step in (0..FRAMES).flat_map(steps) {
        writer.step(step).expect("written");
    }
    writer.finish().expect("written");
    folder
}

const PLAN: &str = r#"{"models": [{"name": "signs", "package": "../signs.punctual", "device": "cpu", "stages": 1}],
    "partitions": [{"name": "cores", "cores": [0, 1]}]}"#;

fn punctual(folder: &Path, line: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_punctual"))
        .args(line.split(' '))
        .current_dir(folder)
        .output()
        .expect("it starts")
}

fn printed(folder: &Path, line: &str) -> String {
    let output = punctual(folder, line);
    assert!(output.status.success(), "{line}: {output:?}");
    String::from_utf8(output.stdout).expect("text")
}

/// The message of a command that ends with a code.
fn refused(folder: &Path, line: &str, code: i32) -> String {
    let output = punctual(folder, line);
    assert_eq!(output.status.code(), Some(code), "{line}: {output:?}");
    String::from_utf8(output.stderr).expect("text")
}

#[test]
fn a_recording_becomes_a_trace_a_page_and_a_table() {
    let folder = scratch("trace", &[]);
    let said = printed(
        &folder,
        "trace robot.mcap --perfetto out --html page.html --profile",
    );
    assert!(
        said.contains("wrote out: 300 frames, 300 runs of stages, 900 steps"),
        "{said}"
    );
    assert!(said.contains("10.00%") && said.contains("cores"), "{said}");
    assert!(fs::metadata(folder.join("out")).expect("the trace").len() > 50_000);
    let page = fs::read_to_string(folder.join("page.html")).expect("the page");
    assert!(
        page.contains("7.872 to 9.872 s of a recording of 9.872 s"),
        "{}",
        &page[..5_000]
    );
    let rows = printed(&folder, "trace robot.mcap --profile --json");
    let rows: serde_json::Value = serde_json::from_str(&rows).expect("JSON");
    let row = &rows[0];
    assert_eq!(
        (&row["runs"], &row["over_budget"]),
        (&300.into(), &30.into())
    );
    assert_eq!(
        (&row["budget_ns"], &row["max_ns"]),
        (&5_000_000.into(), &7_000_000.into())
    );
}

#[test]
fn a_trace_is_not_written_over_its_recording() {
    let folder = scratch("trace-over-itself", &[]);
    let said = refused(&folder, "trace robot.mcap --perfetto ./robot.mcap", 3);
    assert!(said.contains("is the recording itself"), "{said}");
    assert!(printed(&folder, "trace robot.mcap --profile").contains("300"));
}

#[test]
fn a_profile_from_the_field_has_the_recorded_times_and_says_so() {
    let profile = profile();
    let json = profile.to_json();
    let folder = scratch("field", &[("plan.json", PLAN), ("profile/signs", &json)]);
    let said = printed(&folder, "profile --from robot.mcap --output new/folder");
    assert!(
        said.contains("from the field") && said.contains("wrote new/folder/signs.profile.json"),
        "{said}"
    );
    let made = Profile::read(&folder.join("new/folder/signs.profile.json")).expect("a profile");
    let entry = made.stages[0];
    assert_eq!((entry.samples, entry.p50_ns), (300, 4_000_000));
    assert_eq!((entry.p99_ns, entry.max_ns), (7_000_000, 9_000_000));
    assert_eq!(made.field.expect("it says so").recordings, ["robot.mcap"]);
    assert_eq!(made.key, profile.key);
}

#[test]
fn recordings_that_have_no_plan_no_profile_or_damaged_ones_are_refused() {
    let cases = [
        (
            "simulated",
            vec![],
            "it has no attachment plan.json: it is of a simulation",
        ),
        (
            "bare",
            vec![("plan.json", PLAN)],
            "it has no profile of any model",
        ),
        (
            "no-plan",
            vec![("plan.json", "{}")],
            "its attachment plan.json cannot be read",
        ),
        (
            "old",
            vec![("plan.json", PLAN), ("profile/signs", r#"{"version": 1}"#)],
            "its attachment profile/signs cannot be read: the profile has version 1",
        ),
    ];
    for (name, attachments, why) in cases {
        let folder = scratch(&format!("field-{name}"), &attachments);
        let said = refused(&folder, "profile --from robot.mcap", 3);
        assert!(said.contains(why), "{said}");
    }
}

#[test]
fn what_is_no_recording_or_cut_off_is_said_and_what_is_whole_is_drawn() {
    let folder = scratch("trace-damaged", &[]);
    let whole = fs::read(folder.join("robot.mcap")).expect("it");
    fs::write(folder.join("cut.mcap"), &whole[..whole.len() / 2]).expect("written");
    fs::write(folder.join("text.mcap"), "a text").expect("written");
    for command in [
        "trace text.mcap --profile",
        "trace text.mcap --html out",
        "profile --from text.mcap",
    ] {
        refused(&folder, command, 3);
    }
    for command in [
        "trace missing.mcap --profile",
        "profile --from missing.mcap",
    ] {
        refused(&folder, command, 4);
    }
    refused(&folder, "trace robot.mcap --html no/such/folder", 4);
    refused(&folder, "trace robot.mcap", 2);
    refused(&folder, "trace robot.mcap --html out --seconds -1", 2);
    let cut = punctual(&folder, "trace cut.mcap --perfetto out");
    let said = String::from_utf8_lossy(&cut.stderr);
    assert!(
        cut.status.success() && said.contains("the file was cut off"),
        "{cut:?}"
    );
}

#[test]
fn the_python_of_the_page_reads_a_recording() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = fs::read_to_string(root.join("docs/recordings.md")).expect("a page");
    let (_, code) = page.split_once("```python\n").expect("it has some");
    let (code, _) = code.split_once("```").expect("it ends");
    let python = |code: &str| {
        let mut python = Command::new("python3");
        // Where CI puts packages of Python.
        python.env("PYTHONPATH", root.join("target/python"));
        python.args(["-c", code]);
        python.current_dir(scratch("page", &[])).output()
    };
    if !python("import mcap.reader").is_ok_and(|output| output.status.success()) {
        eprintln!(
            "skipped: `python3 -m pip install --target target/python mcap` brings the reader"
        );
        return;
    }
    // It prints frames that were not answered on time, of which there are none; so those that were.
    let all = code.replace("!= \"on-time\"", "== \"on-time\"");
    assert_ne!(all, code);
    for (code, lines) in [(code, 0), (&all, FRAMES as usize)] {
        let output = python(code).expect("it starts");
        let printed = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{output:?}");
        assert_eq!(printed.lines().count(), lines, "{printed}");
    }
}
