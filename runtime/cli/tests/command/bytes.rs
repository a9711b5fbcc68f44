//! A network that takes its picture in bytes, channels last, and normalises it itself: from the file to the client's answer. What the
//! compiler left to the preparation of frames is compared with the same file compiled as it is.

use std::path::Path;

use punctual_client::{Client, Crop, Options, PixelFormat, Verdict, now_ns};
use punctual_compile::{InputOptions, Overrides, compile_with};
use punctual_model::{AnswerKind, InputForm, Package, PrepareProfile, reference};

use crate::documented::root;
use crate::support::{Daemon, Folder, LIMIT, assert_accounts, profile};

const MANIFEST: &str = r#"
[daemon]
board = "host"

[[model]]
name = "ssd"
package = "signs.punctual"

[[partition]]
name = "main"
units = 1

[[task]]
name = "ssd"
model = "ssd"
partition = "main"
criticality = "real-time"
rate_hz = 10
deadline_ms = 500
frame = { format = "rgb8", width = 96, height = 64 }
"#;

/// Of bytes, (batch, 64, 96, 3), with a mean and a deviation of its own.
fn compiled(prepared: Option<bool>) -> Package {
    let onnx = root().join("runtime/cli/tests/documented/ssd.onnx");
    let overrides = Overrides {
        input: InputOptions {
            prepared,
            ..InputOptions::default()
        },
        answer: Some(AnswerKind::None),
        ..Overrides::default()
    };
    let compiled = compile_with(Path::new(&onnx), &overrides);
    compiled.expect("a network that is supported").package
}

fn folder(package: &Package) -> Folder {
    let folder = Folder::with(MANIFEST);
    let host = punctual_daemon::host::detect().expect("a machine");
    let mut figures = profile(&host.machine, &host.clocks, package);
    figures.prepare = vec![PrepareProfile {
        width: 96,
        height: 64,
        crop_width: 96,
        crop_height: 64,
        ..figures.prepare[0].clone()
    }];
    folder.write("signs.punctual", &package.encode());
    folder.write("signs.profile.json", figures.to_json().as_bytes());
    folder
}

#[test]
fn a_daemon_answers_bytes_of_nhwc_as_the_file_computes_them_step_by_step() {
    let (pictures, as_it_is) = (compiled(None), compiled(Some(true)));
    assert!(pictures.network().input.form.is_image());
    let steps = as_it_is.network();
    assert_eq!(steps.input.form, InputForm::Prepared);
    let operators = |package: &Package| package.network().stages[0].operators.len();
    assert!(
        operators(&as_it_is) > operators(&pictures),
        "nothing folded"
    );

    let daemon = Daemon::start_in(folder(&pictures));
    let options = Options::new(daemon.socket(), "ssd", PixelFormat::Rgb8);
    let soon = || Some(now_ns() + LIMIT.as_nanos() as u64);
    let mut client: Client = options.open(soon()).expect("a place");
    for seed in 0..3_usize {
        let bytes: Vec<u8> = (0..64 * 96 * 3)
            .map(|at| (at * (7 + 4 * seed) % 256) as u8)
            .collect();
        let mut slot = client.slot(soon()).expect("a daemon").expect("a slot");
        slot.pixels().copy_from_slice(&bytes);
        let submitted = slot.submit(now_ns(), None, Crop { x: 0, y: 0 });
        submitted.expect("in order");
        let mut response = client.verdict(soon()).expect("a daemon").expect("in time");
        assert_eq!(response.verdict, Verdict::OnTime, "{response:?}");
        let outputs = response.take_outputs().expect("by default all");
        let floats: Vec<f32> = bytes.iter().copied().map(f32::from).collect();
        let exits = reference::run_all(steps, &[&floats]);
        let exit = exits.into_iter().flatten().next().expect("an exit");
        assert_eq!(exit.outputs.len(), 2);
        for (at, expected) in exit.outputs.iter().enumerate() {
            let ours = outputs.at(at).expect("as many outputs");
            let ours = ours.as_f32().expect("floats");
            assert_eq!(ours.len(), expected.len());
            let largest = expected
                .iter()
                .fold(0.0_f32, |most, value| most.max(value.abs()));
            assert!(largest > 0.1, "answers that say something: {largest}");
            for (ours, expected) in ours.iter().zip(expected) {
                assert!(
                    (ours - expected).abs() < 1e-4 * largest,
                    "{ours} {expected}"
                );
            }
        }
    }
    drop(client);
    assert_accounts(&daemon.stop());
}
