//! A manifest hands a partition's stages to ONNX Runtime, where `ORT_DYLIB_PATH` names a library;
//! else the tests that need one say that they are skipped.
use crate::support::{Daemon, Folder, assert_accounts, connect, profile, result, submit};
use punctual_device_ort::{Library, PATH_VARIABLE, machine, named};
use punctual_ipc::PixelFormat;
use punctual_model::Package;

/// One camera on a core, whose stages `device` runs.
fn manifest(device: &str) -> String {
    format!(
        "[daemon]\nboard = \"host\"\n\n[[model]]\nname = \"signs\"\npackage = \
         \"signs.punctual\"\n\n[[partition]]\nname = \"main\"\nunits = 1\ndevice = \
         \"{device}\"\n\n[[task]]\nname = \"front\"\nmodel = \"signs\"\npartition = \"main\"\n\
         criticality = \"best-effort\"\nframe = {{ format = \"rgb8\", width = 320, height = 240, \
         crop = [192, 192] }}\n"
    )
}

/// With figures for the library in addition to those for our kernels.
fn folder(device: &str) -> Folder {
    let folder = Folder::with(&manifest(device));
    if named().is_some() {
        let library = Library::load(None).expect("the library that the environment names");
        let host = punctual_daemon::host::detect().expect("a machine");
        let package = Package::decode(&crate::support::package()).expect("a valid package");
        let mut figures = profile(&machine(library), &host.clocks, &package);
        figures.prepare.clear();
        folder.write("signs.ort.profile.json", figures.to_json().as_bytes());
    }
    folder
}

/// The class of the frame that every test submits, and what the daemon said at its end.
fn answered(device: &str) -> (u16, String) {
    let daemon = Daemon::start_in(folder(device));
    let mut camera = connect(&daemon.socket(), "front", PixelFormat::Rgb8);
    let mut class = None;
    for _ in 0..20 {
        submit(&mut camera);
        class = result(&mut camera).answer.and_then(|answer| answer.class);
    }
    drop(camera);
    let report = daemon.stop();
    assert_accounts(&report);
    (class.expect("a classifier"), report.device)
}

#[test]
fn frames_are_answered_by_onnx_runtime_as_by_our_own_kernels() {
    if named().is_none() {
        return println!("skipped: {PATH_VARIABLE} names no ONNX Runtime");
    }
    let (own, by_own) = answered("cpu");
    let (other, by_ort) = answered("ort");
    assert_eq!(own, other);
    assert!(by_own.starts_with("cpu ("), "{by_own}");
    assert!(by_ort.starts_with("ort (onnxruntime "), "{by_ort}");
}
