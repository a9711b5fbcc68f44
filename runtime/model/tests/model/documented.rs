//! docs/package.md lists the types of the description as they are in the source: their order is the format.

use std::fs;
use std::path::Path;

use punctual_model::{FORMAT_VERSION, IMAGE_CHANNELS_MAX};

/// Where the types that it lists are defined.
const SOURCES: &[&str] = &[
    "runtime/model/src/package/description.rs",
    "runtime/model/src/package/image.rs",
    "runtime/model/src/package/hash.rs",
    "runtime/model/src/network.rs",
    "runtime/model/src/tensor.rs",
    "runtime/model/src/operators/mod.rs",
    "runtime/model/src/operators/attention.rs",
    "runtime/model/src/operators/best_score.rs",
    "runtime/model/src/operators/binary.rs",
    "runtime/model/src/operators/conv2d.rs",
    "runtime/model/src/operators/convert.rs",
    "runtime/model/src/operators/copy.rs",
    "runtime/model/src/operators/detections.rs",
    "runtime/model/src/operators/embedding.rs",
    "runtime/model/src/operators/gather.rs",
    "runtime/model/src/operators/grid_sample.rs",
    "runtime/model/src/operators/layer_norm.rs",
    "runtime/model/src/operators/linear.rs",
    "runtime/model/src/operators/pool.rs",
    "runtime/model/src/operators/product.rs",
    "runtime/model/src/operators/quantised_conv2d.rs",
    "runtime/model/src/operators/recurrent.rs",
    "runtime/model/src/operators/resize.rs",
    "runtime/model/src/operators/softmax.rs",
    "runtime/model/src/operators/take.rs",
    "runtime/model/src/operators/tokens.rs",
    "runtime/model/src/operators/top_k.rs",
    "runtime/model/src/operators/unary.rs",
    "runtime/model/src/exit.rs",
    "runtime/model/src/quantised.rs",
    "runtime/model/src/calibration.rs",
    "runtime/model/src/calibration/record.rs",
    "runtime/model/src/prefix.rs",
    "runtime/model/src/layout.rs",
    "kernels/types/src/answer.rs",
    "kernels/types/src/element.rs",
    "kernels/types/src/view.rs",
    "kernels/types/src/window.rs",
    "kernels/types/src/activation.rs",
    "kernels/types/src/cell.rs",
    "kernels/types/src/piece.rs",
    "kernels/types/src/function.rs",
    "kernels/types/src/ranking.rs",
    "kernels/types/src/detection.rs",
    "kernels/types/src/resampling.rs",
    "kernels/types/src/sampling.rs",
    "kernels/types/src/quantisation.rs",
];

fn read(path: &str) -> String {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    fs::read_to_string(root.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The types that are encoded: `structName{field:Type}`, without blanks.
fn types(source: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut lines = source
        .lines()
        .map(|line| line.trim().replace("pub(super) ", "").replace("pub ", ""));
    let mut encoded = false;
    while let Some(line) = lines.next() {
        if line.starts_with("#[derive") {
            encoded = line.contains("Deserialize");
        }
        let is_type = line.starts_with("struct ") || line.starts_with("enum ");
        if !is_type || !std::mem::take(&mut encoded) {
            continue;
        }
        let mut text = line;
        let mut skipped = false;
        while !text.ends_with(';') && text.matches('{').count() > text.matches('}').count() {
            match lines.next().expect("a type ends").as_str() {
                "#[serde(skip)]" => skipped = true,
                line if line.starts_with("//") || line.starts_with("#[") => {}
                _ if skipped => skipped = false,
                line => text.push_str(line),
            }
        }
        found.push(without_blanks(&text));
    }
    found
}

fn without_blanks(text: &str) -> String {
    let text: String = text.split_whitespace().collect();
    let channels = IMAGE_CHANNELS_MAX.to_string();
    text.replace(",}", "}")
        .replace("IMAGE_CHANNELS_MAX", &channels)
}

#[test]
fn the_types_of_the_description_are_documented_as_they_are() {
    let document = read("docs/package.md");
    let (_, list) = document.split_once("```rust\n").expect("a list of types");
    let (list, _) = list.split_once("```").expect("its end");
    let listed = without_blanks(list);
    let types: Vec<String> = SOURCES
        .iter()
        .flat_map(|source| types(&read(source)))
        .collect();
    assert!(types.len() > 40, "{types:#?}");
    let mut rest = listed.clone();
    for found in types {
        assert!(listed.contains(&found), "docs/package.md lacks\n{found}");
        rest = rest.replacen(&found, "", 1);
    }
    assert_eq!(
        rest, "",
        "docs/package.md lists what is no type of the description"
    );
    assert!(document.contains(&format!("Format version {FORMAT_VERSION}.")));
}
