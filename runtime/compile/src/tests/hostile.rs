//! Files from anywhere: an error or a package, never a panic, and no more memory than limits say.

use std::path::Path;

use fastrand::Rng;
use prost::Message;
use punctual_device_cpu::Evaluator;
use punctual_kernels::Isa;

use super::builder::{Onnx, everything, int, ints_of};
use super::{compiled, compiled_for_outputs, options};
use crate::schema::{AttributeProto, GraphProto, ModelProto, TensorProto, data_type};
use crate::{Compiled, InputOptions, compile};
use punctual_model::{AnswerKind, Calibration, Package, reference};

/// What compiles must be a valid package that runs.
fn check(
    Compiled {
        package, report, ..
    }: &Compiled,
) {
    assert!(!report.to_string().is_empty());
    assert_eq!(&Package::decode(&package.encode()).unwrap(), package);
    let network = package.network();
    let work = network
        .stages
        .iter()
        .map(|stage| network.multiplications(stage));
    let elements = network.tensors.iter().map(|tensor| tensor.elements());
    if work.chain(elements).sum::<u64>() < 100_000 {
        let logits = reference::run(network, &[0.5; 3 * 8 * 8]);
        assert!(
            logits
                .iter()
                .all(|logits| logits.len() == network.classes.len())
        );
    }
}

#[test]
fn a_file_cut_off_anywhere_is_refused_or_compiles() {
    let bytes = everything().bytes();
    for length in 0..bytes.len() {
        // Without its opset, which is written last, no prefix is a network.
        assert!(
            compile(&bytes[..length], Calibration::default(), &options()).is_err(),
            "{length}"
        );
    }
}

#[test]
fn damaged_bytes_are_refused_or_compile() {
    let bytes = everything().bytes();
    let mut random = Rng::with_seed(0x5EED);
    let mut taken = 0;
    for _ in 0..4_000 {
        let mut damaged = bytes.clone();
        for _ in 0..=random.usize(..3) {
            let at = random.usize(..damaged.len());
            match random.usize(..4) {
                0 => damaged[at] ^= 1 << random.usize(..8),
                1 => damaged[at] = random.u8(..),
                2 => drop(damaged.remove(at)),
                _ => damaged.insert(at, random.u8(..)),
            }
        }
        match compile(&damaged, Calibration::default(), &options()) {
            Ok(compiled) => {
                check(&compiled);
                taken += 1;
            }
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
    assert!(
        taken > 50,
        "only {taken} of the damaged files reached the end"
    );
}

const NUMBERS: [i64; 12] = [
    0,
    1,
    2,
    3,
    -1,
    -2,
    4,
    1023,
    1 << 31,
    1 << 62,
    i64::MAX,
    i64::MIN,
];

/// Any of the constants, those of nodes among them.
fn a_constant<'g>(graph: &'g mut GraphProto, random: &mut Rng) -> Option<&'g mut TensorProto> {
    let attributes = graph.node.iter_mut().flat_map(|node| &mut node.attribute);
    let of_nodes = attributes.filter_map(|attribute| attribute.t.as_mut());
    let mut all: Vec<_> = graph.initializer.iter_mut().chain(of_nodes).collect();
    let count = all.len();
    (count > 0).then(|| all.swap_remove(random.usize(..count)))
}

/// Changes one thing of a well-formed file into another well-formed thing.
fn forge(model: &mut ModelProto, random: &mut Rng) {
    let number = NUMBERS[random.usize(..NUMBERS.len())];
    let graph = model.graph.as_mut().expect("there is a graph");
    let count = graph.node.len();
    let other = graph.node[random.usize(..count)].clone();
    let node = &mut graph.node[random.usize(..count)];
    match random.usize(..9) {
        0 => graph
            .node
            .swap(random.usize(..count), random.usize(..count)),
        1 | 2 => {
            if let Some(input) = random.choice(&mut node.input) {
                input.clone_from(&other.output[0]);
            }
        }
        3 | 4 => {
            if let Some(attribute) = random.choice(&mut node.attribute) {
                attribute.i = Some(number);
                if let Some(value) = random.choice(&mut attribute.ints) {
                    *value = number;
                }
            }
        }
        5..=7 => {
            let Some(tensor) = a_constant(graph, random) else {
                return;
            };
            match random.usize(..3) {
                0 => tensor.dims.reverse(),
                1 => {
                    if let Some(dim) = random.choice(&mut tensor.dims) {
                        *dim = number;
                    }
                }
                _ => {
                    if let Some(value) = random.choice(&mut tensor.int64_data) {
                        *value = number;
                    }
                    let words = tensor.raw_data.iter_mut();
                    let mut words = words.flat_map(|bytes| bytes.as_chunks_mut::<8>().0);
                    if let Some(word) = words.next() {
                        *word = number.to_le_bytes();
                    }
                }
            }
        }
        _ => node.op_type.clone_from(&other.op_type),
    }
}

#[test]
fn well_formed_lies_are_refused_or_compile() {
    let bytes = everything().bytes();
    let mut random = Rng::with_seed(0xBAD_5EED);
    let mut taken = 0;
    for _ in 0..4_000 {
        let mut model = ModelProto::decode(&bytes[..]).unwrap();
        for _ in 0..=random.usize(..2) {
            forge(&mut model, &mut random);
        }
        match compiled(&Onnx(model)) {
            Ok(compiled) => {
                check(&compiled);
                taken += 1;
            }
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
    assert!(
        taken > 200,
        "only {taken} of the forged files reached the end"
    );
}

#[test]
fn a_shape_that_doubles_with_each_node_is_stopped() {
    let mut onnx = Onnx::new().ints("s0", &[1, 2]);
    for at in 0..60 {
        let both = format!("s{at} s{at}");
        onnx = onnx.node("Concat", &both, &format!("s{}", at + 1), &[int("axis", 0)]);
    }
    let error = compiled(&onnx.head("image", 3, "exit_0")).unwrap_err();
    let message = error.to_string();
    assert!(message.contains("node \"node_s2"), "{message}");
    assert!(message.contains("words computed of constants"), "{message}");
}

#[test]
fn more_operators_than_a_device_takes_are_refused_at_the_first_one() {
    let mut onnx = Onnx::new();
    let mut from = "image".to_owned();
    for at in 0..=punctual_model::OPERATORS_MAX {
        let to = format!("r{at}");
        onnx = onnx.node("Relu", &from, &to, &[]);
        from = to;
    }
    let message = compiled(&onnx.head(&from, 3, "exit_0"))
        .unwrap_err()
        .to_string();
    assert!(
        message.contains("(Relu): with it the network has more than 4096 operators"),
        "{message}"
    );
}

/// The recorded networks of robots have every operator that exporters write. `PUNCTUAL_FORGED` is the number of forged
/// files of each.
#[test]
fn forged_recorded_networks_are_refused_or_compile() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/zoo/recorded");
    let mut options = options();
    options.input = InputOptions {
        prepared: Some(true),
        ..InputOptions::default()
    };
    options.answer = Some(AnswerKind::None);
    let tries = std::env::var("PUNCTUAL_FORGED").map_or(20, |tries| tries.parse().unwrap());
    let (mut networks, mut taken, mut panicked) = (0, 0, Vec::new());
    for file in std::fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "onnx") {
            continue;
        }
        networks += 1;
        let bytes = std::fs::read(&path).unwrap();
        for seed in 0..tries {
            let mut random = Rng::with_seed(seed);
            let mut model = ModelProto::decode(&bytes[..]).unwrap();
            for _ in 0..=random.usize(..2) {
                forge(&mut model, &mut random);
            }
            let outcome = std::panic::catch_unwind(|| {
                let forged = Onnx(model).bytes();
                match compile(&forged, Calibration::default(), &options) {
                    Ok(compiled) => run(&compiled),
                    Err(error) => {
                        assert!(!error.to_string().is_empty());
                        0
                    }
                }
            });
            match outcome {
                Ok(ran) => taken += ran,
                Err(_) => panicked.push((path.clone(), seed)),
            }
        }
    }
    assert!(panicked.is_empty(), "{panicked:#?}");
    assert!(networks >= 40, "{networks} networks");
    assert!(
        taken > networks,
        "only {taken} forged files reached the end"
    );
}

/// Runs a small network in the interpreter and on the CPU device; 1.
fn run(compiled: &Compiled) -> usize {
    let package = &compiled.package;
    assert_eq!(&Package::decode(&package.encode()).unwrap(), package);
    let network = package.network();
    let stages = network.stages.iter();
    let work: u64 = stages.map(|stage| network.multiplications(stage)).sum();
    let elements = network.tensors.iter().map(|tensor| tensor.elements());
    if work.saturating_add(elements.sum()) > 1_000_000 {
        return 1;
    }
    let inputs: Vec<Vec<f32>> = network
        .input_tensors()
        .map(|tensor| vec![0.5; network.tensors[tensor.index()].elements() as usize])
        .collect();
    let inputs: Vec<&[f32]> = inputs.iter().map(Vec::as_slice).collect();
    assert!(!reference::run_all(network, &inputs).is_empty());
    let mut device = Evaluator::new(Isa::detect(), network, 1).unwrap();
    device.load(&inputs[..1]);
    device.load_vectors(0, &inputs[1..]);
    assert!(!device.exits(1).is_empty());
    1
}

#[test]
fn places_windows_and_groups_beyond_all_bounds_are_refused() {
    let base = || {
        Onnx::new()
            .floats("updates", &[1, 3, 9, 8])
            .floats("kernels", &[3, 2, 3, 3])
            .floats("volume_w", &[2, 3, 1, 1, 1])
            .ints("volume", &[0, 3, 2, 4, 8])
            .ints("long", &[0; 216])
            .ints("nine", &[1, 3, 9, 8])
            .ints("none", &[])
            .ints("empty", &[2, 0])
            .node("Reshape", "long nine", "beyond", &[])
            .node("ConstantOfShape", "empty", "no_tuples", &[])
            .node(
                "Cast",
                "no_tuples",
                "tuples",
                &[int("to", data_type::INT64.into())],
            )
            .node("Relu", "image", "r", &[])
            .node("Reshape", "r volume", "v", &[])
    };
    let huge = i64::MAX;
    let nodes: [(&str, &str, &[AttributeProto]); 7] = [
        ("ScatterElements", "r beyond updates", &[int("axis", 1)]),
        ("GatherElements", "r beyond", &[int("axis", 1)]),
        ("GatherND", "r tuples", &[]),
        ("Conv", "v volume_w", &[int("group", huge)]),
        ("ConvTranspose", "r kernels", &[ints_of("pads", &[huge; 4])]),
        (
            "ConvTranspose",
            "r kernels",
            &[ints_of("pads", &[i64::MIN; 4])],
        ),
        (
            "ConvTranspose",
            "r kernels",
            &[ints_of("output_shape", &[i64::MIN, huge])],
        ),
    ];
    for (operator, inputs, attributes) in nodes {
        let onnx = base().node(operator, inputs, "x", attributes).output("x");
        assert!(compiled_for_outputs(&onnx).is_err(), "{operator} {inputs}");
    }
}
