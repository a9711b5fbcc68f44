//! The outputs of an answer, which are the client's until it lets go of them.

use std::fmt;
use std::sync::Arc;

use punctual_platform::atomics::{AtomicBool, AtomicU32, Ordering};

use punctual_types::Element;

use crate::description::{Description, OutputDescription};
use crate::layout::{OutputLayout, RequestLayout};
use crate::region::Region;
use crate::result::HandedOver;

/// What all outputs of a channel have in common; stays as long as any of them.
#[derive(Debug)]
pub(crate) struct OutputMemory {
    pub(super) description: Arc<Description>,
    /// Only read.
    pub(super) outputs: Region,
    pub(super) layout: OutputLayout,
    /// Where releases are written.
    pub(super) requests: Region,
    pub(super) request_layout: RequestLayout,
    /// One entry an area.
    pub(super) holds: Box<[Holds]>,
}

/// What keeps an area from going back to the daemon.
#[derive(Debug, Default)]
pub(crate) struct Holds {
    /// The [`Outputs`] of it, and one for the channel from the first record that names it to the verdict.
    count: AtomicU32,
    /// Whether the channel's is among them. Only its thread looks at it.
    until_verdict: AtomicBool,
}

impl OutputMemory {
    /// The area is the client's: whatever becomes of its outputs, it stays so until the submission has its verdict.
    pub(super) fn hold_until_verdict(&self, handed: HandedOver) {
        let holds = &self.holds[usize::from(handed.area)];
        // Relaxed, here and in `let_go`: only the channel's thread looks at it.
        if !holds.until_verdict.swap(true, Ordering::Relaxed) {
            // Relaxed: all other holds of the area come from this one.
            holds.count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The submission has its verdict.
    pub(super) fn let_go(&self, handed: HandedOver) {
        let holds = &self.holds[usize::from(handed.area)];
        if holds.until_verdict.swap(false, Ordering::Relaxed) {
            self.release(handed);
        }
    }

    /// One hold less. With the last, the area goes back to the daemon.
    fn release(&self, handed: HandedOver) {
        let holds = &self.holds[usize::from(handed.area)];
        // Release: this holder's reading is over; Acquire: that of all others is, too, if this was the last.
        if holds.count.fetch_sub(1, Ordering::AcqRel) == 1 {
            let word = self.request_layout.released(handed.area);
            let word = self.requests.word32(word);
            // Release pairs with the Acquire in `OutputAreas::released`: our reading is over.
            word.store(handed.generation, Ordering::Release);
        }
    }
}

/// The outputs of one answer. Their memory, which all answers of a frame share, goes back to the daemon when the last of them is dropped, but not before
/// the verdict; as long as a client keeps too
/// many, its submissions are rejected ([`NoArea`](crate::Rejection::NoArea)). It outlives its channel and its daemon.
pub struct Outputs {
    memory: Arc<OutputMemory>,
    /// The number of the task that answered.
    task: u16,
    exit: u8,
    handed: HandedOver,
    not_finite: bool,
}

impl fmt::Debug for Outputs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl Outputs {
    /// Of an area that the terms have.
    pub(super) fn new(
        memory: Arc<OutputMemory>,
        task: u16,
        exit: u8,
        handed: HandedOver,
        not_finite: bool,
    ) -> Self {
        let holds = &memory.holds[usize::from(handed.area)];
        // Relaxed: the channel, or the outputs that are cloned, hold the area.
        holds.count.fetch_add(1, Ordering::Relaxed);
        Self {
            memory,
            task,
            exit,
            handed,
            not_finite,
        }
    }

    /// The tensors, in the network's order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Tensor<'_>> {
        let described = self.described().iter();
        described.map(|described| self.tensor(described))
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.described().len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The tensor at this position; none if there are fewer.
    #[must_use]
    pub fn at(&self, position: usize) -> Option<Tensor<'_>> {
        let described = self.described().get(position)?;
        Some(self.tensor(described))
    }

    /// The tensor of this name; none if the exit has none, or the task does not want it.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<Tensor<'_>> {
        self.iter().find(|tensor| tensor.name() == name)
    }

    /// Whether all values of all of them are finite.
    #[must_use]
    pub fn is_finite(&self) -> bool {
        !self.not_finite
    }

    fn described(&self) -> &[OutputDescription] {
        self.memory
            .description
            .of_task(self.task)
            .outputs(self.exit)
    }

    fn tensor<'a>(&'a self, described: &'a OutputDescription) -> Tensor<'a> {
        let memory = &*self.memory;
        let at = memory.layout.area(self.handed.area) + described.offset as usize;
        let bytes = described.bytes as usize;
        let start = memory.outputs.span(at, bytes);
        // SAFETY: in bounds (`span`) and mapped as long as `memory` lives. The area is this client's until `self` is
        // dropped: the daemon's workers write to it before the result and after the release only, and the file's seals
        // keep everybody else from writing.
        let bytes = unsafe { std::slice::from_raw_parts(start.as_ptr(), bytes) };
        Tensor { described, bytes }
    }
}

impl Clone for Outputs {
    /// The same outputs, held once more.
    fn clone(&self) -> Self {
        Self::new(
            Arc::clone(&self.memory),
            self.task,
            self.exit,
            self.handed,
            self.not_finite,
        )
    }
}

impl Drop for Outputs {
    fn drop(&mut self) {
        self.memory.release(self.handed);
    }
}

/// One tensor of an answer.
#[derive(Clone, Copy)]
pub struct Tensor<'a> {
    described: &'a OutputDescription,
    bytes: &'a [u8],
}

impl fmt::Debug for Tensor<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, element) = (self.name(), self.element().name());
        write!(f, "{name}: {element} {:?}", self.shape())
    }
}

/// A tensor is not of the elements that were asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("output {name:?} is of {found}, not of {asked}")]
pub struct ElementError {
    pub name: String,
    /// What its elements are.
    pub found: &'static str,
    pub asked: &'static str,
}

impl<'a> Tensor<'a> {
    /// The network's name for it.
    #[must_use]
    pub fn name(&self) -> &'a str {
        &self.described.name
    }

    /// What its elements are; of a quantised tensor with scale and zero.
    #[must_use]
    pub fn element(&self) -> Element {
        self.described.element
    }

    /// Its dimensions. Empty for a single value.
    #[must_use]
    pub fn shape(&self) -> &'a [u32] {
        &self.described.shape
    }

    /// All of it, rows first, in the machine's order of bytes. Begins at a multiple of 64.
    #[must_use]
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Its values.
    ///
    /// # Errors
    /// If they are none of f32.
    pub fn as_f32(&self) -> Result<&'a [f32], ElementError> {
        self.expect(Element::F32)?;
        // SAFETY: any bytes are floats; `align_to` gives whole ones.
        let (before, values, after) = unsafe { self.bytes.align_to::<f32>() };
        debug_assert!(before.is_empty() && after.is_empty(), "checked lengths");
        Ok(values)
    }

    /// Its values.
    ///
    /// # Errors
    /// If they are none of i32.
    pub fn as_i32(&self) -> Result<&'a [i32], ElementError> {
        self.expect(Element::I32)?;
        // SAFETY: any bytes are integers; `align_to` gives whole ones.
        let (before, values, after) = unsafe { self.bytes.align_to::<i32>() };
        debug_assert!(before.is_empty() && after.is_empty(), "checked lengths");
        Ok(values)
    }

    /// Its values, which [`element`](Self::element) gives a scale.
    ///
    /// # Errors
    /// If they are none of u8.
    pub fn as_u8(&self) -> Result<&'a [u8], ElementError> {
        self.expect(Element::U8 {
            scale: 0.0,
            zero: 0,
        })?;
        Ok(self.bytes)
    }

    /// Its values, which [`element`](Self::element) gives a scale.
    ///
    /// # Errors
    /// If they are none of i8.
    pub fn as_i8(&self) -> Result<&'a [i8], ElementError> {
        self.expect(Element::I8 {
            scale: 0.0,
            zero: 0,
        })?;
        // SAFETY: bytes of the same size and alignment.
        let (_, values, _) = unsafe { self.bytes.align_to::<i8>() };
        Ok(values)
    }

    /// Its values: 1 is true, 0 is false.
    ///
    /// # Errors
    /// If they are none of bool.
    pub fn as_bool(&self) -> Result<&'a [u8], ElementError> {
        self.expect(Element::Bool)?;
        Ok(self.bytes)
    }

    /// Whether all of its values are finite, by looking at each.
    #[must_use]
    pub fn is_finite(&self) -> bool {
        let values = self.as_f32().unwrap_or(&[]);
        values.iter().all(|value| value.is_finite())
    }

    fn expect(&self, asked: Element) -> Result<(), ElementError> {
        let (found, asked) = (self.element().name(), asked.name());
        if found == asked {
            Ok(())
        } else {
            Err(ElementError {
                name: self.name().to_owned(),
                found,
                asked,
            })
        }
    }
}
