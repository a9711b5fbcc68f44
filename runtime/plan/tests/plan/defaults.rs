//! Manifests that leave most out: what is taken is what somebody would have written.

use punctual_model::InputSpec;
use punctual_plan::{FrameNeeds, Needs, Plan, Policies, TaskPlan};
use punctual_types::PixelFormat;

use crate::fixture;

const LEAST: &str = include_str!("../manifests/good/least.toml");

const WRITTEN: &str = r#"
    daemon = { board = "host" }
    model = [{ name = "signs", package = "signs.punctual" }]
    partition = [{ name = "main", cores = [1, 2, 3] }]
    [[task]]
    name = "signs"
    model = "signs"
    partition = "main"
    criticality = "real-time"
    rate_hz = 30
    deadline_ms = 50
    frame = { format = "rgb8", width = 32, height = 32 }
"#;

fn plan(text: &str) -> Plan {
    let inputs = fixture::inputs(text, "least.toml");
    Plan::build(&inputs).unwrap_or_else(|errors| panic!("{errors}"))
}

fn input(channels: u32) -> InputSpec {
    InputSpec {
        channels,
        ..InputSpec::rgb(32, 32, [0.5; 3], [0.25; 3])
    }
}

#[test]
fn the_least_manifest_is_the_same_plan_as_one_that_writes_everything() {
    let (least, written) = (plan(LEAST), plan(WRITTEN));
    assert_eq!(least.hash, written.hash);
    assert_eq!(written.defaults, []);
    let keys: Vec<&str> = least.defaults.iter().map(|d| d.key.as_str()).collect();
    let expected = [
        "daemon.board",
        "partition[0].cores",
        "partition[0].name",
        "task[0].criticality",
        "task[0].frame",
        "task[0].name",
        "task[0].partition",
    ];
    assert_eq!(keys, expected);
    assert!(least.to_json().contains("\"defaults\""));
}

#[test]
fn what_is_to_be_measured_for_the_least_manifest_is_what_its_plan_uses() {
    for cores in [1, 2, 4] {
        let cores = fixture::cores(cores);
        let count = cores.available.len() as u8;
        let needs = Needs::of_manifest(LEAST, "m.toml".as_ref(), &Policies::shipped(), &cores);
        let needs = needs.unwrap_or_else(|errors| panic!("{errors}"));
        assert_eq!(needs.models[0].units, [count.max(2) - 1], "of {count}");
        assert_eq!(needs.models[0].frames, [FrameNeeds::OfNetwork]);
    }
}

#[test]
fn what_is_left_are_the_isolated_cores_if_there_are_any() {
    let mut inputs = fixture::inputs(LEAST, "least.toml");
    inputs.host.cores.isolated = vec![2, 3];
    let plan = Plan::build(&inputs).unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!(plan.partitions[0].cores, [2, 3]);
    assert_eq!(plan.housekeeping_cores, [0]);
}

#[test]
fn a_frame_without_a_format_has_the_channels_of_the_network() {
    for (channels, format) in [
        (1, PixelFormat::Gray8),
        (3, PixelFormat::Rgb8),
        (4, PixelFormat::Rgba8),
    ] {
        let sized = FrameNeeds::OfNetwork.with(&input(channels));
        assert_eq!(sized.format, format);
        assert_eq!((sized.size, sized.crop), (sized.crop, sized.size));
        assert_eq!(sized.stride, format.row_bytes(32));
    }
    let text = format!("{LEAST}frame = {{ width = 640, height = 480 }}");
    let plan = plan(&text);
    let TaskPlan { frame, .. } = &plan.tasks[0];
    assert_eq!((frame.format, frame.size.width), (PixelFormat::Rgb8, 640));
    let format = plan
        .defaults
        .iter()
        .find(|d| d.key == "task[0].frame.format");
    assert_eq!(format.map(|d| d.value.as_str()), Some("\"rgb8\""));
}

#[test]
fn the_queue_holds_what_can_be_promised() {
    let depth = |deadline: &str| plan(&LEAST.replace("= 50", deadline)).tasks[0].queue_depth;
    assert_eq!(
        ["= 50", "= 150", "= 500", "= 2000"].map(depth),
        [8, 8, 20, 64]
    );
}

#[test]
fn tasks_of_one_package_share_its_model() {
    let second = "[[task]]\nname = \"second\"\npackage = \"signs.punctual\"\ncriticality = \"best-effort\"\n";
    let plan = plan(&format!("{LEAST}{second}"));
    assert_eq!(plan.models.len(), 1);
    let names: Vec<&str> = plan.tasks.iter().map(|task| task.name.as_str()).collect();
    assert_eq!(names, ["signs", "second"]);
}
