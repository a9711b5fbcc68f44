//! What is recorded of frames, and the memory that it takes.

use punctual_plan::{MemoryItem, PICTURE_BUFFERS, Payloads, Plan, Purpose};

use crate::fixture;

const MANIFEST: &str = r#"
[daemon]
board = "host"
socket = "/run/punctual.sock"

[[model]]
name = "signs"
package = "signs.punctual"

[[partition]]
name = "main"
units = 1

[[task]]
name = "front"
model = "signs"
partition = "main"
criticality = "best-effort"
clients = 2
frame = { format = "rgb8", width = 640, height = 480, crop = [192, 192] }
"#;

fn planned(recorder: &str) -> Plan {
    let manifest = format!("{MANIFEST}\n[recorder]\n{recorder}\n");
    let plan = Plan::build(&fixture::inputs(&manifest, "manifest.toml"));
    plan.unwrap_or_else(|errors| panic!("{errors}"))
}

/// Copies of a client's pictures, and what there is for all of them.
fn taken(plan: &Plan) -> Vec<&MemoryItem> {
    let items = plan.memory.items.iter();
    let items = items.filter(|item| item.purpose == Purpose::Recorder && item.of != "steps");
    items.collect()
}

#[test]
fn without_a_word_no_pictures_are_recorded_and_nothing_is_taken_for_them() {
    let plan = planned("");
    assert_eq!(plan.recorder.payloads, Payloads::None);
    assert!(taken(&plan).is_empty());
    assert_eq!(plan.recorder.picture_of(&plan.tasks[0].frame), None);
    let plan = planned("mode = \"off\"\npayloads = \"frames\"");
    assert!(taken(&plan).is_empty());
}

#[test]
fn a_client_has_a_handful_of_copies_of_crops_or_of_frames() {
    for (payloads, bytes) in [("crops", 192 * 192 * 3), ("frames", 640 * 480 * 3)] {
        let plan = planned(&format!("payloads = \"{payloads}\""));
        let [copies, encoder] = taken(&plan)[..] else {
            panic!("{payloads}: {:?}", taken(&plan));
        };
        assert_eq!(copies.of, "front");
        assert_eq!((copies.bytes, copies.count), (bytes, 2 * PICTURE_BUFFERS));
        assert!(encoder.bytes > 2 * bytes);
    }
}

#[test]
fn pictures_take_at_most_half_of_a_black_box() {
    let plan = planned("payloads = \"crops\"\nseconds = 60");
    let all = 60 * plan.recorder.picture_bytes_a_second();
    assert!(all <= 8 << 20 && all > 7 << 20, "{all}");
}
