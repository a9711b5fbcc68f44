//! The GStreamer recipe, compiled and run on a source of test pictures, where GStreamer is installed.

mod compiler;
#[path = "../../client/tests/echo_daemon/mod.rs"]
mod echo_daemon;

use std::process::Command;

use compiler::{here, libraries};
use echo_daemon::EchoDaemon;
use punctual_client::{FrameSpec, OutputTerms, PixelFormat, StreamTerms};

/// What pkg-config answers for GStreamer; none, saying so, where it is not installed.
fn gstreamer() -> Option<Vec<String>> {
    let modules = ["gstreamer-app-1.0", "gstreamer-video-1.0"];
    let said = Command::new("pkg-config")
        .args(["--cflags", "--libs"])
        .args(modules)
        .output();
    let said = said.ok().filter(|said| said.status.success());
    match said {
        Some(said) => {
            let words = String::from_utf8(said.stdout).expect("text");
            Some(words.split_whitespace().map(str::to_owned).collect())
        }
        None => {
            println!("skipped: pkg-config knows no gstreamer-app-1.0 and gstreamer-video-1.0");
            None
        }
    }
}

#[test]
fn every_frame_of_a_test_source_is_answered_or_counted_as_skipped() {
    let Some(gstreamer) = gstreamer() else { return };
    let program = libraries().join(format!("appsink-{}", std::process::id()));
    // What the program is going to look for. It may be there already.
    let _ = std::os::unix::fs::symlink(
        libraries().join("libpunctual.so"),
        libraries().join("libpunctual.so.0"),
    );
    let compiled = Command::new("cc")
        .args(["-std=c99", "-Wall", "-Wextra", "-Werror", "-I"])
        .arg(here().join("include"))
        .arg(here().join("examples/gstreamer/appsink.c"))
        .arg(libraries().join("libpunctual.so"))
        .args(gstreamer)
        .arg("-o")
        .arg(&program)
        .output()
        .expect("a C compiler, as there is GStreamer for one");
    assert!(
        compiled.status.success(),
        "{}",
        String::from_utf8_lossy(&compiled.stderr)
    );

    let daemon = EchoDaemon::start(StreamTerms {
        stream: 0,
        slots: 4,
        results: 8,
        frame: FrameSpec::packed(PixelFormat::Rgb8, 64, 48),
        crop_width: 32,
        crop_height: 32,
        outputs: OutputTerms::default(),
        vectors: 0,
        records: 1,
    });
    let output = Command::new(&program)
        .arg(daemon.path())
        .args([
            "any",
            "videotestsrc pattern=white num-buffers=20 is-live=true",
        ])
        .env("LD_LIBRARY_PATH", libraries())
        .output()
        .expect("the program starts");
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    if error.contains("no element \"videotestsrc\"") {
        println!("skipped: {error}");
        return;
    }
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}{error}");
    assert!(said.contains(" 0 without a verdict"), "{said}");
    let account = daemon.stop();
    assert!(account.answered > 0, "{said}");
    // White is the same byte throughout: what arrived is what the source made.
    assert_eq!((account.torn, account.faults.len()), (0, 0), "{said}");
    assert!(said.contains("class 255"), "{said}");
}
