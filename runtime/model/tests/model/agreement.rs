//! Tolerances that a network justifies: tight enough for planted faults, wide where the network itself is undecided.

use punctual_model::reference::agreement::{
    Compared, ExpectedExit, Mismatch, Precision, agrees_with_more_noise, expected,
};
use punctual_model::reference::{Exited, run_all};
use punctual_model::{
    AnswerKind, Binary, Conv2d, Exit, InputForm, InputSpec, Network, Operator, OperatorKind,
    Output, Pool, Quantised, Stage, Tensor, TensorId, TopK, Unary, WeightRange,
};
use punctual_types::{
    Activation, Axis, BinaryFunction, Element, Extent, Padding, PoolKind, Random, Ranking,
    UnaryFunction, View, Window,
};

const CHANNELS: u32 = 8;
const SIDE: u32 = 12;
const ROW: usize = SIDE as usize;
const PLANE: usize = ROW * ROW;

const IMAGE: Tensor = Tensor {
    channels: CHANNELS,
    height: SIDE,
    width: SIDE,
};

/// An operator of a chain, which names it and connects its input and its output, and the shape of its result.
type Link = (Operator, Tensor);

/// One that keeps the shape of the image.
fn link(kind: impl Into<OperatorKind>) -> Link {
    (Operator::new("", &[TensorId(0)], TensorId(0), kind), IMAGE)
}

fn unary(function: UnaryFunction) -> Link {
    link(Unary { function })
}

/// A chain of operators on an image of eight channels, and outputs of some of them.
fn network(links: Vec<Link>, outputs: &[u32], weights: Vec<f32>) -> Network {
    let shapes = links.iter().map(|(_, shape)| *shape);
    let tensors: Vec<Tensor> = [IMAGE].into_iter().chain(shapes).collect();
    let operators = (0..).zip(links).map(|(at, (operator, _))| Operator {
        name: format!("operator{at}"),
        input: TensorId(at),
        output: TensorId(at + 1),
        ..operator
    });
    let output = |&tensor: &u32| {
        let Tensor {
            channels,
            height,
            width,
        } = tensors[tensor as usize];
        Output {
            name: format!("output{tensor}"),
            tensor: TensorId(tensor),
            shape: vec![channels, height, width],
            view: View::plain([channels, height, width]),
            element: Element::F32,
        }
    };
    let exit = Exit {
        outputs: outputs.iter().map(output).collect(),
        scores: None,
        confidence: None,
    };
    Network {
        name: "chain".to_owned(),
        input: InputSpec {
            channels: CHANNELS,
            height: SIDE,
            width: SIDE,
            form: InputForm::Prepared,
        },
        vectors: vec![],
        answer: AnswerKind::None,
        classes: vec![],
        stages: vec![Stage {
            inputs: vec![TensorId(0)],
            outputs: vec![],
            operators: operators.collect(),
            exit: Some(exit),
        }],
        tensors,
        weights: weights.into(),
        quantised: Quantised::default(),
    }
}

/// Convolutions with halos, of which the last two are outputs.
fn convolutions(depth: u32) -> Network {
    let each = CHANNELS * CHANNELS * 9;
    let conv = |at: u32| {
        let start = at * (each + CHANNELS);
        let range = |start, len| WeightRange { start, len };
        let (operator, shape) = link(Conv2d {
            window: Window::new(Extent::square(3), Extent::square(1), Padding::uniform(1)),
            groups: 1,
            activation: Activation::Silu,
        });
        let weights = [range(start, each), range(start + each, CHANNELS)];
        (operator.with_weights(weights), shape)
    };
    let mut random = Random::new(3);
    let weights = (0..depth * (each + CHANNELS)).map(|_| 0.25 * random.signed_unit());
    let weights = weights.collect();
    network((0..depth).map(conv).collect(), &[depth - 1, depth], weights)
}

fn image() -> Vec<f32> {
    let mut random = Random::new(5);
    (0..IMAGE.elements())
        .map(|_| 2.0 * random.signed_unit())
        .collect()
}

fn expected_exit(network: &Network, precision: Precision) -> ExpectedExit {
    let exits = expected(network, &[&image()], precision, 1);
    exits.into_iter().flatten().next().expect("it has an exit")
}

fn exact(network: &Network) -> Exited {
    run_all(network, &[&image()])
        .remove(0)
        .expect("it has an exit")
}

/// What is found must be refused for an element of this output.
fn assert_refused(expected: &ExpectedExit, found: &Exited, output: &str) {
    match expected.compare(found) {
        Err(Mismatch::Value { output: of, .. }) => assert_eq!(of, output),
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_the_reference_gives_agrees_and_all_of_it_is_compared() {
    let network = convolutions(6);
    for precision in [Precision::Single, Precision::Half] {
        let compared = expected_exit(&network, precision).compare(&exact(&network));
        let Ok(Compared {
            values,
            undecided,
            worst,
        }) = compared
        else {
            panic!("{compared:?}");
        };
        assert_eq!((values, undecided, worst), (2 * IMAGE.elements(), 0, 0.0));
    }
}

#[test]
fn the_tolerance_is_that_of_the_arithmetic() {
    let network = convolutions(6);
    let widest = |precision| {
        let expected = expected_exit(&network, precision);
        let output = &expected.outputs[1];
        let largest = output.values().iter().fold(0.0_f32, |a, b| a.max(b.abs()));
        output.tolerances().iter().fold(0.0_f32, |a, &b| a.max(b)) / largest
    };
    let (single, half) = (widest(Precision::Single), widest(Precision::Half));
    assert!((1e-7..1e-4).contains(&single), "{single}");
    assert!((1e-3..0.1).contains(&half), "{half}");
}

#[test]
fn values_of_another_tensor_place_or_time_never_agree() {
    let network = convolutions(6);
    let exact = exact(&network);
    for precision in [Precision::Single, Precision::Half] {
        let expected = expected_exit(&network, precision);
        let mut exchanged = exact.clone();
        exchanged.outputs.swap(0, 1);
        assert_refused(&expected, &exchanged, "output5");

        let mut shifted = exact.clone();
        shifted.outputs[1][..2 * PLANE].rotate_left(PLANE);
        assert_refused(&expected, &shifted, "output6");

        let mut moved = exact.clone();
        moved.outputs[1][3 * PLANE..4 * PLANE].rotate_right(1);
        assert_refused(&expected, &moved, "output6");

        let mut poisoned = exact.clone();
        poisoned.outputs[0][77] = f32::NAN;
        assert_refused(&expected, &poisoned, "output5");

        // What lay next to the image's last row was not cleared, or was cleared when it should not.
        let mut other = image();
        other[PLANE - ROW..PLANE].fill(0.0);
        let halo = run_all(&network, &[&other])
            .remove(0)
            .expect("it has an exit");
        assert_refused(&expected, &halo, "output5");
    }
}

#[test]
fn a_missing_output_or_element_is_no_agreement() {
    let network = convolutions(2);
    let expected = expected_exit(&network, Precision::Single);
    let mut found = exact(&network);
    found.outputs[1].pop();
    let error = expected.compare(&found).unwrap_err();
    assert_eq!(
        error.to_string(),
        "`output2` has 1151 elements, expected 1152"
    );
    found.outputs.pop();
    let error = expected.compare(&found).unwrap_err();
    assert_eq!(error.to_string(), "1 outputs, expected 2");
}

#[test]
fn an_order_that_noise_decides_is_counted_and_not_compared() {
    // The best of channels that differ by less than noise, and some that differ by more.
    let ranking = Ranking {
        largest: true,
        last: false,
    };
    let (best, _) = link(TopK {
        axis: Axis::Channel,
        count: 1,
        ranking,
    });
    let shape = Tensor {
        channels: 1,
        ..IMAGE
    };
    let links = vec![unary(UnaryFunction::Sine), (best, shape)];
    let network = network(links, &[2], vec![]);
    let mut near = image();
    for at in 0..PLANE {
        let equal = 1.5 + at as f32 * 1e-9;
        near[at] = if at % 2 == 0 { equal } else { 0.5 };
        near[4 * PLANE + at] = 1.5 + f32::EPSILON;
        (1..CHANNELS as usize)
            .filter(|c| *c != 4)
            .for_each(|c| near[c * PLANE + at] = 0.1);
    }
    let expected = expected(&network, &[&near], Precision::Single, 9).remove(0);
    let expected = expected.expect("it has an exit");
    let mut found = run_all(&network, &[&near])
        .remove(0)
        .expect("it has an exit");
    let compared = expected.compare(&found).expect("agrees");
    assert_eq!(compared.values + compared.undecided, PLANE as u64);
    assert!((40..=72).contains(&compared.undecided), "{compared:?}");
    // Where the channels differ by much, the fourth is the best.
    found.outputs[0][1] = 0.0;
    assert_refused(&expected, &found, "output2");
}

/// Elements of the last operator's output, whole numbers, that the noise of a single draw does not decide.
fn decided(links: Vec<Link>, image: &[f32]) -> usize {
    decided_with(links, vec![], image)
}

fn decided_with(links: Vec<Link>, weights: Vec<f32>, image: &[f32]) -> usize {
    let last = links.len() as u32;
    let mut network = network(links, &[last], weights);
    let exit = network.stages[0].exit.as_mut().expect("an exit");
    exit.outputs[0].element = Element::I32;
    let expected = expected(&network, &[image], Precision::Single, 3).remove(0);
    let output = &expected.expect("an exit").outputs[0];
    let tolerances = output.tolerances().iter();
    tolerances.filter(|t| t.is_finite()).count()
}

#[test]
fn a_curve_near_zero_may_have_either_sign() {
    // With a negative result, since noise makes none where there is none.
    let mut zeros = vec![0.0; IMAGE.elements() as usize];
    zeros[0] = -0.5;
    for function in [UnaryFunction::Floor, UnaryFunction::Ceiling] {
        let links = vec![unary(UnaryFunction::Sine), unary(function)];
        assert_eq!(decided(links, &zeros), 1, "{function:?}");
    }
}

#[test]
fn an_average_of_values_that_cancel_may_have_either_sign() {
    let kernel = Extent {
        height: 1,
        width: 2,
    };
    let (average, _) = link(Pool {
        kind: PoolKind::Average {
            counts_padding: false,
        },
        kernel,
        stride: kernel,
        padding: Padding::default(),
    });
    let shape = Tensor {
        width: SIDE / 2,
        ..IMAGE
    };
    let (ceiling, _) = unary(UnaryFunction::Ceiling);
    let cancelling = (0..IMAGE.elements()).map(|at| [1.1, -1.1][at as usize % 2]);
    let cancelling: Vec<f32> = cancelling.collect();
    let links = vec![(average, shape), (ceiling, shape)];
    assert_eq!(decided(links, &cancelling), 0);
}

/// Each channel times a factor.
fn scaled(activation: Activation) -> Link {
    let range = |start| WeightRange {
        start,
        len: CHANNELS,
    };
    let (operator, shape) = link(Conv2d {
        window: Window::new(Extent::square(1), Extent::square(1), Padding::default()),
        groups: CHANNELS,
        activation,
    });
    (operator.with_weights([range(0), range(CHANNELS)]), shape)
}

fn factors(factor: f32) -> Vec<f32> {
    let bias = [0.0; CHANNELS as usize];
    [[factor; CHANNELS as usize], bias].concat()
}

#[test]
fn a_curve_that_ends_in_a_negative_zero_may_be_less() {
    let links = |activation| vec![scaled(activation), unary(UnaryFunction::Floor)];
    let all = IMAGE.elements() as usize;
    let decided = |activation| decided_with(links(activation), factors(1.0), &vec![-30.0; all]);
    assert_eq!(decided(Activation::Gelu), 0);
    // A whole number that no engine rounds.
    assert_eq!(decided(Activation::None), all);
}

#[test]
fn a_sum_of_fractions_may_be_a_whole_number_or_next_to_it() {
    let all = IMAGE.elements() as usize;
    let links = |function| vec![scaled(Activation::None), unary(function)];
    let decided = |function, value| decided_with(links(function), factors(0.1), &vec![value; all]);
    assert_eq!(decided(UnaryFunction::Floor, 60.0), 0);
    // A sum of nothing but zeros is nothing, whatever jumps behind it.
    assert_eq!(decided(UnaryFunction::Ceiling, 0.0), all);
}

#[test]
fn a_number_that_is_whole_only_because_it_is_large_is_rounded() {
    let links = || {
        let (mut square, shape) = link(Binary::new(BinaryFunction::Multiply));
        square.others = vec![TensorId(0)];
        vec![
            (square, shape),
            unary(UnaryFunction::Sine),
            unary(UnaryFunction::Floor),
        ]
    };
    let all = IMAGE.elements() as usize;
    let large = decided(links(), &vec![30_001.0; all]);
    let small = decided(links(), &vec![2.0; all]);
    assert!(large < all / 2, "{large} of {all} decided");
    assert_eq!(small, all);
}

#[test]
fn what_is_no_number_must_be_none_and_infinities_must_be_alike() {
    let network = network(vec![unary(UnaryFunction::Logarithm)], &[1], vec![]);
    let mut input = image();
    (input[0], input[1], input[2]) = (0.0, -1.5, 2.5);
    let expected = expected(&network, &[&input], Precision::Single, 2).remove(0);
    let expected = expected.expect("it has an exit");
    let found = run_all(&network, &[&input])
        .remove(0)
        .expect("it has an exit");
    assert!(found.outputs[0][0] == f32::NEG_INFINITY && found.outputs[0][1].is_nan());
    assert!(expected.compare(&found).is_ok());
    for (at, wrong) in [(0, f32::INFINITY), (0, f32::NAN), (1, 0.0), (2, f32::NAN)] {
        let mut found = found.clone();
        found.outputs[0][at] = wrong;
        assert_refused(&expected, &found, "output1");
    }
}

#[test]
fn the_same_seed_gives_the_same_tolerances() {
    let network = convolutions(3);
    let first = expected_exit(&network, Precision::Half);
    assert_eq!(first, expected_exit(&network, Precision::Half));
}

#[test]
fn an_answer_is_wrong_only_after_all_draws_of_noise_of_which_each_allows_more() {
    let network = convolutions(3);
    let image = image();
    let inputs = [&image[..]];
    let mut seen: Vec<Vec<f32>> = Vec::new();
    let mut tolerances = |exits: &[Option<ExpectedExit>]| {
        let exit = exits[0].as_ref().expect("an exit");
        seen.push(exit.outputs[0].tolerances().to_vec());
        seen.len()
    };
    assert!(agrees_with_more_noise(
        &network,
        &inputs,
        Precision::Single,
        1,
        |exits| tolerances(exits) == 3
    ));
    assert!(!agrees_with_more_noise(
        &network,
        &inputs,
        Precision::Single,
        1,
        |exits| tolerances(exits) == 0
    ));
    let (first, all) = seen.split_at(3);
    assert!(all.starts_with(first), "the same seed gives the same draws");
    assert!(all.len() > 3);
    for draws in all.windows(2) {
        let mut elements = draws[0].iter().zip(&draws[1]);
        assert!(elements.all(|(before, after)| before <= after));
        assert_ne!(draws[0], draws[1]);
    }
}
