//! A blocked tensor written to plain memory: values one after the other, without blocks or halo.

mod bytes;
mod floats;
mod order;

use core::ptr::NonNull;

use punctual_types::{Element, View};

use self::floats::Floats;
use self::order::{Order, Piece};
use crate::spec::{ELEMENTS_MAX, check_limit};
use crate::{BlockedLayout, Isa, KernelError, Part};

/// Writes the values of a view of a tensor to plain memory, in the view's order.
///
/// Two orders are as fast as memory: those that end in columns, which are planes, and those that end in channels one
/// apart, which are tokens.
#[derive(Clone, Debug)]
pub struct PlainCopy {
    input: BlockedLayout,
    order: Order,
    writes: Writes,
}

#[derive(Clone, Debug)]
enum Writes {
    Floats(Floats),
    /// Each byte with these bits flipped.
    Bytes(u8),
}

impl PlainCopy {
    /// U8 and I8 are written of tensors of bytes, all else of tensors of floats.
    pub fn new(
        isa: Isa,
        input: BlockedLayout,
        view: &View,
        element: Element,
    ) -> Result<PlainCopy, KernelError> {
        if !isa.is_available() {
            return Err(KernelError::IsaUnavailable { isa });
        }
        let writes = match element {
            Element::U8 { .. } => Writes::Bytes(0),
            Element::I8 { .. } => Writes::Bytes(0x80),
            _ => Writes::Floats(Floats::new(isa, element)),
        };
        match writes {
            Writes::Bytes(_) => input.check_bytes("input", isa).map(|_| ())?,
            Writes::Floats(_) => input.check_lanes("input", isa)?,
        }
        let shape = input.shape().sides();
        if !view.lies_in(shape) {
            return Err(KernelError::View { shape });
        }
        let elements = usize::try_from(view.elements()).unwrap_or(usize::MAX);
        // Products of two offsets stay far from overflowing.
        check_limit("values of the view", elements, ELEMENTS_MAX)?;
        Ok(PlainCopy {
            order: Order::new(&input, view),
            input,
            writes,
        })
    }

    /// How many values it writes.
    #[allow(clippy::len_without_is_empty)] // never empty
    pub fn len(&self) -> usize {
        self.order.values()
    }

    /// Bytes that it writes.
    pub fn bytes(&self) -> usize {
        let each = match &self.writes {
            Writes::Floats(floats) => floats.bytes(),
            Writes::Bytes(_) => 1,
        };
        self.len() * each
    }

    /// Writes all values of an image's tensor, and returns how many of them are infinite or not a number.
    pub fn run(&self, input: &[f32], output: &mut [u8]) -> usize {
        assert_eq!(output.len(), self.bytes(), "the output is all values");
        let output = NonNull::from(output).cast();
        // SAFETY: the output is borrowed for us alone.
        unsafe { self.run_part(Part::WHOLE, input, output) }
    }

    /// As [`run`](Self::run), a share of the values. They are spread over the output; all parts write each value once.
    ///
    /// # Safety
    /// The output is valid for [`bytes`](Self::bytes), and while this runs nothing but other parts uses it.
    pub unsafe fn run_part(&self, part: Part, input: &[f32], output: NonNull<u8>) -> usize {
        assert_eq!(
            input.len(),
            self.input.len(),
            "the input is the whole tensor"
        );
        let mut not_finite = 0;
        self.order.each(part, |piece| {
            // SAFETY: the view lies in the tensor, and the caller's promise.
            not_finite += unsafe { self.write(input, &piece, output) };
        });
        not_finite
    }

    /// Whether what of its values lies in some of the tensor's rows can be written as soon as these are there.
    pub fn goes_by_rows(&self) -> bool {
        self.order.goes_by_rows(&self.input)
    }

    /// As [`run_part`](Self::run_part), the values that lie in `rows`, the slice of the tensor that
    /// [`part`](BlockedLayout::part) is.
    ///
    /// # Safety
    /// As of [`run_part`](Self::run_part).
    ///
    /// # Panics
    /// If it does not [go by rows](Self::goes_by_rows).
    pub unsafe fn run_rows(&self, part: Part, rows: &[f32], output: NonNull<u8>) -> usize {
        assert!(self.goes_by_rows(), "the values lie row by row");
        let range = self.input.part(part);
        assert_eq!(rows.len(), range.len(), "the rows are the part's");
        let width = self.input.width();
        let mut not_finite = 0;
        for span in self.input.spans(part) {
            for block in span.block..span.block + span.blocks {
                let from = self.input.row_start(block, span.rows.start) - range.start;
                let pixels = width * span.rows.start..width * span.rows.end;
                let rows = &rows[from..from + pixels.len() * self.input.pixel()];
                if let Some(piece) = self.order.rows(block, pixels) {
                    // SAFETY: these rows are the piece's, and the caller's promise.
                    not_finite += unsafe { self.write(rows, &piece, output) };
                }
            }
        }
        not_finite
    }

    /// # Safety
    /// The piece's values lie in the input; their places in the output are valid, and while this runs nothing else uses
    /// them.
    unsafe fn write(&self, input: &[f32], piece: &Piece, output: NonNull<u8>) -> usize {
        // SAFETY: the caller's promise.
        unsafe {
            match &self.writes {
                Writes::Floats(floats) => return floats.write(&self.order, input, piece, output),
                Writes::Bytes(flipped) => {
                    bytes::write(&self.order, input, piece, output, *flipped);
                }
            }
        }
        0
    }
}
