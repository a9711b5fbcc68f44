//! The demonstration detector: the package is what the files say.

use std::path::{Path, PathBuf};

use punctual_compile::compile_file;
use punctual_model::{AnswerKind, Package};

fn streets(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../models/streets")
        .join(name)
}

/// To renew the package after training: `PUNCTUAL_RENEW=1 cargo test -p punctual-compile`.
#[test]
fn the_committed_detector_is_a_fresh_compile_of_the_committed_network() {
    let fresh = compile_file(&streets("streets.toml")).expect("the committed files compile");
    let path = streets("streets.punctual");
    if std::env::var_os("PUNCTUAL_RENEW").is_some() {
        std::fs::write(&path, fresh.package.encode()).unwrap();
    }
    let committed = Package::read(&path).unwrap();
    assert_eq!(
        committed.hash(),
        fresh.package.hash(),
        "compile models/streets/streets.toml again"
    );
    assert_eq!(std::fs::read(&path).unwrap(), fresh.package.encode());
}

#[test]
fn each_exit_of_the_detector_gives_a_bounded_list_and_how_sure_it_is() {
    let package = Package::read(&streets("streets.punctual")).unwrap();
    let network = package.network();
    assert_eq!(network.answer, AnswerKind::Detections);
    for stage in &network.stages {
        let exit = stage.exit.as_ref().expect("each stage ends in an exit");
        let outputs = exit.outputs.iter();
        let outputs: Vec<_> = outputs
            .map(|output| (&output.name[..], &output.shape[..]))
            .collect();
        assert_eq!(outputs, [("detections", &[20, 6][..]), ("count", &[1][..])]);
        assert!(exit.confidence.is_some());
    }
}
