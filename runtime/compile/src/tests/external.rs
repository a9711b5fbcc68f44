//! Weights in other files: only in files next to the network. That they are read is tested with real files, in
//! `tests/compile/onnxruntime.rs`.

use std::path::Path;

use super::builder::everything;
use crate::ParseError;
use crate::graph::Graph;
use crate::parse::{self, External};
use crate::schema::{DATA_LOCATION_EXTERNAL, StringStringEntryProto};

#[test]
fn external_data_outside_the_folder() {
    let parsed_beside = |onnx: &Path, entries: &[(&str, &str)]| -> Result<Graph, ParseError> {
        let mut network = everything();
        let weights = &mut network.graph().initializer[0];
        weights.data_location = Some(DATA_LOCATION_EXTERNAL);
        let entry = |&(key, value): &(&str, &str)| StringStringEntryProto {
            key: Some(key.to_owned()),
            value: Some(value.to_owned()),
        };
        weights.external_data = entries.iter().map(entry).collect();
        parse::parse(&network.bytes(), External::beside(onnx))
    };
    let parsed = |entries: &[(&str, &str)]| parsed_beside(Path::new("folder/x.onnx"), entries);
    for location in ["", "..", "../weights", "/etc/passwd", "a/../../b"] {
        let message = parsed(&[("location", location)]).unwrap_err().to_string();
        assert!(message.contains("must lie in a file beside"), "{message}");
    }
    let folder = std::env::temp_dir().join(format!("punctual-external-{}", std::process::id()));
    std::fs::create_dir_all(folder.join("network")).expect("a folder");
    std::fs::write(folder.join("secret"), [0; 64]).expect("a file");
    let link = folder.join("network/weights");
    std::os::unix::fs::symlink("../secret", &link).expect("a link");
    let message = parsed_beside(&folder.join("network/x.onnx"), &[("location", "weights")]);
    std::fs::remove_dir_all(&folder).expect("removed");
    let message = message.unwrap_err().to_string();
    assert!(
        message.contains("leads to") && message.contains("secret outside of"),
        "{message}"
    );
    let somewhere = parsed(&[("location", "weights"), ("offset", "-1")]);
    let message = somewhere.unwrap_err().to_string();
    assert!(
        message.contains("\"w0\" cannot be read from weights: invalid input"),
        "{message}"
    );
}
