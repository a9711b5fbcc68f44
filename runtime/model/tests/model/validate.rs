//! Every rule that devices rely on, broken once.

use punctual_model::{
    Attention, BiasForm, Binary, Calibration, Conv2d, Copy, DIMENSION_MAX, Embedding, Exit,
    GridSample, InputForm, KERNEL_MAX, LayerNorm, NAME_BYTES_MAX, Network, OPERATORS_MAX, Operands,
    Operator, OperatorKind, Output, Package, Pool, Product, Resize, ShapeError, Softmax, Stage,
    Take, Tensor, TensorId, Tokens, TopK, Unary, VectorSpec, WeightRange,
};
use punctual_types::{
    Activation, Axis, BinaryFunction, Coordinates, Digit, Element, Extent, Filter, Interpolation,
    Outside, Padding, Piece, PoolKind, Ranking, Resampling, Sampling, UnaryFunction, View,
};

use crate::fixture;

fn kind(network: &mut Network, stage: usize, operator: usize) -> &mut OperatorKind {
    &mut network.stages[stage].operators[operator].kind
}

fn operator(network: &mut Network, stage: usize, operator: usize) -> &mut Operator {
    &mut network.stages[stage].operators[operator]
}

/// The message after `damage`.
fn message(damage: impl FnOnce(&mut Network)) -> String {
    let mut network = fixture::network();
    damage(&mut network);
    let message = network.validate().unwrap_err().to_string();
    let refused = Package::new(network, Calibration::default()).unwrap_err();
    assert!(refused.to_string().contains(&message), "{refused}");
    message
}

/// Fails with the message unless it contains `expected`.
#[track_caller]
fn breaks(expected: &str, damage: impl FnOnce(&mut Network)) {
    let message = message(damage);
    assert!(message.contains(expected), "{message:?} lacks {expected:?}");
}

#[test]
fn the_undamaged_network_is_valid() {
    assert_eq!(fixture::network().validate(), Ok(()));
}

#[test]
fn counts_and_names_have_limits() {
    breaks("0 stages", |n| n.stages.clear());
    breaks("17 stages", |n| {
        n.stages = (0..17).map(|_| n.stages[0].clone()).collect();
    });
    breaks("0 classes", |n| n.classes.clear());
    breaks("0 weights", |n| n.weights.to_mut().clear());
    breaks("0 tensors", |n| n.tensors.clear());
    breaks("operators; there must be 1 to", |n| {
        let operator = n.stages[0].operators[0].clone();
        n.stages[0].operators = vec![operator; OPERATORS_MAX + 1];
    });
    breaks("a name (network) has 0 bytes", |n| n.name.clear());
    breaks("a name (class)", |n| {
        n.classes[1] = "x".repeat(NAME_BYTES_MAX + 1);
    });
    breaks("a name (operator)", |n| {
        n.stages[1].operators[0].name.clear();
    });
}

#[test]
fn figures_must_be_finite() {
    breaks("weight 5 is NaN", |n| n.weights.to_mut()[5] = f32::NAN);
    breaks("weight 6 is inf", |n| n.weights.to_mut()[6] = f32::INFINITY);
    breaks("channel 1 is normalised with mean NaN", |n| {
        n.input.form = InputForm::image(&[0.5, f32::NAN], &[]);
    });
    for std in [0.0, -1.0, 1e-42, f32::INFINITY] {
        breaks("channel 2 is normalised", |n| {
            n.input.form = InputForm::image(&[], &[1.0, 1.0, std]);
        });
    }
    for (low, high) in [(1.0, 0.0), (f32::NAN, 0.0), (0.0, f32::INFINITY)] {
        breaks("operator block: it clips to", |n| {
            if let OperatorKind::Conv2d(Conv2d { activation, .. }) = kind(n, 1, 0) {
                *activation = Activation::Clip { low, high };
            }
        });
    }
}

#[test]
fn tensors_have_a_size() {
    breaks("tensor 4 is 0x4x4", |n| n.tensors[4].channels = 0);
    breaks("tensor 4 is", |n| n.tensors[4].width = DIMENSION_MAX + 1);
    breaks("tensor 4 is", |n| {
        (n.tensors[4].width, n.tensors[4].height) = (DIMENSION_MAX, DIMENSION_MAX);
    });
    breaks("tensor 0 must be the network's input of shape 3x4x5", |n| {
        n.input.width = 5;
    });
    breaks("tensor 9 is neither", |n| n.tensors.push(n.tensors[0]));
}

#[test]
fn operators_read_what_is_there_and_write_what_is_not() {
    breaks(
        "operator mean0: tensor 77 does not exist; there are 9",
        |n| {
            n.stages[0].operators[1].input = TensorId(77);
        },
    );
    breaks("stage 0, operator mean0: it reads tensor 5", |n| {
        n.stages[0].operators[1].input = TensorId(5);
    });
    breaks("stage 1, operator twice: it reads tensor 2", |n| {
        // Written by the first stage, not carried over.
        operator(n, 1, 2).others = vec![TensorId(2)];
    });
    breaks("operator scores1: it writes tensor 3", |n| {
        n.stages[1].operators[4].output = TensorId(3);
    });
    breaks("operator dead: nothing reads its result", |n| {
        let tensor = n.tensors[2];
        n.tensors.push(tensor);
        let mean = Pool::mean_of_all(Extent::square(4));
        let dead = Operator::new("dead", &[TensorId(1)], TensorId(9), mean);
        n.stages[0].operators.push(dead);
    });
}

#[test]
fn weights_and_shapes_fit_the_operator() {
    breaks("operator stem: it has 107 weights and needs 108", |n| {
        operator(n, 0, 0).weights[0].len -= 1;
    });
    breaks("operator scores0: its bias are elements 4294967295", |n| {
        operator(n, 0, 2).weights[1].start = u32::MAX;
    });
    breaks("operator stem: 2 groups divide neither", |n| {
        if let OperatorKind::Conv2d(Conv2d { groups, .. }) = kind(n, 0, 0) {
            *groups = 2;
        }
    });
    breaks("operator stem: 0 groups", |n| {
        if let OperatorKind::Conv2d(Conv2d { groups, .. }) = kind(n, 0, 0) {
            *groups = 0;
        }
    });
    breaks("operator stem: stride is 0x1", |n| {
        if let OperatorKind::Conv2d(Conv2d { window, .. }) = kind(n, 0, 0) {
            window.stride.height = 0;
        }
    });
    breaks("operator stem: dilation is 1x0", |n| {
        if let OperatorKind::Conv2d(Conv2d { window, .. }) = kind(n, 0, 0) {
            window.dilation.width = 0;
        }
    });
    breaks("operator stem: kernel, dilated, is 1025x3", |n| {
        if let OperatorKind::Conv2d(Conv2d { window, .. }) = kind(n, 0, 0) {
            window.dilation.height = 512;
        }
    });
    breaks("operator pool: the padding", |n| {
        if let OperatorKind::Pool(Pool { padding, .. }) = kind(n, 1, 1) {
            *padding = Padding { top: 2, ..*padding };
        }
    });
    breaks("operator pool: the kernel", |n| {
        if let OperatorKind::Pool(Pool { kernel, .. }) = kind(n, 1, 1) {
            kernel.width = 5;
        }
    });
    breaks(
        "operator pool: its result is 4x4x2, its output tensor is 4x2x2",
        |n| {
            if let OperatorKind::Pool(Pool { stride, kernel, .. }) = kind(n, 1, 1) {
                (stride.height, kernel.height) = (1, 1);
            }
        },
    );
    breaks("operator stem: the second addend is 3x4x4", |n| {
        operator(n, 0, 0).others = vec![TensorId(0)];
    });
    breaks("operator twice: it computes with 4x2x2 and 4x4x4", |n| {
        operator(n, 1, 2).others = vec![TensorId(4)];
    });
}

#[test]
fn an_operator_has_as_many_lists_of_weights_as_it_needs() {
    breaks(
        "operator stem: it has 3 lists of weights and needs 2",
        |n| {
            let bias = operator(n, 0, 0).weights[1];
            operator(n, 0, 0).weights.push(bias);
        },
    );
    breaks(
        "operator mean0: it has 1 lists of weights and needs 0",
        |n| {
            operator(n, 0, 1).weights = vec![WeightRange { start: 0, len: 4 }];
        },
    );
    let mut network = fixture::sequence();
    operator(&mut network, 0, 4).weights.pop();
    let message = network.validate().unwrap_err().to_string();
    let expected = "operator norm: it has 1 lists of weights and needs 2";
    assert!(message.contains(expected), "{message}");
}

#[test]
fn a_mean_of_all_of_an_image_may_be_wider_than_other_windows() {
    fn widen(n: &mut Network) {
        n.input.width = KERNEL_MAX + 1;
        for (tensor, width) in [(0, n.input.width), (1, n.input.width), (4, n.input.width)] {
            n.tensors[tensor].width = width;
        }
        for tensor in [5, 6] {
            n.tensors[tensor].width = KERNEL_MAX / 2;
        }
        *kind(n, 0, 1) = Pool::mean_of_all(n.tensors[1].extent()).into();
        *kind(n, 1, 3) = Pool::mean_of_all(n.tensors[6].extent()).into();
    }
    let mut wide = fixture::network();
    widen(&mut wide);
    assert_eq!(wide.validate(), Ok(()));
    breaks("operator mean0: kernel is 4x1025; each must be", |n| {
        widen(n);
        if let OperatorKind::Pool(Pool { kind, .. }) = kind(n, 0, 1) {
            *kind = PoolKind::Max;
        }
    });
}

#[test]
fn stages_take_and_carry_exactly_what_they_need() {
    breaks("stage 0: it has no operators; leave it out", |n| {
        n.stages.insert(
            0,
            Stage {
                inputs: vec![],
                outputs: vec![],
                operators: vec![],
                exit: None,
            },
        );
    });
    breaks("stage 1: it takes tensor 2, which no earlier", |n| {
        n.stages[1].inputs.push(TensorId(2));
    });
    breaks("stage 1: it takes tensor 0 and no operator", |n| {
        n.stages[1].inputs.insert(0, TensorId(0));
    });
    breaks(
        "stage 1: its inputs are not in strictly rising order",
        |n| {
            n.stages[1].inputs.push(TensorId(1));
        },
    );
    breaks("stage 0: it carries tensor 5 over and no operator", |n| {
        n.stages[0].outputs.push(TensorId(5));
    });
    breaks("stage 0: it carries tensor 2 over and no later", |n| {
        n.stages[0].outputs.push(TensorId(2));
    });
    breaks("stage 1, operator block: it reads tensor 1", |n| {
        n.stages[0].outputs.clear();
        n.stages[1].inputs.clear();
    });
}

#[test]
fn inputs_are_the_first_tensors_and_have_limits() {
    breaks("the input has 2 channels", |n| n.input.channels = 2);
    let speed = |length| VectorSpec {
        name: "speed".to_owned(),
        length,
    };
    breaks("tensor 1 must be the network's input of shape 2x1x1", |n| {
        n.vectors.push(speed(2));
    });
    breaks("5 vectors come with an input; the limit is 4", |n| {
        n.vectors = vec![speed(1); 5];
    });
    breaks("the vector `speed` has 4097 numbers", |n| {
        n.vectors.push(speed(4097));
    });
    breaks("two of vector have the name `speed`", |n| {
        n.vectors = vec![speed(1); 2];
    });
}

#[test]
fn an_exit_gives_what_its_stage_has_as_every_other_exit_does() {
    breaks("the exit of stage 0: it reads tensor 8", |n| {
        exit(n, 0).scores.as_mut().unwrap().tensor = TensorId(8);
    });
    breaks("the exit of stage 0: it reads tensor 0", |n| {
        exit(n, 0).outputs[0].tensor = TensorId(0);
    });
    breaks("its scores are 4x1x1, there are 3 classes", |n| {
        n.stages[0].operators.pop();
        n.tensors.truncate(9);
        exit(n, 0).scores.as_mut().unwrap().tensor = TensorId(2);
        exit(n, 0).outputs[0] = Output {
            shape: vec![4],
            view: View::plain([4, 1, 1]),
            tensor: TensorId(2),
            ..exit(n, 0).outputs[0].clone()
        };
    });
    breaks("the exit of stage 1: it has no scores", |n| {
        exit(n, 1).scores = None;
    });
    breaks("the exit of stage 1: it has 0 outputs", |n| {
        exit(n, 1).outputs.clear();
    });
    breaks("two of its outputs have the name `output`", |n| {
        let outputs = &mut exit(n, 1).outputs;
        outputs.push(outputs[0].clone());
    });
    breaks(
        "the exit of stage 1: its output `output` is not at each exit",
        |n| {
            exit(n, 1).outputs[0].element = Element::I32;
        },
    );
    breaks("its confidence is 3x1x1; it must be one value", |n| {
        exit(n, 1).confidence = Some(TensorId(8));
    });
    breaks("its output `output` of shape [4] has another number", |n| {
        exit(n, 1).outputs[0].shape = vec![4];
    });
    breaks("its output `output` of shape [3] has another number", |n| {
        exit(n, 1).outputs[0].view.start = [1, 0, 0];
    });
    breaks("its output `output` of shape [3] has another number", |n| {
        exit(n, 1).outputs[0].element = Element::U8 {
            scale: 1.0,
            zero: 0,
        };
    });
    breaks("bytes; the limit is 67108864", |n| {
        let output = &mut exit(n, 1).outputs[0];
        output.shape = vec![3, 1 << 23];
        output.view.digits.push(Digit {
            axis: Axis::Repeat,
            step: 0,
            extent: 1 << 23,
        });
    });
}

fn exit(network: &mut Network, stage: usize) -> &mut Exit {
    network.stages[stage].exit.as_mut().expect("it ends in one")
}

#[test]
fn calibration_must_have_as_many_exits_as_the_network() {
    let mut calibration = fixture::calibration();
    calibration.samples[1].exits.pop();
    let error = Package::new(fixture::network(), calibration).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("sample 1 has 1 exits, the network has 2"),
        "{error}"
    );
}

#[test]
fn operators_of_sequences_fit_their_tensors() {
    let breaks = |expected: &str, damage: fn(&mut Network)| {
        let mut network = fixture::sequence();
        network.validate().unwrap();
        damage(&mut network);
        let message = network.validate().unwrap_err().to_string();
        assert!(message.contains(expected), "{message}");
    };
    breaks("the input has 2 channels; a picture has", |n| {
        n.input.form = InputForm::Tokens { mask: false };
    });
    breaks("operator words: it has 20 table and needs 21", |n| {
        n.tensors[3].channels = 3;
        *kind(n, 0, 2) = Embedding { channels: 3 }.into();
    });
    breaks("operator words: it looks up 2x1x4", |n| {
        n.stages[0].operators[2].input = TensorId(0);
    });
    breaks("operator attention: its 3 heads attend from 4x1x4", |n| {
        let OperatorKind::Attention(Attention { heads, .. }) = kind(n, 0, 3) else {
            panic!("no attention");
        };
        *heads = 3;
    });
    breaks("operator attention: its scale is NaN", |n| {
        let OperatorKind::Attention(Attention { scale, .. }) = kind(n, 0, 3) else {
            panic!("no attention");
        };
        *scale = f32::NAN;
    });
    breaks("operator attention: it reads 1 tensors besides", |n| {
        operator(n, 0, 3).others.truncate(1);
    });
    breaks("operator norm: its epsilon is 0", |n| {
        *kind(n, 0, 4) = LayerNorm { epsilon: 0.0 }.into();
    });
    breaks("operator tokens: its result is 4x1x4", |n| {
        *kind(n, 0, 5) = Tokens { prefix: 0 }.into();
    });
    breaks("operator first: piece 0 reads beyond its source", |n| {
        *kind(n, 0, 6) = Copy::of_column(5, 4).into();
    });
}

#[test]
fn a_head_of_more_channels_than_devices_take_is_refused() {
    let attention = OperatorKind::from(Attention {
        heads: 2,
        scale: 1.0,
        by_row: false,
        bias: None,
    });
    let tokens = |channels| Tensor {
        channels,
        height: 1,
        width: 5,
    };
    let of = |query, value| {
        let others = [tokens(query), tokens(value)];
        attention.output_shape(&Operands {
            input: tokens(query),
            others: &others,
            weights: &[],
        })
    };
    assert_eq!(of(256, 256), Ok(tokens(256)));
    assert_eq!(of(258, 2), Err(ShapeError::HeadChannels { found: 129 }));
    assert_eq!(of(2, 260), Err(ShapeError::HeadChannels { found: 130 }));
}

#[test]
fn pieces_of_a_copy_make_its_output_from_inside_its_sources() {
    let breaks = |expected: &str, damage: fn(&mut Network)| {
        let mut network = fixture::network();
        // Every second pixel instead of a pool.
        let half = |axis| Digit {
            axis,
            step: 2,
            extent: 2,
        };
        let channels = Digit {
            axis: Axis::Channel,
            step: 1,
            extent: 4,
        };
        let view = View {
            start: [0, 1, 1],
            digits: vec![channels, half(Axis::Row), half(Axis::Column)],
        };
        let pieces = vec![Piece::whole(view, [4, 2, 2])];
        *kind(&mut network, 1, 1) = Copy { pieces }.into();
        network.validate().unwrap();
        damage(&mut network);
        let message = network.validate().unwrap_err().to_string();
        assert!(message.contains(expected), "{message}");
    };
    fn pieces(n: &mut Network) -> &mut Vec<Piece> {
        let OperatorKind::Copy(Copy { pieces }) = kind(n, 1, 1) else {
            panic!("no copy");
        };
        pieces
    }
    breaks("operator pool: piece 0 reads beyond its source", |n| {
        pieces(n)[0].view.start[2] = 2;
    });
    breaks("operator pool: piece 0 is of source 1 of 1", |n| {
        pieces(n)[0].source = 1;
    });
    breaks("operator pool: there are 0 pieces", |n| {
        pieces(n).clear();
    });
    breaks("operator pool: the digits of piece 0 do not divide", |n| {
        pieces(n)[0].sizes[0] = 3;
    });
    breaks("operator pool: the pieces are 16 of the result's 24", |n| {
        pieces(n)[0].at[1] = 1;
    });
    breaks("operator pool: its table are elements", |n| {
        let (start, len) = (u32::MAX, 1);
        operator(n, 1, 1).weights = vec![WeightRange { start, len }];
    });
    breaks("operator pool: it has 0 table and needs 1", |n| {
        operator(n, 1, 1).weights = vec![WeightRange { start: 0, len: 0 }];
    });
    breaks("operator pool: it gathers from 9 tensors", |n| {
        operator(n, 1, 1).others = vec![TensorId(1); 8];
    });
    breaks("operator pool: its result is 2x4x2", |n| {
        pieces(n)[0].sizes = [2, 4, 2];
    });
}

#[test]
fn operands_that_are_repeated_and_softmaxes_fit_their_tensors() {
    let binary = |constant| {
        cube(Binary {
            constant,
            ..Binary::new(BinaryFunction::Divide)
        })
    };
    let with_constant = |len, channels, height, width| {
        let shape = Tensor::of_sides([channels, height, width]);
        binary(Some(shape)).with_weights([WeightRange { start: 0, len }])
    };
    let softmax = |axis, step, extent| {
        cube(Softmax {
            digit: Digit { axis, step, extent },
            logarithm: false,
        })
    };
    let grid = |groups| {
        let sampling = Sampling {
            interpolation: Interpolation::Linear,
            outside: Outside::Zeros,
            align_corners: false,
        };
        and_another(cube(GridSample { groups, sampling }))
    };
    let top_k = |axis, count| {
        let ranking = Ranking {
            largest: true,
            last: false,
        };
        cube(TopK {
            axis,
            count,
            ranking,
        })
    };
    let take = |axis| and_another(cube(Take { axis }));
    for fits in [
        with_constant(1, 1, 1, 1),
        with_constant(16, 1, 4, 4),
        with_constant(4, 4, 1, 1),
        and_another(binary(None)),
        softmax(Axis::Channel, 2, 2),
        grid(2),
        top_k(Axis::Column, 4),
        take(Axis::Row),
        cube(Unary {
            function: UnaryFunction::SquareRoot,
        }),
    ] {
        assert_eq!(of_a_cube(fits.clone()), "", "{fits:?}");
    }
    for (kind, expected) in [
        (
            with_constant(9, 1, 3, 3),
            "it computes with 4x4x4 and 1x3x3",
        ),
        (
            with_constant(0, 1, 0, 1),
            "it computes with 4x4x4 and 1x0x1",
        ),
        (with_constant(3, 4, 1, 1), "it has 3 constant and needs 4"),
        (with_constant(1 << 31, 1, 1, 1), "constant"),
        (
            with_constant(u32::MAX, 1 << 31, 1 << 31, 1 << 31),
            "it computes with",
        ),
        (softmax(Axis::Row, 1, 3), "must divide the axis"),
        (softmax(Axis::Row, 0, 4), "must divide the axis"),
        (softmax(Axis::Column, 1 << 31, 2), "must divide the axis"),
        (softmax(Axis::Repeat, 1, 1), "must divide the axis"),
        (grid(0), "in 0 groups where a grid 4x4x4 says"),
        (grid(1), "the grid have two channels for each"),
        (grid(1 << 31), "the groups must divide the channels"),
        (top_k(Axis::Column, 0), "it chooses 0 positions"),
        (top_k(Axis::Column, 5), "it chooses 5 positions"),
        (top_k(Axis::Column, 3), "its result is 4x4x3"),
        (top_k(Axis::Channel, 4), "it can choose one channel"),
        (top_k(Axis::Row, 1), "it can choose one channel"),
        (take(Axis::Repeat), "it takes values along the repetitions"),
    ] {
        let message = of_a_cube(kind.clone());
        assert!(message.contains(expected), "{kind:?}: {message}");
    }
}

const CUBE: TensorId = TensorId(1);

/// An operator that reads a tensor of 4x4x4 and writes another.
fn cube(kind: impl Into<OperatorKind>) -> Operator {
    Operator::new("cube", &[CUBE], TensorId(4), kind)
}

/// One that reads the tensor once more.
fn and_another(operator: Operator) -> Operator {
    let others = [&operator.others[..], &[CUBE]].concat();
    Operator { others, ..operator }
}

/// What is wrong with it.
fn of_a_cube(cube: Operator) -> String {
    let mut network = fixture::network();
    *operator(&mut network, 1, 0) = cube;
    match network.validate() {
        Ok(()) => String::new(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn what_attentions_add_fits_their_rows_heads_queries_and_keys() {
    let attention = |by_row, heads, bias: Option<(u32, bool, bool)>| {
        let form = bias.map(|(_, by_row, by_head)| BiasForm { by_row, by_head });
        let ranges = bias.map(|(len, ..)| WeightRange { start: 0, len });
        let attention = Attention {
            heads,
            scale: 0.5,
            by_row,
            bias: form,
        };
        and_another(and_another(cube(attention))).with_weights(ranges)
    };
    for fits in [
        and_another(cube(Product)),
        attention(true, 2, None),
        attention(true, 2, Some((16, false, false))),
        attention(true, 2, Some((32, false, true))),
    ] {
        assert_eq!(of_a_cube(fits.clone()), "", "{fits:?}");
    }
    for (kind, expected) in [
        (attention(true, 3, None), "its 3 heads attend from 4x4x4"),
        (
            attention(true, 2, Some((16, false, true))),
            "it has 16 bias and needs 32",
        ),
        (
            attention(true, 2, Some((16, true, true))),
            "it has 16 bias and needs 128",
        ),
        (
            attention(false, 2, Some((16, true, false))),
            "it has 16 bias and needs 256",
        ),
        (attention(true, 2, Some((u32::MAX, false, false))), "bias"),
    ] {
        let message = of_a_cube(kind.clone());
        assert!(message.contains(expected), "{kind:?}: {message}");
    }
    // Of the network's input, which is not carried over.
    let product = Operator {
        others: vec![TensorId(0)],
        ..cube(Product)
    };
    assert!(!of_a_cube(product).is_empty());
}

#[test]
fn a_resize_has_scales_that_lead_somewhere_and_the_size_that_it_says() {
    let sampled = |scale: f32, size: u32| {
        move |n: &mut Network| {
            let resampling = Resampling {
                size: Extent::square(size),
                scale: [1.0, scale],
                coordinates: Coordinates::HalfPixel,
                filter: Filter::Linear,
            };
            *kind(n, 1, 1) = Resize { resampling }.into();
        }
    };
    for scale in [0.0, -1.0, 1e-40, f32::NAN, f32::INFINITY] {
        let side = fixture::network().tensors[5].height;
        breaks("operator pool: its scale is", sampled(scale, side));
    }
    breaks("operator pool: its result is", sampled(1.0, 77));
    breaks("operator pool: its result is", sampled(1.0, 0));
}
