//! A manifest hands a partition's stages to ONNX Runtime, where `ORT_DYLIB_PATH` names a library;
//! else the tests that need one say that they are skipped.
use crate::support::{Daemon, Folder, LIMIT, assert_accounts, connect, profile, result, submit};
use punctual_client::{Crop, Options, now_ns};
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
fn folder(device: &str, package: &Package) -> Folder {
    let folder = Folder::with(&manifest(device));
    let host = punctual_daemon::host::detect().expect("a machine");
    let write = |name: &str, machine: &str| {
        let figures = profile(machine, &host.clocks, package);
        folder.write(name, figures.to_json().as_bytes());
    };
    folder.write("signs.punctual", &package.encode());
    write("signs.profile.json", &host.machine);
    if named().is_some() {
        let library = Library::load(None).expect("the library that the environment names");
        write("signs.ort.profile.json", &machine(library));
    }
    folder
}

/// The class of the frame that every test submits, and what the daemon said at its end.
fn answered(device: &str) -> (u16, String) {
    let package = Package::decode(&crate::support::package()).expect("a valid package");
    let daemon = Daemon::start_in(folder(device, &package));
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

/// The list of the detector's objects in one frame with a ring of red.
fn detected(device: &str) -> Vec<f32> {
    let streets = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../models/streets/streets.punctual"
    );
    let package = Package::read(streets.as_ref()).expect("a package of the tree");
    let daemon = Daemon::start_in(folder(device, &package));
    let soon = || Some(now_ns() + LIMIT.as_nanos() as u64);
    let mut client = Options::new(daemon.socket(), "front", PixelFormat::Rgb8)
        .open(soon())
        .expect("a place");
    let mut slot = client.slot(soon()).expect("a daemon").expect("a slot");
    for (at, pixel) in (0..).zip(slot.pixels().chunks_exact_mut(3)) {
        let (x, y) = (at % 320 - 100, at / 320 - 90);
        let colour = match x * x + y * y {
            0..400 => [240; 3],
            400..800 => [200, 20, 30],
            _ => [110, 120, 130],
        };
        pixel.copy_from_slice(&colour);
    }
    slot.submit(now_ns(), None, Crop { x: 0, y: 0 })
        .expect("in order");
    let response = client.verdict(soon()).expect("a daemon").expect("in time");
    let outputs = response.outputs().expect("by default all");
    let list = outputs.get("detections").expect("an output");
    let list = list.as_f32().expect("floats").to_vec();
    drop(response);
    drop(client);
    assert_accounts(&daemon.stop());
    list
}

#[test]
fn the_lists_of_a_detector_on_onnx_runtime_are_those_of_our_own_kernels() {
    if named().is_none() {
        return println!("skipped: {PATH_VARIABLE} names no ONNX Runtime");
    }
    let (own, other) = (detected("cpu"), detected("ort"));
    assert!(own[4] > 0.3, "nothing was found: {own:?}");
    let differs = |(own, other): (&f32, &f32)| (own - other).abs() > 0.01;
    assert!(!own.iter().zip(&other).any(differs), "{own:?} {other:?}");
}
