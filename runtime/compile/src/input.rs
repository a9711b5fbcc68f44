//! What a network's input is: a picture, a tensor that the client prepares, or tokens.

use punctual_model::{InputForm, InputSpec, Origin, TENSOR_ELEMENTS_MAX};

use crate::error::CompileError;
use crate::graph::{Attribute, Elements, Graph, Node, ValueId};
use crate::options::{BYTES_MEAN, BYTES_STD, InputOptions};

/// The input of one request.
pub(crate) struct Input {
    pub spec: InputSpec,
    pub origin: Origin,
    /// What it was taken to be.
    pub taken: String,
}

/// The input of one request, where the file and the options agree. Sides that the file leaves open come from the options.
pub(crate) fn of(graph: &Graph, options: &InputOptions) -> Result<Input, CompileError> {
    let name = &graph.values[graph.input.0];
    check_batch(graph, options)?;
    let channels_last = has_channels_last(graph, options);
    let [channels, height, width] = sides(graph, options, channels_last)?;
    let form = form(graph, options, channels)?;
    let spec = InputSpec {
        channels: channels + u32::from(graph.mask.is_some()),
        height,
        width,
        form,
    };
    if spec.tensor().elements() > TENSOR_ELEMENTS_MAX {
        return Err(disagree(graph, height, width));
    }
    let shape = spec.tensor();
    let s = if graph.layers.is_empty() { "" } else { "s" };
    let mut taken = match form {
        InputForm::Image { .. } => {
            let bytes = match graph.input_elements {
                Elements::Bytes => " in bytes (uint8)",
                _ => "",
            };
            format!("took the input{s} {name} as a picture of {shape}{bytes}")
        }
        InputForm::Prepared => {
            let as_it_is = as_in_file(graph);
            format!("took the input{s} {name} as a prepared tensor of {shape}{as_it_is}")
        }
        InputForm::Tokens { mask: false } => format!("took the input {name} as {width} tokens"),
        InputForm::Tokens { mask: true } => {
            format!("took the inputs as {width} tokens and their mask")
        }
    };
    if channels_last {
        taken += " whose channels are last in the file (NHWC)";
    }
    if graph.is_unbatched {
        taken += ", without a batch in the file";
    }
    if !graph.layers.is_empty() {
        taken += ", one behind the other along dimension 1";
    }
    for vector in &graph.vectors {
        let (name, length) = (&graph.values[vector.id.0], vector.length);
        taken += &format!(", {name} as a vector of {length}");
    }
    Ok(Input {
        spec,
        origin: Origin {
            bytes: graph.input_elements == Elements::Bytes,
            channels_last,
            unbatched: graph.is_unbatched,
        },
        taken,
    })
}

/// A picture of bytes has a batch, or its first side would be taken as one.
fn check_batch(graph: &Graph, options: &InputOptions) -> Result<(), CompileError> {
    let are_channels = |size: Option<i64>| matches!(size, Some(1 | 3 | 4));
    let [Some(batch), _, last] = graph.input_dims[..] else {
        return Ok(());
    };
    let has_none = graph.input_elements == Elements::Bytes
        && options.prepared != Some(true)
        && batch > 1
        && (are_channels(Some(batch)) || are_channels(last));
    if !has_none {
        return Ok(());
    }
    Err(CompileError::NoBatch {
        name: graph.values[graph.input.0].clone(),
        found: graph.input_dims.clone(),
        batch,
    })
}

/// What a client that prepares a picture itself must know of it.
fn as_in_file(graph: &Graph) -> String {
    let mut said = String::new();
    let has_channels_last = graph.input_dims.len() == 4 && puts_channels_first(graph);
    if has_channels_last {
        said += ", rows, columns and channels one in the other as in the file (NHWC)";
    }
    if graph.input_elements == Elements::Bytes {
        said += ", as floats of 0 to 255 (uint8 in the file)";
    }
    said
}

/// Whether a picture has its channels last: of what is not said to be prepared, where the network puts them first itself, or
/// where what is a picture for another reason can have channels there and not in the second dimension.
fn has_channels_last(graph: &Graph, options: &InputOptions) -> bool {
    let can_be = |size: Option<i64>| matches!(size, Some(1 | 3 | 4));
    let is_picture = graph.input_elements == Elements::Bytes
        || options.prepared == Some(false)
        || (options.mean.is_some() && options.std.is_some());
    match graph.input_dims[..] {
        [_, second, _, last] if options.prepared != Some(true) => match last {
            // What the file leaves open is asked about as channels.
            None => puts_channels_first(graph),
            _ => can_be(last) && (puts_channels_first(graph) || (is_picture && !can_be(second))),
        },
        _ => false,
    }
}

/// Whether the network turns its input from (N, rows, columns, channels) to (N, channels, rows, columns) before anything but
/// steps that keep the order of the dimensions.
fn puts_channels_first(graph: &Graph) -> bool {
    const KEEP_DIMENSIONS: [&str; 13] = [
        "Add",
        "Cast",
        "CastLike",
        "Clip",
        "DequantizeLinear",
        "Div",
        "Gather",
        "Identity",
        "Mul",
        "Neg",
        "Pad",
        "Slice",
        "Sub",
    ];
    let mut reached = vec![graph.input];
    let reads = |node: &Node, reached: &[ValueId]| {
        let mut operands = node.inputs.iter().flatten();
        operands.any(|operand| reached.contains(operand))
    };
    for node in &graph.nodes {
        if !reads(node, &reached) {
            continue;
        }
        let order = node.attributes.get("perm");
        if node.operator == "Transpose" && order == Some(&Attribute::Ints(vec![0, 3, 1, 2])) {
            return true;
        }
        if KEEP_DIMENSIONS.contains(&node.operator.as_str()) {
            reached.extend(node.outputs.iter().flatten());
        }
    }
    false
}

fn disagree(graph: &Graph, height: u32, width: u32) -> CompileError {
    CompileError::Input {
        name: graph.values[graph.input.0].clone(),
        found: graph.input_dims.clone(),
        height,
        width,
    }
}

/// Channels, rows and columns.
fn sides(
    graph: &Graph,
    options: &InputOptions,
    channels_last: bool,
) -> Result<[u32; 3], CompileError> {
    let name = || graph.values[graph.input.0].clone();
    let found = || graph.input_dims.clone();
    let dims = &graph.input_dims[1..];
    // What the file calls channels, rows and columns; none is 1.
    let declared: [Option<Option<i64>>; 3] = match *dims {
        [tokens] if graph.tokens => [None, None, Some(tokens)],
        _ if graph.tokens => return Err(disagree(graph, 1, 0)),
        [features] => [Some(features), None, None],
        [height, width, channels] if channels_last => [Some(channels), Some(height), Some(width)],
        [channels, steps] => [Some(channels), None, Some(steps)],
        // Of more than three dimensions the last two are rows and columns, and the others channels.
        [ref channels @ .., height, width] => {
            let mut channels = channels.iter().copied();
            let channels = channels.try_fold(1_i64, |all, side| all.checked_mul(side?));
            [Some(channels), Some(height), Some(width)]
        }
        [] => [None, None, None],
    };
    let size = options.size.map(|(height, width)| [height, width]);
    let mut sides = [1_u32; 3];
    for (at, declared) in declared.into_iter().enumerate() {
        let given = size.and_then(|size| size.get(at.checked_sub(1)?).copied());
        let declared = match declared {
            None => Some(1),
            Some(side) => side.map(|side| u32::try_from(side).unwrap_or(0)),
        };
        sides[at] = match (declared, given) {
            (Some(0), _) => return Err(disagree(graph, 0, 0)),
            (Some(declared), Some(given)) if declared != given => {
                let [height, width] = size.unwrap_or_default();
                return Err(disagree(graph, height, width));
            }
            (Some(side), _) | (None, Some(side)) => side,
            (None, None) if at == 0 => {
                let (name, found) = (name(), found());
                return Err(CompileError::InputChannels { name, found });
            }
            (None, None) => return Err(CompileError::SizeOpen { found: found() }),
        };
    }
    Ok(sides)
}

/// A picture if it can be one and nothing else is said.
fn form(graph: &Graph, options: &InputOptions, channels: u32) -> Result<InputForm, CompileError> {
    if graph.tokens {
        let mask = graph.mask.is_some();
        return Ok(InputForm::Tokens { mask });
    }
    let name = || graph.values[graph.input.0].clone();
    let can_be_picture = matches!(channels, 1 | 3 | 4) && graph.input_dims.len() == 4;
    let (mean, std) = (options.mean.as_deref(), options.std.as_deref());
    match options.prepared {
        Some(false) if !can_be_picture => {
            let found = graph.input_dims.clone();
            return Err(CompileError::InputChannels {
                name: name(),
                found,
            });
        }
        Some(true) => return prepared(name(), mean, std),
        None if !can_be_picture => return prepared(name(), mean, std),
        Some(false) | None => {}
    }
    let bytes = (Some(&BYTES_MEAN[..]), Some(&BYTES_STD[..]));
    let (mean, std) = match (graph.input_elements, (mean, std)) {
        // What a network of bytes reads is beyond doubt, and `--normalise none` says so too.
        (Elements::Bytes, (None | Some([0.0]), None | Some([1.0]))) => bytes,
        (Elements::Bytes, said) if said != bytes => {
            return Err(CompileError::NormalisationBytes { name: name() });
        }
        (_, said) => said,
    };
    let (Some(mean), Some(std)) = (mean, std) else {
        return Err(CompileError::NormalisationOpen {
            name: name(),
            channels,
        });
    };
    let fits = |numbers: &[f32]| matches!(numbers.len(), 1) || numbers.len() == channels as usize;
    if !fits(mean) || !fits(std) {
        return Err(count(name(), channels, Some(mean), Some(std)));
    }
    // One figure stands for all channels.
    let each = |numbers: &[f32]| -> Vec<f32> {
        let repeated = numbers.iter().copied().cycle();
        repeated.take(channels as usize).collect()
    };
    Ok(InputForm::image(&each(mean), &each(std)))
}

/// Nothing is normalised: `--normalise none` says so too.
fn prepared(
    name: String,
    mean: Option<&[f32]>,
    std: Option<&[f32]>,
) -> Result<InputForm, CompileError> {
    match (mean, std) {
        (None | Some([0.0]), None | Some([1.0])) => Ok(InputForm::Prepared),
        _ => Err(CompileError::NormalisationPrepared { name }),
    }
}

fn count(name: String, channels: u32, mean: Option<&[f32]>, std: Option<&[f32]>) -> CompileError {
    CompileError::NormalisationCount {
        name,
        channels,
        mean: mean.map_or(0, <[f32]>::len),
        std: std.map_or(0, <[f32]>::len),
    }
}
