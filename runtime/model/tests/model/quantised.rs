//! Networks of bytes: what is valid, what they mean, what tells them apart.

use punctual_model::{
    AnswerKind, Calibration, Exit, InputSpec, Network, NetworkError, Operator, OperatorError,
    OperatorKind, Package, Quantised, Stage, Tensor, TensorId, WeightRange, reference,
};
use punctual_types::{Activation, Extent, Padding, Quantisation, Window};

const FROM: Quantisation = Quantisation {
    scale: 0.5,
    zero: 10,
};
const TO: Quantisation = Quantisation {
    scale: 0.25,
    zero: 100,
};

/// Quantise, convolve (one pixel, one output channel: twice red less blue, plus 1), dequantise.
fn network() -> Network {
    let one = Extent::square(1);
    let none = Padding::default();
    let range = |start, len| WeightRange { start, len };
    let operator = |name: &str, input, kind| Operator {
        name: name.to_owned(),
        input: TensorId(input),
        output: TensorId(input + 1),
        kind,
    };
    let conv = OperatorKind::QuantisedConv2d {
        weights: range(0, 3),
        scales: range(0, 1),
        bias: range(1, 1),
        window: Window::new(one, one, none),
        groups: 1,
        activation: Activation::None,
    };
    let pixel = |channels| Tensor {
        channels,
        height: 1,
        width: 1,
    };
    let mut quantised = Quantised {
        weights: vec![4, 0, -2],
        ..Quantised::default()
    };
    quantised.tensors.insert(TensorId(1), FROM);
    quantised.tensors.insert(TensorId(2), TO);
    Network {
        name: "bytes".to_owned(),
        input: InputSpec::rgb(1, 1, [0.5; 3], [0.25; 3]),
        vectors: vec![],
        answer: AnswerKind::Classes,
        classes: vec!["a".to_owned()],
        tensors: vec![pixel(3), pixel(3), pixel(1), pixel(1)],
        stages: vec![Stage {
            inputs: vec![TensorId(0)],
            outputs: vec![],
            operators: vec![
                operator("in", 0, OperatorKind::Convert),
                operator("conv", 1, conv),
                operator("out", 2, OperatorKind::Convert),
            ],
            exit: Some(Exit::of_scores(TensorId(3), 1)),
        }],
        weights: vec![0.5, 1.0].into(),
        quantised,
    }
}

fn score(image: [f32; 3]) -> f32 {
    reference::run(&network(), &image)[0][0]
}

#[test]
fn bytes_stand_for_what_their_quantisation_says() {
    assert_eq!(network().validate(), Ok(()));
    // 2 * 3 - 1 + 1, all of them whole steps.
    assert_eq!(score([3.0, 7.0, 1.0]), 6.0);
    // A quarter is half a step of the input and goes to the even one.
    assert_eq!(score([3.25, 0.0, 1.0]), 6.0);
    assert_eq!(score([3.75, 0.0, 1.0]), 8.0);
    // Ends of the bytes: (255 - 100) / 4, and (0 - 100) / 4.
    assert_eq!(score([90.0, 0.0, 0.0]), 38.75);
    assert_eq!(score([-5.0, 0.0, 90.0]), -25.0);
}

#[test]
fn a_mix_of_bytes_and_floats_that_no_operator_takes_is_refused() {
    let problem = |change: &dyn Fn(&mut Network)| {
        let mut network = network();
        change(&mut network);
        match network.validate() {
            Err(NetworkError::Operator { problem, .. }) => problem,
            other => panic!("{other:?}"),
        }
    };
    let floats = problem(&|network| {
        network.quantised.tensors.remove(&TensorId(1));
    });
    assert_eq!(floats, OperatorError::Elements);
    let pool = problem(&|network| {
        network.stages[0].operators[2].kind = OperatorKind::GlobalAveragePool;
    });
    assert_eq!(pool, OperatorError::Elements);
    let short = problem(&|network| {
        network.quantised.weights.pop();
    });
    assert!(
        matches!(short, OperatorError::WeightRange { .. }),
        "{short:?}"
    );
    let scale = problem(&|network| network.weights = vec![-0.5, 1.0].into());
    assert_eq!(
        scale,
        OperatorError::Scale {
            scale: -0.5,
            input: 0.5
        }
    );
}

#[test]
fn a_mean_of_more_bytes_than_sums_take_is_refused() {
    let of_side = |side: u32| {
        let mut network = network();
        (network.input.height, network.input.width) = (side, side);
        for tensor in &mut network.tensors[..2] {
            (tensor.height, tensor.width) = (side, side);
        }
        network.tensors.insert(2, Tensor::features(3));
        network.tensors.truncate(4);
        network.tensors[3] = Tensor::features(3);
        network.quantised.weights.clear();
        network.classes = ["a", "b", "c"].map(str::to_owned).to_vec();
        let stage = &mut network.stages[0];
        stage.operators[1].kind = OperatorKind::GlobalAveragePool;
        stage.exit = Some(Exit::of_scores(TensorId(3), 3));
        network.validate()
    };
    assert_eq!(of_side(256), Ok(()));
    let refused = of_side(257).unwrap_err().to_string();
    assert!(
        refused.contains("66049 terms; the limit for bytes is 65536"),
        "{refused}"
    );
}

#[test]
fn the_input_and_the_scores_are_never_bytes_and_scales_are_above_zero() {
    for (tensor, scale) in [(0, 1.0), (3, 1.0), (4, 1.0), (1, 0.0), (2, f32::NAN)] {
        let mut network = network();
        let quantisation = Quantisation { scale, zero: 0 };
        let tensor = TensorId(tensor);
        network.quantised.tensors.insert(tensor, quantisation);
        let refused = network.validate();
        assert!(
            matches!(refused, Err(NetworkError::Quantisation { tensor: found, .. }) if found == tensor),
            "{refused:?}"
        );
    }
}

#[test]
fn a_package_keeps_bytes_and_the_prefix_hash_tells_them_apart() {
    let package = Package::new(network(), Calibration::default()).unwrap();
    let again = Package::decode(&package.encode()).unwrap();
    assert_eq!(again.network(), &network());
    let hash = |network: &Network| network.stage_prefixes()[0].hash;
    let (mut weights, mut zero) = (network(), network());
    weights.quantised.weights[1] = 1;
    zero.quantised.tensors.get_mut(&TensorId(1)).unwrap().zero = 11;
    assert_ne!(hash(&weights), hash(&network()));
    assert_ne!(hash(&zero), hash(&network()));
    assert_eq!(network().stage_prefixes()[0].weight_bytes, 3 + 8);
}
