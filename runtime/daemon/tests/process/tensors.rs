//! Inputs that clients prepare themselves, and letterboxes.

use crate::support::{Daemon, Folder, assert_accounts, connect, package, profile, result};
use punctual_ipc::{
    ClientChannel, Crop, Failure, InputDescription, PixelFormat, ResultRecord, Verdict,
};
use punctual_model::{InputForm, Package, PrepareProfile};
use punctual_platform::clock;

/// The demonstration network for pictures, and the same for tensors.
const MANIFEST: &str = r#"
[daemon]
board = "host"

[[model]]
name = "signs"
package = "signs.punctual"

[[model]]
name = "prepared"
package = "prepared.punctual"

[[partition]]
name = "main"
units = 1

[[task]]
name = "picture"
model = "signs"
partition = "main"
criticality = "best-effort"
threshold = 1.0
frame = { format = "gray16", width = 320, height = 240, crop = [192, 192] }

[[task]]
name = "boxed"
model = "signs"
partition = "main"
criticality = "best-effort"
threshold = 1.0
frame = { format = "rgba8", width = 320, height = 240, crop = [192, 96], fit = "letterbox", letterbox_fill = 128 }

[[task]]
name = "tensor"
model = "prepared"
partition = "main"
criticality = "best-effort"
threshold = 1.0
frame = { format = "tensor" }
"#;

fn folder() -> Folder {
    let pictures = Package::decode(&package()).expect("a valid package");
    let mut network = pictures.network().clone();
    network.input.form = InputForm::Prepared;
    let input = network.input;
    let tensors = Package::new(network, pictures.calibration().clone()).expect("valid as well");
    let mut measured = None;
    let folder = Folder::with_profile(MANIFEST, |figures, _| {
        let known = figures.prepare[0].clone();
        let key = &figures.key;
        let mut others = profile(&key.machine, &key.clocks, &tensors);
        others.prepare = vec![PrepareProfile {
            format: "tensor".to_owned(),
            width: input.width,
            height: input.channels * input.height,
            crop_width: input.width,
            crop_height: input.height,
            ..known.clone()
        }];
        measured = Some(others);
        figures.prepare = vec![
            PrepareProfile {
                format: "gray16".to_owned(),
                ..known.clone()
            },
            PrepareProfile {
                format: "rgba8".to_owned(),
                crop_height: 96,
                letterbox: true,
                ..known
            },
        ];
    });
    let measured = measured.expect("it was called");
    folder.write("prepared.punctual", &tensors.encode());
    folder.write("prepared.profile.json", measured.to_json().as_bytes());
    folder
}

/// Submits these bytes, and gives the result.
fn answered(client: &mut ClientChannel, fill: impl FnOnce(&mut [u8])) -> ResultRecord {
    let mut slot = client.slot().expect("a free slot");
    fill(slot.pixels());
    let submitted = slot.submit(clock::now_ns(), None, Crop::default());
    submitted.expect("submitted");
    result(client)
}

fn values(pixels: &mut [u8], value: f32) {
    for place in pixels.as_chunks_mut().0 {
        *place = value.to_le_bytes();
    }
}

#[test]
fn a_prepared_tensor_is_answered_as_the_picture_that_it_was_made_of() {
    let daemon = Daemon::start_in(folder());
    let mut pictures = connect(&daemon.socket(), "picture", PixelFormat::Gray16);
    let mut boxed = connect(&daemon.socket(), "boxed", PixelFormat::Rgba8);
    let mut tensors = connect(&daemon.socket(), "tensor", PixelFormat::Tensor);
    let terms = *tensors.terms();
    let frame = (terms.frame.width, terms.frame.height);
    let channel = (terms.crop_width, terms.crop_height);
    assert_eq!((frame, channel), ((96, 288), (96, 96)));
    // 0x8080 of 65535 is 128 of 255.
    let of_picture = answered(&mut pictures, |pixels| pixels.fill(0x80));
    // The borders are as gray as the crop.
    let of_boxed = answered(&mut boxed, |pixels| pixels.fill(128));
    let normalised = (128.0 / 255.0 - 0.45) / 0.25;
    let of_tensor = answered(&mut tensors, |pixels| values(pixels, normalised));
    let answers = [of_picture, of_boxed, of_tensor].map(|record| record.answer);
    let [picture, others @ ..] = answers.map(|answer| answer.expect("best-effort work ends"));
    for other in others {
        assert_eq!((other.exit, other.class), (picture.exit, picture.class));
        let confidences = [other, picture].map(|answer| answer.confidence.expect("of a class"));
        assert!(confidences[0].abs_diff(confidences[1]) < 100);
    }
    drop((pictures, boxed, tensors));
    assert_accounts(&daemon.stop());
}

#[test]
fn clients_learn_the_networks_input_and_how_crops_are_fitted_into_it() {
    let daemon = Daemon::start_in(folder());
    for (task, format, letterbox) in [
        ("picture", PixelFormat::Gray16, false),
        ("boxed", PixelFormat::Rgba8, true),
        ("tensor", PixelFormat::Tensor, false),
    ] {
        let client = connect(&daemon.socket(), task, format);
        let expected = InputDescription {
            width: 96,
            height: 96,
            letterbox,
        };
        assert_eq!(client.description().input, Some(expected), "{task}");
    }
}

#[test]
fn a_tensor_with_a_value_that_is_not_finite_fails_and_disturbs_no_other() {
    let daemon = Daemon::start_in(folder());
    let mut client = connect(&daemon.socket(), "tensor", PixelFormat::Tensor);
    let first = answered(&mut client, |pixels| values(pixels, 0.25)).answer;
    assert!(first.is_some());
    for bad in [f32::NAN, f32::INFINITY] {
        let failed = answered(&mut client, |pixels| {
            values(pixels, 0.5);
            let last = pixels.len() - 4;
            pixels[last..].copy_from_slice(&bad.to_le_bytes());
        });
        assert_eq!(failed.verdict, Verdict::Failed(Failure::NotFinite));
        assert_eq!(failed.answer, None);
        let next = answered(&mut client, |pixels| values(pixels, 0.25));
        assert_eq!(next.answer, first);
    }
    drop(client);
    let report = daemon.stop();
    assert_accounts(&report);
    let task = report.tasks.iter().find(|task| task.name == "tensor");
    let failed = task.expect("a task of the manifest").failed;
    assert_eq!((failed.not_finite, failed.total()), (2, 2));
}
