//! What the inputs of a file are: first a picture, a prepared tensor or a row of tokens, then vectors.

use punctual_model::{VECTOR_LENGTH_MAX, VECTORS_MAX};

use super::ParseError;
use crate::graph::Elements;
use crate::schema::{ValueInfoProto, data_type};

/// Most dimensions of an input, the batch included.
pub(super) const RANK_MAX: usize = 6;

pub(super) struct Inputs<'a> {
    /// The picture, the prepared tensor, or the numbers of tokens; of several that are stacked all together.
    pub first: Declared<'a>,
    /// Those that are stacked, in the file's order; none if the first one is alone.
    pub stacked: Vec<Layer<'a>>,
    pub tokens: bool,
    pub mask: Option<&'a str>,
    pub vectors: Vec<VectorInput<'a>>,
}

/// An input as the file declares it.
#[derive(Clone)]
pub(super) struct Declared<'a> {
    pub name: &'a str,
    pub elements: Elements,
    /// What is known only when running is `None`.
    pub dims: Vec<Option<i64>>,
    /// The names of sizes that are known only when running.
    symbols: Vec<Option<&'a str>>,
}

/// One of several inputs that are one tensor for a client: two pictures, of which each has some of the channels.
pub(super) struct Layer<'a> {
    pub name: &'a str,
    /// Its size along the dimension behind the batch.
    pub channels: i64,
}

/// A further input.
pub(super) struct VectorInput<'a> {
    pub name: &'a str,
    pub elements: Elements,
    /// Which of its dimensions is the batch; none of a scalar.
    pub batch: Option<usize>,
    /// The others.
    pub dims: Vec<i64>,
}

pub(super) fn inputs<'a>(free: &[&'a ValueInfoProto]) -> Result<Inputs<'a>, ParseError> {
    let declared = free.iter().map(|input| Declared::of(input));
    let declared = declared.collect::<Result<Vec<_>, _>>()?;
    let unfit = || ParseError::Inputs {
        found: declared.iter().map(|input| input.name.to_owned()).collect(),
    };
    let can_be_first =
        |input: &&Declared<'_>| matches!(input.elements, Elements::Floats | Elements::Bytes);
    // The one with most dimensions, of equals the first: the others are vectors.
    let most = declared
        .iter()
        .filter(can_be_first)
        .map(|input| input.dims.len())
        .max()
        .filter(|most| *most > 0);
    let is_first = |input: &Declared<'_>| can_be_first(&input) && Some(input.dims.len()) == most;
    let Some(at) = declared.iter().position(is_first) else {
        return tokens(&declared).ok_or_else(unfit);
    };
    let mut first = declared[at].clone();
    let mut layers = Vec::new();
    let mut vectors = Vec::new();
    for (other, input) in declared.iter().enumerate() {
        let layer = input.layer_with(&first);
        let vector = input.vector_beside(&first).filter(|_| other != at);
        // What has several pixels is a picture, however small.
        match (vector, layer) {
            (None, Some(layer)) => layers.push(layer),
            (Some(_), Some(layer)) if input.has_pixels() => layers.push(layer),
            (Some(vector), _) => vectors.push(vector),
            (None, None) if other == at => (),
            (None, None) => return Err(unfit()),
        }
    }
    if vectors.len() > VECTORS_MAX {
        return Err(unfit());
    }
    let stacked = if layers.len() > 1 { layers } else { vec![] };
    if !stacked.is_empty() {
        let mut channels = stacked.iter().map(|layer| layer.channels);
        let channels = channels.try_fold(0, |all: i64, own| all.checked_add(own));
        first.dims[1] = Some(channels.ok_or_else(unfit)?);
    }
    Ok(Inputs {
        first,
        stacked,
        tokens: false,
        mask: None,
        vectors,
    })
}

/// Numbers of tokens, and perhaps a mask of the same shape.
fn tokens<'a>(declared: &[Declared<'a>]) -> Option<Inputs<'a>> {
    let is_mask = |input: &Declared<'_>| input.name.contains("mask");
    let (first, mask) = match declared {
        [only] => (only, None),
        [ids, mask] if is_mask(mask) && !is_mask(ids) => (ids, Some(mask)),
        [mask, ids] if is_mask(mask) && !is_mask(ids) => (ids, Some(mask)),
        _ => return None,
    };
    let same = mask.is_none_or(|mask| mask.dims == first.dims);
    if !same || first.elements != Elements::Integers || first.dims.len() < 2 {
        return None;
    }
    Some(Inputs {
        first: first.clone(),
        stacked: Vec::new(),
        tokens: true,
        mask: mask.map(|mask| mask.name),
        vectors: Vec::new(),
    })
}

impl<'a> Declared<'a> {
    fn of(info: &'a ValueInfoProto) -> Result<Self, ParseError> {
        let name = super::name_of(info);
        let unfit = || ParseError::InputType {
            name: name.to_owned(),
        };
        let tensor = info
            .r#type
            .as_ref()
            .and_then(|kind| kind.tensor_type.as_ref());
        let tensor = tensor.ok_or_else(unfit)?;
        let elements = match tensor.elem_type.ok_or_else(unfit)? {
            data_type::FLOAT | data_type::FLOAT16 | data_type::DOUBLE => Elements::Floats,
            data_type::INT64 | data_type::INT32 => Elements::Integers,
            data_type::BOOL => Elements::Truths,
            data_type::UINT8 => Elements::Bytes,
            other => {
                let known = usize::try_from(other).ok();
                let found = known.and_then(|kind| data_type::NAMES.get(kind));
                return Err(ParseError::InputElements {
                    name: name.to_owned(),
                    found: found.ok_or_else(unfit)?,
                });
            }
        };
        let shape = tensor.shape.as_ref().ok_or_else(unfit)?;
        if shape.dim.len() > RANK_MAX {
            return Err(unfit());
        }
        let dims = shape.dim.iter();
        Ok(Self {
            name,
            elements,
            // Exporters write open sizes as 0 or -1 too.
            dims: dims
                .clone()
                .map(|dim| dim.dim_value.filter(|size| *size > 0))
                .collect(),
            symbols: dims.map(|dim| dim.dim_param.as_deref()).collect(),
        })
    }

    /// The input as one of those that are stacked: of the first one's dimensions, but for the channels.
    fn layer_with(&self, first: &Self) -> Option<Layer<'a>> {
        let &[images, Some(channels), ref rest @ ..] = &self.dims[..] else {
            return None;
        };
        let fits = first.dims.first() == Some(&images)
            && first.dims.get(2..) == Some(rest)
            && self.elements == first.elements;
        fits.then_some(Layer {
            name: self.name,
            channels,
        })
    }

    /// The input as a vector; `None` if it may not have that many numbers.
    fn vector_beside(&self, first: &Self) -> Option<VectorInput<'a>> {
        let batch = usize::from(self.is_state_beside(first));
        let batch = (!self.is_scalar()).then_some(batch);
        let mut dims = self.dims.clone();
        if let Some(batch) = batch {
            dims.remove(batch);
        }
        let dims: Vec<i64> = dims.into_iter().collect::<Option<_>>()?;
        let limit = i64::from(VECTOR_LENGTH_MAX);
        let mut sides = dims
            .iter()
            .map(|side| Some(*side).filter(|side| *side <= limit));
        let length = sides.try_fold(1, |all: i64, side| all.checked_mul(side?))?;
        (length <= limit).then_some(VectorInput {
            name: self.name,
            elements: self.elements,
            batch,
            dims,
        })
    }

    /// Whether it has rows and columns, and more than one place.
    fn has_pixels(&self) -> bool {
        match &self.dims[..] {
            [_, _, pixels @ ..] if pixels.len() > 1 => pixels.iter().any(|side| *side != Some(1)),
            _ => false,
        }
    }

    /// Whether it is one number to which the file gives no batch.
    fn is_scalar(&self) -> bool {
        matches!(self.dims[..], [] | [Some(1)])
    }

    /// Whether it is a recurrent state as PyTorch has it, (layers, batch, values).
    fn is_state_beside(&self, first: &Self) -> bool {
        let ([layers, batch, Some(_)], Some(images)) = (&self.dims[..], first.dims.first()) else {
            return false;
        };
        let named = self.symbols[1].is_some_and(|name| first.symbols[0] == Some(name));
        match (layers, batch) {
            (Some(_), None) => true,
            (None, None) => named && self.symbols[0] != self.symbols[1],
            // For a fixed number of images.
            (Some(layers), batch) => batch == images && Some(*layers) != *images,
            (None, Some(_)) => false,
        }
    }
}
