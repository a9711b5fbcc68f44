//! Networks of bytes: what is valid, what they mean, what tells them apart.

use punctual_model::{
    AnswerKind, Binary, Calibration, Convert, Copy, Exit, InputSpec, Network, NetworkError,
    Operator, OperatorError, OperatorKind, Package, Pool, Quantised, QuantisedConv2d, Stage,
    Tensor, TensorId, WeightRange, reference,
};
use punctual_types::{Activation, BinaryFunction, Extent, Padding, Quantisation, Window};

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
    let operator = |name: &str, input, kind: OperatorKind| {
        Operator::new(name, &[TensorId(input)], TensorId(input + 1), kind)
    };
    let conv = QuantisedConv2d {
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
                operator("in", 0, Convert.into()),
                operator("conv", 1, conv.into()).with_weights([
                    range(0, 3),
                    range(0, 1),
                    range(1, 1),
                ]),
                operator("out", 2, Convert.into()),
            ],
            exit: Some(Exit::of_scores(TensorId(3), 1)),
        }],
        weights: vec![0.5, 1.0].into(),
        quantised,
    }
}

/// The same with another operator from bytes to bytes, three channels each, instead of the convolution.
fn of_three_classes(operator: Operator) -> Network {
    let mut network = network();
    network.tensors[2..].fill(Tensor::features(3));
    network.quantised.weights.clear();
    network.classes = ["a", "b", "c"].map(str::to_owned).to_vec();
    let stage = &mut network.stages[0];
    stage.operators[1] = operator;
    stage.exit = Some(Exit::of_scores(TensorId(3), 3));
    network
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
        let pool = Pool::mean_of_all(Extent::square(1));
        network.stages[0].operators[2].kind = pool.into();
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
        let mean = Pool::mean_of_all(Extent::square(side));
        let mean = Operator::new("mean", &[TensorId(1)], TensorId(2), mean);
        let mut network = of_three_classes(mean);
        (network.input.height, network.input.width) = (side, side);
        for tensor in &mut network.tensors[..2] {
            (tensor.height, tensor.width) = (side, side);
        }
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
fn bytes_are_added_only_in_one_shape_and_without_being_swapped() {
    let reads = [1, 1].map(TensorId);
    let of = |kind: Binary| of_three_classes(Operator::new("add", &reads, TensorId(2), kind));
    let add = Binary::new(BinaryFunction::Add);
    let sum = of(add);
    assert_eq!(sum.validate(), Ok(()));
    assert_eq!(
        reference::run(&sum, &[3.0, -5.0, 0.5])[0],
        [6.0, -10.0, 1.0]
    );
    let problem = |network: &Network| match network.validate() {
        Err(NetworkError::Operator { problem, .. }) => problem,
        other => panic!("{other:?}"),
    };
    let swapped = Binary {
        swapped: true,
        ..add
    };
    let multiplied = Binary::new(BinaryFunction::Multiply);
    for refused in [swapped, multiplied] {
        assert_eq!(problem(&of(refused)), OperatorError::Elements);
    }
    let curve = Binary {
        activation: Activation::Sigmoid,
        ..add
    };
    assert_eq!(problem(&of(curve)), OperatorError::Curve);

    let mut constant = of(Binary {
        constant: Some(Tensor::features(1)),
        ..add
    });
    let operator = &mut constant.stages[0].operators[1];
    operator.others.clear();
    operator.weights = vec![WeightRange { start: 0, len: 1 }];
    assert_eq!(problem(&constant), OperatorError::Elements);

    // Floats of these shapes would be added, the second one repeated.
    let mut repeated = of(add);
    repeated.tensors.push(Tensor::features(1));
    repeated.quantised.tensors.insert(TensorId(4), FROM);
    let operators = &mut repeated.stages[0].operators;
    operators[1].others = vec![TensorId(4)];
    let first = Operator::new("first", &[TensorId(1)], TensorId(4), Copy::of_column(0, 1));
    operators.insert(1, first);
    let problem = problem(&repeated).to_string();
    assert_eq!(problem, "the second addend is 1x1x1, the first is 3x1x1");
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
