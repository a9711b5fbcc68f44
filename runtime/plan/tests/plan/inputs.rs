//! What networks take, and the frames that fit them.

use punctual_diagnostics::Diagnostics;
use punctual_model::{InputForm, InputSpec, PrepareProfile};
use punctual_plan::{FrameNeeds, FrameRule, Needs, Plan, Policies, PrepareNotProfiled};
use punctual_types::{Fit, PixelFormat, Size};

use crate::fixture;

fn picture(channels: u32) -> InputSpec {
    InputSpec {
        channels,
        height: 32,
        width: 32,
        form: InputForm::image(&[], &[]),
    }
}

fn prepared(channels: u32) -> InputSpec {
    InputSpec {
        form: InputForm::Prepared,
        ..picture(channels)
    }
}

fn manifest(frame: &str) -> String {
    format!(
        r#"
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
name = "watch"
model = "signs"
partition = "main"
criticality = "best-effort"
frame = {{ {frame} }}
"#
    )
}

/// A plan for a network with this input, whose preparation was measured for `entries`.
fn plan(frame: &str, input: InputSpec, entries: Vec<PrepareProfile>) -> Result<Plan, Diagnostics> {
    let package = fixture::package_of(input);
    let mut inputs = fixture::inputs(&manifest(frame), "manifest.toml");
    for profile in &mut inputs.profiles {
        let profile = profile.profile.as_mut().expect("the fixture's");
        profile.key.package = package.hash().to_string();
        profile.key.timing = package.timing().to_string();
    }
    let processor = inputs.profiles[0].profile.as_mut();
    processor.expect("the fixture's").prepare = entries;
    inputs.packages[0].package = Ok(package);
    Plan::build(&inputs)
}

fn refused(frame: &str, input: InputSpec) -> (FrameRule, String) {
    let errors = plan(frame, input, Vec::new()).expect_err("does not fit");
    let [problem] = errors.problems() else {
        panic!("one problem: {errors}");
    };
    let cause = problem.cause::<FrameRule>().expect("about the frame");
    (*cause, errors.to_string())
}

#[test]
fn each_picture_format_fits_networks_of_the_channels_that_it_gives() {
    for format in PixelFormat::ALL {
        for channels in [1, 3, 4] {
            if format == PixelFormat::Tensor {
                continue;
            }
            let name = format.name();
            let frame = format!("format = \"{name}\", width = 640, height = 480, crop = [64, 64]");
            let entries = vec![fixture::prepare(name, [64, 64])];
            let plan = plan(&frame, picture(channels), entries);
            assert_eq!(plan.is_ok(), format.gives(channels), "{name} {channels}");
        }
    }
}

#[test]
fn a_format_without_the_networks_channels_is_refused_with_those_that_have_them() {
    let frame = "format = \"rgba8\", width = 640, height = 480";
    let (rule, text) = refused(frame, picture(1));
    let format = PixelFormat::Rgba8;
    assert_eq!(
        rule,
        FrameRule::Channels {
            format,
            channels: 1
        }
    );
    assert!(
        text.contains("frames of rgba8 do not fit a network of 1 channel"),
        "{text}"
    );
    assert!(text.contains("`gray8`, `yuyv`, `gray16`, `uyvy`"), "{text}");
    let frame = "format = \"gray8\", width = 640, height = 480";
    let (_, text) = refused(frame, picture(4));
    assert!(text.contains("use one of `rgba8`"), "{text}");
}

#[test]
fn the_frame_of_a_prepared_tensor_is_the_networks_input() {
    let entry = PrepareProfile {
        width: 32,
        height: 160,
        ..fixture::prepare("tensor", [32, 32])
    };
    let plan = plan("format = \"tensor\"", prepared(5), vec![entry]).expect("it fits");
    let frame = plan.tasks[0].frame;
    let (size, crop) = ((frame.size.width, frame.size.height), frame.crop);
    assert_eq!(
        (size, crop),
        (
            (32, 160),
            Size {
                width: 32,
                height: 32
            }
        )
    );
    assert_eq!(
        (frame.stride, frame.bytes(), frame.crop_bytes()),
        (128, 20_480, 20_480)
    );
    let text = plan.to_string();
    assert!(
        text.contains("5x32x32") && text.contains("tensor 32x160"),
        "{text}"
    );
}

#[test]
fn a_tensor_has_no_size_of_its_own() {
    for (keys, key) in [
        ("width = 32", "width"),
        ("stride = 128", "stride"),
        ("crop = [32, 32]", "crop"),
        ("fit = \"stretch\"", "fit"),
    ] {
        let (rule, text) = refused(&format!("format = \"tensor\", {keys}"), prepared(5));
        assert_eq!(rule, FrameRule::OfPictures(key));
        assert!(text.contains(&format!("remove `{key}`")), "{text}");
    }
}

#[test]
fn pictures_and_tensors_are_not_taken_for_each_other() {
    let (rule, text) = refused("format = \"tensor\"", picture(3));
    assert_eq!(rule, FrameRule::NoTensor { channels: 3 });
    assert!(text.contains("pictures of 3 channels"), "{text}");
    let frame = "format = \"rgb8\", width = 640, height = 480";
    let (rule, text) = refused(frame, prepared(3));
    assert!(matches!(rule, FrameRule::NotPrepared { .. }), "{rule:?}");
    assert!(text.contains("a prepared tensor of 3x32x32"), "{text}");
}

#[test]
fn a_letterbox_is_planned_shown_and_measured_by_itself() {
    let frame =
        "format = \"rgb8\", width = 640, height = 480, crop = [64, 48], fit = \"letterbox\"";
    let stretched = fixture::prepare("rgb8", [64, 48]);
    let errors = plan(frame, picture(3), vec![stretched.clone()]).expect_err("not measured");
    let cause = errors.problems()[0].cause::<PrepareNotProfiled>();
    assert!(cause.is_some(), "{errors}");
    let boxed = PrepareProfile {
        letterbox: true,
        ..stretched
    };
    let with_fill = format!("{frame}, letterbox_fill = 0");
    for (frame, fill) in [(frame, 114), (&with_fill, 0)] {
        let plan = plan(frame, picture(3), vec![boxed.clone()]).expect("measured");
        assert_eq!(plan.tasks[0].frame.fit, Fit::Letterbox { fill });
        let text = plan.to_string();
        assert!(text.contains("letterboxed"), "{text}");
    }
    let frame = "format = \"rgb8\", width = 640, height = 480, letterbox_fill = 3";
    let (rule, _) = refused(frame, picture(3));
    assert_eq!(rule, FrameRule::NothingToFill);
}

#[test]
fn preparation_of_a_tensor_is_measured_as_its_network_takes_it() {
    let text = manifest("format = \"tensor\"");
    let needs = Needs::of_manifest(
        &text,
        "m.toml".as_ref(),
        &Policies::shipped(),
        &crate::fixture::cores(4),
    )
    .expect("valid");
    assert_eq!(needs.models[0].frames, [FrameNeeds::OfNetwork]);
    let frame = FrameNeeds::OfNetwork.with(&prepared(2));
    assert_eq!(frame.layout().check(), Ok(()));
    assert_eq!((frame.size.width, frame.size.height), (32, 64));
}
