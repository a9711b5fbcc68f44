//! Tasks whose answers are tensors, and whose frames come with vectors.

use punctual_diagnostics::Diagnostics;
use punctual_model::{OutputLayout, PlacedExit};
use punctual_plan::{Plan, Purpose, Warning};

use crate::fixture;

const MANIFEST: &str = r#"
[daemon]
board = "host"
socket = "/run/punctual.sock"

[[model]]
name = "steering"
package = "signs.punctual"

[[partition]]
name = "main"
units = 1

[[task]]
name = "wheel"
model = "steering"
partition = "main"
criticality = "best-effort"
slots = 4
frame = { format = "rgb8", width = 640, height = 480, crop = [192, 192] }

[[task.vector]]
name = "angle"
length = 1
range = [-3.2, 3.2]

[[task.vector]]
name = "wheels"
length = 4
range = [0, 60]
"#;

fn plan(manifest: &str) -> Result<Plan, Diagnostics> {
    let package = fixture::package_of_tensors();
    let mut inputs = fixture::inputs(manifest, "manifest.toml");
    for profile in &mut inputs.profiles {
        let profile = profile.profile.as_mut().expect("the fixture's");
        profile.key.package = package.hash().to_string();
        profile.key.timing = package.timing().to_string();
    }
    inputs.packages[0].package = Ok(package);
    Plan::build(&inputs)
}

fn planned(manifest: &str) -> Plan {
    plan(manifest).unwrap_or_else(|errors| panic!("{errors}"))
}

/// The errors about the manifest with one thing replaced.
fn said(from: &str, to: &str) -> String {
    assert!(MANIFEST.contains(from), "{from}");
    let errors = plan(&MANIFEST.replacen(from, to, 1)).expect_err("something is wrong");
    assert!(!errors.is_about_files_only());
    errors.to_string()
}

#[test]
fn outputs_and_vectors_have_their_places_and_their_memory_is_planned() {
    let one_answer = "slots = 4\nanswers = \"final\"";
    let plan = planned(&MANIFEST.replacen("slots = 4", one_answer, 1));
    let task = &plan.tasks[0];
    assert_eq!(task.outputs, ["values", "map"]);
    // In the network's order, whatever that of the manifest is.
    let vectors = task.vectors.iter().map(|vector| vector.name.as_str());
    assert_eq!(vectors.collect::<Vec<_>>(), ["wheels", "angle"]);
    // The largest exits of both parts: 8x16x16 and 16x8x8 floats, four values each, and the head.
    let values = 64;
    let largest = (8 * 16 * 16 + 16 * 8 * 8) * 4 + 2 * values + 64;
    assert_eq!(
        (task.channel.area_bytes, task.channel.records),
        (largest, 1)
    );
    let areas = plan.memory.items.iter();
    let mut areas = areas.filter(|item| item.purpose == Purpose::OutputAreas);
    let item = areas.next().expect("output areas");
    assert_eq!(item.bytes, largest.next_multiple_of(4096));
    assert!(item.count >= 4);
    let report = plan.to_string();
    assert!(report.contains("wheels (4 in 0..60)"), "{report}");
}

#[test]
fn where_each_answer_is_delivered_an_area_holds_those_of_all_exits() {
    let plan = planned(MANIFEST);
    let channel = &plan.tasks[0].channel;
    // The third exit has 32 maps of 4x4.
    let all = (8 * 16 * 16 + 16 * 8 * 8 + 32 * 4 * 4) * 4 + 3 * 64 + 64;
    assert_eq!((channel.area_bytes, channel.records), (all, 3));
    let deeper = MANIFEST.replacen("slots = 4", "slots = 4\nmandatory_exit = 1", 1);
    assert_eq!(planned(&deeper).tasks[0].channel.records, 2);
}

#[test]
fn without_confidence_there_is_no_threshold_and_no_calibration_to_miss() {
    let plan = planned(MANIFEST);
    assert!(plan.models[0].without_confidence);
    let warned = |warning: &Warning| matches!(warning, Warning::NotCalibrated { .. });
    assert!(!plan.warnings.iter().any(warned));
    let report = plan.to_string();
    let row = report
        .lines()
        .find(|line| line.contains("  wheel  best-effort"));
    let row = row.expect("a row of the task").trim_end();
    let cells: Vec<&str> = row.split_whitespace().collect();
    assert!(cells.ends_with(&["0..2", "-"]), "{row:?}");
    let message = said("slots = 4", "slots = 4\nthreshold = 0.5");
    assert!(message.contains("say nothing of confidence"), "{message}");
    assert!(message.contains("remove `threshold`"), "{message}");
}

#[test]
fn a_task_wants_some_outputs_or_none() {
    let some = MANIFEST.replace("slots = 4", "slots = 4\noutputs = [\"values\"]");
    let plan = planned(&some);
    assert_eq!(plan.tasks[0].channel.area_bytes, 64 + 3 * 64);
    let none = planned(&MANIFEST.replace("slots = 4", "slots = 4\noutputs = []"));
    assert_eq!(none.tasks[0].channel.area_bytes, 0);
    let message = said("slots = 4", "slots = 4\noutputs = [\"masks\"]");
    assert!(
        message.contains(
            "no output \"masks\", it has values (float32 [4, 1, 1]), map (float32 [8, 16, 16])"
        ),
        "{message}"
    );
}

#[test]
fn vectors_are_those_of_the_network() {
    for (from, to, expected) in [
        (
            "length = 1",
            "length = 3",
            "vector \"angle\" has 1 numbers, not 3",
        ),
        ("length = 1", "length = 3", "set length = 1"),
        (
            "\"angle\"",
            "\"angel\"",
            "takes no vector \"angel\", it takes wheels (4 numbers), angle (1 numbers)",
        ),
        (
            "\"angle\"",
            "\"angel\"",
            "add [[task.vector]] with name = \"angle\", length = 1",
        ),
        (
            "\"angle\"",
            "\"wheels\"",
            "vector \"wheels\" is there twice",
        ),
        ("[0, 60]", "[60, 0]", "[60.0, 0.0] is no range"),
        ("[0, 60]", "[0, nan]", "is no range"),
        ("[0, 60]", "[0, 1e300]", "is no range"),
        ("[0, 60]", "[0]", "two finite numbers, the lower first"),
    ] {
        let message = said(from, to);
        assert!(message.contains(expected), "{to}: {message}");
    }
}

#[test]
fn a_partition_of_the_gpu_has_memory_for_the_outputs_of_its_batches() {
    let manifest = MANIFEST.replacen("board = \"host\"", "board = \"gpu-board\"", 1);
    let manifest = manifest.replacen("units = 1", "tpcs = 4", 1);
    let plan = planned(&manifest.replacen("slots = 4", "slots = 4\nbatch_max = 4", 1));
    let package = fixture::package_of_tensors();
    let layout = OutputLayout::of(package.network(), |_| true);
    let largest = layout.stages.iter().map(PlacedExit::pitch).max();
    let outputs = plan.memory.items.iter();
    let mut outputs = outputs.filter(|item| item.purpose == Purpose::GpuOutputs);
    let item = outputs.next().expect("the partition's");
    // The fixture's device has them for two batches.
    assert_eq!((item.bytes, item.count), (4 * largest.unwrap(), 2));
    assert!(outputs.next().is_none());
}
