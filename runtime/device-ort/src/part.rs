//! A part of an ONNX graph, run as a user of the library would: values go in and come out by name, and what a part leaves
//! is what the next one takes.

use std::borrow::Cow;
use std::collections::BTreeMap;

use ort::session::builder::GraphOptimizationLevel;
use ort::session::{Session, SessionInputValue};
use ort::value::{DynValue, Tensor};

use crate::library::Library;

/// A graph's values, by their names.
#[derive(Default)]
pub struct Values(BTreeMap<String, DynValue>);

impl Values {
    /// Adds zeros of this shape, to be written by [`floats_mut`](Self::floats_mut).
    pub fn add_zeros(&mut self, name: &str, shape: &[usize]) -> ort::Result<()> {
        let zeros = vec![0.0_f32; shape.iter().product()];
        let value = Tensor::from_array((shape, zeros))?.into_dyn();
        self.0.insert(name.to_owned(), value);
        Ok(())
    }

    /// # Panics
    /// If no part has left such a value, or it is not of floats.
    #[must_use]
    pub fn floats(&self, name: &str) -> &[f32] {
        let (_, floats) = self.0[name].try_extract_tensor().expect("of floats");
        floats
    }

    /// # Panics
    /// As [`floats`](Self::floats).
    pub fn floats_mut(&mut self, name: &str) -> &mut [f32] {
        let value = self.0.get_mut(name).expect("it was added");
        let (_, floats) = value.try_extract_tensor_mut().expect("of floats");
        floats
    }
}

/// A session on the calling thread.
pub struct Part {
    session: Session,
    inputs: Vec<String>,
    outputs: Vec<String>,
}

impl Part {
    /// For the graph of an ONNX file.
    pub fn new(library: Library, onnx: &[u8]) -> ort::Result<Self> {
        let session = Session::builder(library.environment)?
            .with_intra_threads(1)?
            .with_optimization_level(GraphOptimizationLevel::All)?
            .commit_from_memory(onnx)?;
        let owned = |names: &[ort::value::Outlet]| -> Vec<String> {
            names.iter().map(|of| of.name().to_owned()).collect()
        };
        Ok(Self {
            inputs: owned(session.inputs()),
            outputs: owned(session.outputs()),
            session,
        })
    }

    /// Takes its inputs from `values`, and leaves its outputs there.
    ///
    /// # Panics
    /// If an input is not there.
    pub fn run(&mut self, values: &mut Values) -> ort::Result<()> {
        let input = |name: &String| -> (Cow<'_, str>, SessionInputValue<'_>) {
            (name.clone().into(), (&values.0[name]).into())
        };
        let inputs: Vec<_> = self.inputs.iter().map(input).collect();
        let mut results = self.session.run(inputs)?;
        for name in &self.outputs {
            let result = results.remove(name).expect("an output of the session");
            values.0.insert(name.clone(), result);
        }
        Ok(())
    }
}
