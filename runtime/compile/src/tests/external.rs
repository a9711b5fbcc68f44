//! Weights in other files: only beside the network. That they are read is tested with real files, in
//! `tests/compile/onnxruntime.rs`.

use std::path::Path;

use super::builder::everything;
use crate::ParseError;
use crate::graph::Graph;
use crate::parse::{self, External};
use crate::schema::{DATA_LOCATION_EXTERNAL, StringStringEntryProto};

#[test]
fn external_data_outside_the_folder() {
    let parsed = |entries: &[(&str, &str)]| -> Result<Graph, ParseError> {
        let mut onnx = everything();
        let weights = &mut onnx.graph().initializer[0];
        weights.data_location = Some(DATA_LOCATION_EXTERNAL);
        let entry = |&(key, value): &(&str, &str)| StringStringEntryProto {
            key: Some(key.to_owned()),
            value: Some(value.to_owned()),
        };
        weights.external_data = entries.iter().map(entry).collect();
        parse::parse(&onnx.bytes(), External::beside(Path::new("folder/x.onnx")))
    };
    for location in ["", "..", "../weights", "/etc/passwd", "a/../../b"] {
        let message = parsed(&[("location", location)]).unwrap_err().to_string();
        assert!(message.contains("must lie in a file beside"), "{message}");
    }
    let somewhere = parsed(&[("location", "weights"), ("offset", "-1")]);
    let message = somewhere.unwrap_err().to_string();
    assert!(
        message.contains("\"w0\" cannot be read from weights: invalid input"),
        "{message}"
    );
}
