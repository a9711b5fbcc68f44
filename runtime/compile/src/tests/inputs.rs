//! How the inputs of a file are understood, and what the options must say about them.

use punctual_model::{Calibration, InputForm, Network, Operator, TensorId, VectorSpec};

use super::builder::{Onnx, image_of, int, ints_of};
use super::options;
use crate::schema::{AttributeProto, ValueInfoProto, data_type};
use crate::{BYTES_MEAN, BYTES_STD, CompileError, CompileOptions, InputOptions, Note, compile};

/// A file with an input of these sizes besides the batch, which a node reads before a head if it is a picture.
fn of(sizes: &[i64]) -> Onnx {
    let mut onnx = Onnx::new();
    onnx.graph().input[0] = image_of("image", sizes);
    onnx.node("Relu", "image", "exit_0", &[]).output("exit_0")
}

fn with(input: InputOptions) -> CompileOptions {
    CompileOptions {
        input,
        answer: Some(punctual_model::AnswerKind::None),
        ..options()
    }
}

fn normalised(mean: &[f32], std: &[f32]) -> InputOptions {
    InputOptions {
        mean: Some(mean.to_vec()),
        std: Some(std.to_vec()),
        ..InputOptions::default()
    }
}

fn compiled(onnx: &Onnx, input: InputOptions) -> Result<Network, CompileError> {
    let compiled = compile(&onnx.bytes(), Calibration::default(), &with(input))?;
    Ok(compiled.package.network().clone())
}

#[track_caller]
fn refused(onnx: &Onnx, input: InputOptions, words: &[&str]) {
    let message = compiled(onnx, input).unwrap_err().to_string();
    for word in words {
        assert!(message.contains(word), "{message:?} lacks {word:?}");
    }
}

#[test]
fn how_a_picture_is_normalised_is_never_assumed() {
    for channels in [1, 3, 4] {
        let picture = of(&[channels, 8, 8]);
        let found = format!("\"image\" is a picture of {channels} channel(s)");
        let words = [
            found.as_str(),
            "--normalise imagenet",
            "--normalise none",
            "--mean and --std",
            "--input prepared",
        ];
        refused(&picture, InputOptions::default(), &words);
        let half = InputOptions {
            mean: Some(vec![0.5]),
            ..InputOptions::default()
        };
        refused(&picture, half, &words);
    }
}

#[test]
fn one_figure_stands_for_all_channels_and_others_must_be_as_many_as_channels() {
    for channels in [1, 3, 4] {
        let count = channels as usize;
        let picture = of(&[channels, 8, 8]);
        let network = compiled(&picture, normalised(&[0.25], &[0.5])).unwrap();
        let expected = InputForm::image(&vec![0.25; count], &vec![0.5; count]);
        assert_eq!(network.input.form, expected);
        assert_eq!(network.input.channels, channels as u32);
    }
    let each = compiled(&of(&[3, 8, 8]), normalised(&[0.1, 0.2, 0.3], &[1.0])).unwrap();
    assert_eq!(
        each.input.form,
        InputForm::image(&[0.1, 0.2, 0.3], &[1.0; 3])
    );
    let words = [
        "\"image\" has 4 channel(s) to normalise",
        "--mean has 3 numbers and --std 1",
    ];
    refused(
        &of(&[4, 8, 8]),
        normalised(&[0.1, 0.2, 0.3], &[1.0]),
        &words,
    );
    refused(
        &of(&[3, 8, 8]),
        normalised(&[0.0], &[0.0]),
        &["channel 0", "std 0", "std positive"],
    );
}

/// A layer on the channels of pictures, which come as `inputs` say: alone, or stacked and taken apart.
fn of_pictures(inputs: &[(&str, &[i64])], taken_apart: bool) -> Onnx {
    let mut onnx = Onnx::new();
    onnx.graph().input = inputs
        .iter()
        .map(|(name, sizes)| image_of(name, sizes))
        .collect();
    if taken_apart {
        let sizes = [int("axis", 1), ints_of("split", &[3, 1])];
        onnx = onnx.node("Split", inputs[0].0, "left", &sizes);
        onnx.graph().node[0].output.push("depth".to_owned());
    }
    onnx.node("Concat", "depth left", "exit_0", &[int("axis", 1)])
        .output("exit_0")
}

#[test]
fn pictures_of_the_same_rows_and_columns_are_one_tensor() {
    let nothing = normalised(&[0.0], &[1.0]);
    let alone: [(&str, &[i64]); 2] = [("left", &[3, 40, 40]), ("depth", &[1, 40, 40])];
    let stacked: [(&str, &[i64]); 1] = [("both", &[4, 40, 40])];
    let found = compiled(&of_pictures(&alone, false), nothing.clone()).unwrap();
    let expected = compiled(&of_pictures(&stacked, true), nothing.clone()).unwrap();
    assert_eq!(found.input, expected.input);
    assert_eq!(
        found.stages[0].operators[0].kind,
        expected.stages[0].operators[0].kind
    );

    let one_pixel: [(&str, &[i64]); 2] = [("left", &[3, 1, 1]), ("depth", &[1, 1, 1])];
    let numbers = compiled(&of_pictures(&one_pixel, false), nothing.clone()).unwrap();
    assert_eq!((numbers.input.channels, numbers.vectors.len()), (3, 1));

    let onnx = of_pictures(&alone, false);
    let compiled = compile(&onnx.bytes(), Calibration::default(), &with(nothing)).unwrap();
    let tells =
        |note: &Note| matches!(note, Note::Input { what } if what.contains("inputs left, depth"));
    assert!(compiled.report.notes.iter().any(tells));
}

#[test]
fn pictures_of_other_rows_or_columns_are_refused_by_name() {
    let inputs: [(&str, &[i64]); 2] = [("left", &[3, 127, 127]), ("depth", &[3, 255, 255])];
    refused(
        &of_pictures(&inputs, false),
        InputOptions::default(),
        &["left", "depth", "alike but for their channels"],
    );
}

#[test]
fn what_is_no_picture_is_prepared_by_the_client_and_not_normalised() {
    for (sizes, shape) in [
        (&[2, 8, 8][..], [2, 8, 8]),
        (&[6, 20], [6, 1, 20]),
        (&[7], [7, 1, 1]),
    ] {
        let onnx = of(sizes);
        let network = compiled(&onnx, InputOptions::default()).unwrap();
        let input = network.input;
        assert_eq!(
            (input.form, [input.channels, input.height, input.width]),
            (InputForm::Prepared, shape)
        );
        let words = [
            "\"image\" is prepared by the client",
            "leave out --normalise",
        ];
        refused(&onnx, normalised(&[0.5], &[0.5]), &words);
        let nothing = compiled(&onnx, normalised(&[0.0], &[1.0])).unwrap();
        assert_eq!(nothing.input.form, InputForm::Prepared);
        let picture = InputOptions {
            prepared: Some(false),
            ..normalised(&[0.5], &[0.5])
        };
        refused(
            &onnx,
            picture,
            &["a picture has 1, 3 or 4 channels", "--input prepared"],
        );
    }
    let prepared = InputOptions {
        prepared: Some(true),
        ..InputOptions::default()
    };
    let network = compiled(&of(&[3, 8, 8]), prepared).unwrap();
    assert_eq!(network.input.form, InputForm::Prepared);
}

#[test]
fn sides_that_the_file_leaves_open_are_given_or_asked_for() {
    let open = |dims: [Option<i64>; 4]| {
        let mut onnx = of(&[3, 8, 8]);
        let kind = onnx.graph().input[0].r#type.as_mut().unwrap();
        let shape = kind.tensor_type.as_mut().unwrap().shape.as_mut().unwrap();
        for (dim, value) in shape.dim.iter_mut().zip(dims) {
            dim.dim_value = value;
        }
        onnx
    };
    let sides = open([None, Some(3), None, None]);
    let known = normalised(&[0.5], &[0.5]);
    refused(
        &sides,
        known.clone(),
        &["--size ROWSxCOLUMNS", "(?, 3, ?, ?)"],
    );
    let sized = InputOptions {
        size: Some((12, 20)),
        ..known.clone()
    };
    let network = compiled(&sides, sized.clone()).unwrap();
    assert_eq!((network.input.height, network.input.width), (12, 20));
    let channels = open([None, None, Some(8), Some(8)]);
    refused(
        &channels,
        known,
        &["\"image\" is (?, ?, 8, 8)", "1, 3 or 4 channels"],
    );
    let words = ["8, 8)", "12 rows and 20 columns"];
    refused(&of(&[3, 8, 8]), sized, &words);
}

/// A picture's mean joined with vectors of these lengths, all in one layer. The vectors stand before the picture.
fn with_vectors(lengths: &[i64]) -> Onnx {
    let mut onnx = Onnx::new();
    let mut operands = "flat".to_owned();
    for (at, &length) in lengths.iter().enumerate() {
        onnx.graph()
            .input
            .insert(0, image_of(&format!("v{at}"), &[length]));
        operands.push_str(&format!(" v{at}"));
    }
    let all = 3 + lengths.iter().sum::<i64>();
    onnx.node("GlobalAveragePool", "image", "mean", &[])
        .node("Flatten", "mean", "flat", &[])
        .node("Concat", &operands, "known", &[int("axis", 1)])
        .floats("w", &[all, 2])
        .node("MatMul", "known w", "exit_0", &[])
        .output("exit_0")
}

#[test]
fn further_inputs_are_vectors_by_their_names_wherever_they_stand() {
    let onnx = with_vectors(&[1, 4096]);
    let options = with(normalised(&[0.5], &[0.5]));
    let compiled = compile(&onnx.bytes(), Calibration::default(), &options).unwrap();
    let network = compiled.package.network();
    let vector = |name: &str, length| VectorSpec {
        name: name.to_owned(),
        length,
    };
    assert_eq!(network.vectors, [vector("v1", 4096), vector("v0", 1)]);
    assert_eq!(network.input.channels, 3);
    assert_eq!(compiled.report.vectors, network.vectors);
    let what =
        "took the input image as a picture of 3x8x8, v1 as a vector of 4096, v0 as a vector of 1";
    let what = what.to_owned();
    assert!(
        compiled.report.notes.contains(&Note::Input { what }),
        "{:?}",
        compiled.report.notes
    );
}

#[test]
fn vectors_beyond_the_limits_and_vectors_that_nothing_reads_are_refused() {
    let known = || normalised(&[0.5], &[0.5]);
    assert!(compiled(&with_vectors(&[1; 4]), known()).is_ok());
    let rule = "up to 4 vectors, (batch, length), of further fixed dimensions or a scalar, of at most 4096 numbers each";
    refused(&with_vectors(&[1; 5]), known(), &["\"v4\"", rule]);
    refused(&with_vectors(&[4097]), known(), &["\"v0\"", rule]);
    let mut unread = of(&[3, 8, 8]);
    unread.graph().input.push(image_of("speed", &[1]));
    refused(
        &unread,
        known(),
        &["nothing reads the vector `speed`", "leave it out"],
    );
}

/// What the network's only output is of these values.
fn answered(network: &Network, inputs: &[&[f32]]) -> Vec<f32> {
    let exits = punctual_model::reference::run_all(network, inputs);
    let exit = exits.into_iter().flatten().next().unwrap();
    exit.outputs[0].clone()
}

fn declared(onnx: &mut Onnx, at: usize, name: &str, kind: i32, dims: &[Option<i64>]) {
    let dims = dims.iter().copied();
    onnx.graph().input.truncate(at);
    onnx.graph()
        .input
        .push(ValueInfoProto::tensor(name, kind, dims));
}

#[test]
fn floats_of_a_vector_are_cut_where_they_become_integers() {
    let mut onnx = Onnx::new();
    declared(&mut onnx, 0, "image", data_type::FLOAT, &[None, Some(4)]);
    let onnx = onnx
        .node(
            "Cast",
            "image",
            "whole",
            &[int("to", data_type::INT64.into())],
        )
        .node(
            "Cast",
            "whole",
            "exit_0",
            &[int("to", data_type::FLOAT.into())],
        )
        .output("exit_0");
    let network = compiled(&onnx, InputOptions::default()).unwrap();
    let found = answered(&network, &[&[-0.6, 1.7, 2.0, -3.9]]);
    assert_eq!(found, [0.0, 1.0, 2.0, -3.0]);
}

#[test]
fn a_picture_of_bytes_is_normalised_by_the_network_itself() {
    for (dims, sides) in [([3, 5, 4], [3, 5, 4]), ([5, 4, 3], [3, 5, 4])] {
        let mut onnx = Onnx::new();
        let sizes = [&[None], &dims.map(Some)[..]].concat();
        declared(&mut onnx, 0, "image", data_type::UINT8, &sizes);
        let onnx = onnx
            .node(
                "Cast",
                "image",
                "exit_0",
                &[int("to", data_type::FLOAT.into())],
            )
            .output("exit_0");
        let network = compiled(&onnx, normalised(&[0.0], &[1.0])).unwrap();
        let input = network.input;
        assert_eq!([input.channels, input.height, input.width], sides);
        assert_eq!(input.form, InputForm::image(&[0.0; 3], &[1.0 / 255.0; 3]));
        let values: Vec<f32> = (0..60).map(|at| at as f32).collect();
        // Channels last: those of a pixel lie 20 apart in the planes of the input.
        let second = if dims[0] == 3 { 1.0 } else { 20.0 };
        assert_eq!(answered(&network, &[&values])[1], second);
        refused(
            &onnx,
            normalised(&[0.5], &[0.5]),
            &["\"image\" is a picture in bytes", "leave out --normalise"],
        );
    }
}

/// A file whose picture goes through these nodes, each with its second operand, and then through a layer of `channels`.
struct Taken {
    onnx: Onnx,
    last: String,
}

impl Taken {
    fn new(kind: i32, dims: &[Option<i64>]) -> Self {
        let mut onnx = Onnx::new();
        declared(&mut onnx, 0, "image", kind, dims);
        let last = "image".to_owned();
        Self { onnx, last }
    }

    fn through(mut self, operator: &str, with: &str, attributes: &[AttributeProto]) -> Self {
        let next = format!("{}_{operator}", self.last);
        let inputs = format!("{} {with}", self.last);
        self.onnx = self.onnx.node(operator, &inputs, &next, attributes);
        self.last = next;
        self
    }

    fn turned(self) -> Self {
        self.through("Transpose", "", &[ints_of("perm", &[0, 3, 1, 2])])
    }

    fn in_floats(self) -> Self {
        self.through("Cast", "", &[int("to", data_type::FLOAT.into())])
    }

    fn combined(mut self, operator: &str, dims: &[i64], figures: &[f32]) -> Self {
        let constant = format!("with_{}", self.last);
        self.onnx = self.onnx.exactly(&constant, dims, figures.to_vec());
        self.through(operator, &constant, &[])
    }

    fn layer(self, channels: i64) -> Onnx {
        let inputs = format!("{} w", self.last);
        self.onnx
            .floats("w", &[2, channels, 3, 3])
            .node("Conv", &inputs, "exit_0", &[ints_of("pads", &[1; 4])])
            .output("exit_0")
    }
}

fn operators(network: &Network) -> Vec<&Operator> {
    let stages = network.stages.iter();
    stages.flat_map(|stage| &stage.operators).collect()
}

/// That the network is the plain layer on a picture that is normalised like this.
#[track_caller]
fn is_the_layer_on(network: &Network, mean: &[f32], std: &[f32]) {
    let InputForm::Image {
        mean: own_mean,
        std: own_std,
    } = network.input.form
    else {
        panic!("{:?}", network.input);
    };
    let near = |own: &[f32], all: &[f32]| {
        let mut pairs = own.iter().zip(all);
        pairs.all(|(own, all)| (own - all).abs() <= 1e-6 * all.abs().max(1e-3))
    };
    assert!(
        near(&own_mean, mean) && near(&own_std, std),
        "{own_mean:?} {own_std:?}"
    );
    assert_eq!(network.input.channels as usize, mean.len());
    let operators = operators(network);
    assert_eq!(operators.len(), 1, "{operators:?}");
    assert_eq!(operators[0].input, TensorId(0));
}

const SIDES: [Option<i64>; 4] = [None, Some(6), Some(5), Some(3)];

#[test]
fn floats_with_their_channels_last_are_a_picture_where_the_network_turns_them() {
    let onnx = Taken::new(data_type::FLOAT, &SIDES).turned().layer(3);
    refused(
        &onnx,
        InputOptions::default(),
        &[
            "\"image\" is a picture of 3 channel(s)",
            "--normalise bytes",
        ],
    );
    let options = with(normalised(&[0.5], &[0.25]));
    let found = compile(&onnx.bytes(), Calibration::default(), &options).unwrap();
    let network = found.package.network();
    assert_eq!((network.input.height, network.input.width), (6, 5));
    is_the_layer_on(network, &[0.5; 3], &[0.25; 3]);
    let what =
        "took the input image as a picture of 3x6x5 whose channels are last in the file (NHWC)";
    let what = what.to_owned();
    assert!(found.report.notes.contains(&Note::Input { what }));
    let open = Taken::new(data_type::FLOAT, &[None, Some(6), Some(5), None]).turned();
    refused(
        &open.layer(3),
        normalised(&[0.5], &[0.25]),
        &[
            "\"image\" is (?, 6, 5, ?)",
            "a picture has 1, 3 or 4 channels",
        ],
    );
    // Four rows could be channels as well.
    let sides = [Some(1), Some(4), Some(4), Some(1)];
    let onnx = Taken::new(data_type::FLOAT, &sides).turned().layer(1);
    is_the_layer_on(
        &compiled(&onnx, normalised(&[0.5], &[0.25])).unwrap(),
        &[0.5],
        &[0.25],
    );
}

/// With a batch put in front.
fn batched(taken: Taken) -> Taken {
    let Taken { onnx, last } = taken;
    let onnx = onnx.ints("front", &[0]);
    Taken { onnx, last }.through("Unsqueeze", "front", &[])
}

#[test]
fn a_picture_to_which_the_file_gives_a_batch_is_one_of_a_batch() {
    let sides = &SIDES[1..];
    let picture = || Taken::new(data_type::UINT8, sides).in_floats();
    let first = |taken: Taken| taken.through("Transpose", "", &[ints_of("perm", &[2, 0, 1])]);
    let (mean, std) = ([120.0, 110.0, 100.0], [60.0, 50.0, 40.0]);
    let behind = |taken: Taken| {
        let centred = taken.combined("Sub", &[3, 1, 1], &mean);
        centred.combined("Div", &[3, 1, 1], &std)
    };
    let before = |taken: Taken| {
        let centred = taken.combined("Sub", &[3], &mean);
        centred.combined("Div", &[1, 1, 3], &std)
    };
    let channels_first = [Some(3), Some(6), Some(5)];
    let planes = Taken::new(data_type::UINT8, &channels_first).in_floats();
    for taken in [
        batched(behind(first(picture()))),
        batched(first(before(picture()))),
        batched(before(picture())).turned(),
        behind(batched(first(picture()))),
        batched(behind(planes)),
    ] {
        let onnx = taken.layer(3);
        let options = with(InputOptions::default());
        let found = compile(&onnx.bytes(), Calibration::default(), &options).unwrap();
        let network = found.package.network();
        assert_eq!((network.input.height, network.input.width), (6, 5));
        let in_scale = |figures: [f32; 3]| figures.map(|figure| figure / 255.0);
        is_the_layer_on(network, &in_scale(mean), &in_scale(std));
        let said = found.report.to_string();
        assert!(said.contains("without a batch in the file"), "{said}");
        let shown = found.report.input.to_string();
        let is_last = found.package.origin().channels_last;
        let last = ["", ", with its channels last (NHWC)"][usize::from(is_last)];
        let words = format!("; in the ONNX file in bytes (uint8){last}, without a batch");
        assert!(shown.ends_with(&words), "{shown}");
    }
    let floats = Taken::new(data_type::FLOAT, sides);
    let network = compiled(
        &batched(floats).turned().layer(3),
        normalised(&[0.5], &[0.25]),
    );
    is_the_layer_on(&network.unwrap(), &[0.5; 3], &[0.25; 3]);
}

#[test]
fn a_picture_of_bytes_without_a_batch_is_refused_with_what_to_do() {
    let picture = || Taken::new(data_type::UINT8, &SIDES[1..]).in_floats();
    let turned = || picture().through("Transpose", "", &[ints_of("perm", &[2, 0, 1])]);
    let Taken { onnx, last } = turned();
    let onnx = onnx.ints("sizes", &[1, 3, 6, 5]);
    let reshaped = Taken { onnx, last }.through("Reshape", "sizes", &[]);
    // A second reader would see the picture without its batch.
    let twice = batched(turned()).layer(3);
    let twice = twice
        .node("ReduceMax", "image", "exit_1", &[])
        .output("exit_1");
    for onnx in [reshaped.layer(3), twice] {
        refused(
            &onnx,
            InputOptions::default(),
            &[
                "(6, 5, 3), a picture without a batch",
                "(1, ..)",
                "an Unsqueeze of dimension 0",
            ],
        );
    }
}

#[test]
fn a_series_of_a_batch_is_no_picture_however_few_its_steps() {
    let series = Taken::new(data_type::FLOAT, &[None, Some(6), Some(8)]);
    let onnx = series.through("Flatten", "", &[]);
    let Taken { onnx, last } = onnx;
    let onnx = onnx.floats("w", &[48, 2]);
    let onnx = onnx.node("MatMul", &format!("{last} w"), "exit_0", &[]);
    let network = compiled(&onnx.output("exit_0"), InputOptions::default()).unwrap();
    assert_eq!(network.input.form, InputForm::Prepared);
}

#[test]
fn an_input_of_other_elements_is_refused_by_their_name() {
    for (kind, name) in [(data_type::INT8, "int8"), (data_type::UINT16, "uint16")] {
        let onnx = Taken::new(kind, &SIDES).in_floats().turned().layer(3);
        let words = [
            "\"image\" is of",
            name,
            "uint8: export it with an input of floats",
        ];
        refused(&onnx, InputOptions::default(), &words);
    }
}

#[test]
fn a_client_that_prepares_a_picture_is_told_its_order_and_values() {
    let prepared = || InputOptions {
        prepared: Some(true),
        ..InputOptions::default()
    };
    let order = ", rows, columns and channels one in the other as in the file (NHWC)";
    let values = ", as floats of 0 to 255 (uint8 in the file)";
    let first = [None, Some(3), Some(6), Some(5)];
    for (taken, words) in [
        (
            Taken::new(data_type::FLOAT, &SIDES).turned(),
            order.to_owned(),
        ),
        (
            Taken::new(data_type::UINT8, &SIDES).in_floats().turned(),
            format!("{order}{values}"),
        ),
        (
            Taken::new(data_type::UINT8, &first).in_floats(),
            values.to_owned(),
        ),
        (Taken::new(data_type::FLOAT, &first), String::new()),
    ] {
        let onnx = taken.layer(3);
        let compiled = compile(&onnx.bytes(), Calibration::default(), &with(prepared())).unwrap();
        let shape = compiled.package.network().input.tensor();
        let what = format!("took the input image as a prepared tensor of {shape}{words}");
        assert!(
            compiled.report.notes.contains(&Note::Input { what }),
            "{}",
            compiled.report
        );
    }
}

#[test]
fn what_the_client_prepares_has_the_places_of_the_file() {
    let onnx = Taken::new(data_type::FLOAT, &SIDES).turned().layer(3);
    let prepared = InputOptions {
        prepared: Some(true),
        ..InputOptions::default()
    };
    let network = compiled(&onnx, prepared).unwrap();
    let input = network.input;
    assert_eq!([input.channels, input.height, input.width], [6, 5, 3]);
    assert_eq!(input.form, InputForm::Prepared);
}

#[test]
fn bytes_are_normalised_as_frames_are_prepared() {
    let first = [None, Some(3), Some(6), Some(5)];
    let picture = || Taken::new(data_type::UINT8, &first).in_floats();
    for (taken, mean, std) in [
        (picture(), 0.0, 1.0 / 255.0),
        (picture().combined("Div", &[], &[255.0]), 0.0, 1.0),
        (picture().combined("Mul", &[1], &[1.0 / 255.0]), 0.0, 1.0),
        (
            picture()
                .combined("Sub", &[], &[127.5])
                .combined("Div", &[], &[127.5]),
            0.5,
            0.5,
        ),
        (
            picture()
                .combined("Mul", &[], &[2.0 / 255.0])
                .combined("Add", &[], &[-1.0]),
            0.5,
            0.5,
        ),
    ] {
        let network = compiled(&taken.layer(3), InputOptions::default()).unwrap();
        is_the_layer_on(&network, &[mean; 3], &[std; 3]);
    }
    let onnx = picture()
        .combined("Div", &[], &[255.0])
        .combined("Sub", &[3, 1, 1], &[0.485, 0.456, 0.406])
        .combined("Div", &[1, 3, 1, 1], &[0.229, 0.224, 0.225])
        .layer(3);
    let options = with(InputOptions::default());
    let found = compile(&onnx.bytes(), Calibration::default(), &options).unwrap();
    is_the_layer_on(
        found.package.network(),
        &[0.485, 0.456, 0.406],
        &[0.229, 0.224, 0.225],
    );
    let note = Note::Normalised { operators: 3 };
    assert!(found.report.notes.contains(&note), "{}", found.report);
}

#[test]
fn bytes_with_their_channels_last_are_normalised_before_and_behind_the_transpose() {
    for channels in [1, 3, 4] {
        let count = channels as usize;
        let mean: Vec<f32> = [120.0, 110.0, 100.0, 90.0][..count].to_vec();
        let std: Vec<f32> = [60.0, 50.0, 40.0, 30.0][..count].to_vec();
        for batch in [None, Some(1)] {
            let sides = [batch, Some(6), Some(5), Some(channels)];
            let picture = || Taken::new(data_type::UINT8, &sides);
            let behind = |taken: Taken| {
                let figures = [channels, 1, 1];
                let centred = taken.combined("Sub", &figures, &mean);
                centred.combined("Div", &figures, &std)
            };
            let before = |taken: Taken| {
                let centred = taken.combined("Sub", &[channels], &mean);
                centred.combined("Div", &[1, 1, 1, channels], &std)
            };
            for taken in [
                behind(picture().in_floats().turned()),
                behind(picture().turned().in_floats()),
                before(picture().in_floats()).turned(),
            ] {
                let onnx = taken.layer(channels);
                let network = compiled(&onnx, InputOptions::default()).unwrap();
                let in_scale = |figures: &[f32]| -> Vec<f32> {
                    figures.iter().map(|figure| figure / 255.0).collect()
                };
                is_the_layer_on(&network, &in_scale(&mean), &in_scale(&std));
            }
        }
    }
}

#[test]
fn a_picture_whose_channels_are_reversed_is_normalised_in_its_own_order() {
    let sides = [None, Some(6), Some(5), Some(3)];
    let onnx = Taken::new(data_type::UINT8, &sides).in_floats();
    let Taken { onnx, last } = onnx;
    let onnx = onnx.ints("order", &[2, 1, 0]);
    let reversed = Taken { onnx, last }.through("Gather", "order", &[int("axis", 3)]);
    let centred = reversed.combined("Sub", &[3], &[103.939, 116.779, 123.68]);
    let network = compiled(&centred.turned().layer(3), InputOptions::default()).unwrap();
    let InputForm::Image { mean, .. } = network.input.form else {
        panic!("{:?}", network.input);
    };
    assert_eq!(
        mean.map(|mean| (mean * 255e3).round()),
        [123_680.0, 116_779.0, 103_939.0, 0.0]
    );
    // The order and the layer.
    assert_eq!(operators(&network).len(), 2);
}

#[test]
fn what_a_normalisation_cannot_say_stays_an_operator() {
    let picture = || Taken::new(data_type::UINT8, &[None, Some(3), Some(6), Some(5)]).in_floats();
    let unfit = [
        // A negative deviation, none, and a mean that would cost the values their bits.
        picture().combined("Mul", &[], &[-1.0]),
        picture().combined("Mul", &[3, 1, 1], &[1.0, 0.0, 1.0]),
        picture().combined("Sub", &[], &[1e5]),
    ];
    for taken in unfit {
        let network = compiled(&taken.layer(3), InputOptions::default()).unwrap();
        assert_eq!(operators(&network).len(), 2);
        assert_eq!(
            network.input.form,
            InputForm::image(&[0.0; 3], &[1.0 / 255.0; 3])
        );
    }
}

#[test]
fn what_clients_get_of_a_normalised_picture_stays_an_operator() {
    let picture = Taken::new(data_type::UINT8, &[None, Some(3), Some(6), Some(5)]);
    let Taken { onnx, last } = picture.in_floats().combined("Div", &[], &[2.0]);
    let onnx = onnx.node("Identity", &last, "exit_0", &[]).output("exit_0");
    let network = compiled(&onnx, InputOptions::default()).unwrap();
    assert_eq!(
        network.input.form,
        InputForm::image(&[0.0; 3], &[1.0 / 255.0; 3])
    );
    let values: Vec<f32> = (0..90).map(|at| at as f32).collect();
    assert_eq!(answered(&network, &[&values])[89], 44.5);
}

#[test]
fn a_network_of_floats_that_divides_by_255_is_told_from_one_of_0_to_1() {
    let onnx = Taken::new(data_type::FLOAT, &SIDES)
        .combined("Div", &[], &[255.0])
        .turned()
        .layer(3);
    let notes = |input: InputOptions| {
        let compiled = compile(&onnx.bytes(), Calibration::default(), &with(input)).unwrap();
        compiled.report.notes
    };
    let of_one = notes(normalised(&[0.0], &[1.0]));
    assert!(of_one.contains(&Note::NearlyBlack), "{of_one:?}");
    let bytes = || normalised(&BYTES_MEAN, &BYTES_STD);
    assert!(!notes(bytes()).contains(&Note::NearlyBlack));
    is_the_layer_on(&compiled(&onnx, bytes()).unwrap(), &[0.0; 3], &[1.0; 3]);
}

#[test]
fn a_state_has_its_layers_before_the_batch() {
    let mut onnx = Onnx::new();
    declared(
        &mut onnx,
        0,
        "image",
        data_type::FLOAT,
        &[None, Some(3), Some(2)],
    );
    declared(
        &mut onnx,
        1,
        "state",
        data_type::FLOAT,
        &[Some(2), None, Some(2)],
    );
    let onnx = onnx
        .node(
            "Transpose",
            "state",
            "turned",
            &[ints_of("perm", &[1, 0, 2])],
        )
        .node("Concat", "image turned", "exit_0", &[int("axis", 1)])
        .output("exit_0");
    let network = compiled(&onnx, InputOptions::default()).unwrap();
    assert_eq!(network.vectors[0].length, 4);
    let found = answered(
        &network,
        &[&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], &[7.0, 8.0, 9.0, 10.0]],
    );
    assert_eq!(found, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0]);
}

#[test]
fn truths_numbers_of_one_and_open_sizes_are_inputs_too() {
    let mut onnx = Onnx::new();
    declared(
        &mut onnx,
        0,
        "image",
        data_type::FLOAT,
        &[Some(-1), Some(2), Some(2), Some(1), Some(2)],
    );
    declared(&mut onnx, 1, "is_day", data_type::BOOL, &[Some(0)]);
    declared(&mut onnx, 2, "gear", data_type::INT64, &[None]);
    let onnx = onnx
        .ints("axes", &[1])
        .ints("rest", &[0, -1])
        .node("Reshape", "image rest", "flat", &[])
        .node(
            "Cast",
            "is_day",
            "day",
            &[int("to", data_type::FLOAT.into())],
        )
        .node(
            "Cast",
            "gear",
            "number",
            &[int("to", data_type::FLOAT.into())],
        )
        .node("Unsqueeze", "day axes", "days", &[])
        .node("Unsqueeze", "number axes", "numbers", &[])
        .node("Concat", "flat days numbers", "exit_0", &[int("axis", 1)])
        .output("exit_0");
    let network = compiled(&onnx, InputOptions::default()).unwrap();
    let values: Vec<f32> = (0..8).map(|at| at as f32).collect();
    let found = answered(&network, &[&values, &[1.0], &[4.0]]);
    assert_eq!(found, [&values[..], &[1.0, 4.0]].concat());
}
