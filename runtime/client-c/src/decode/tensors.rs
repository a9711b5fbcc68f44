//! The arguments of decoders: tensors, arrays and heads behind pointers.

use punctual_decode::Layout;

use crate::abi::{RANK_MAX, TensorView};
use crate::decode::abi::Head;
use crate::given;
use crate::status::Error;

/// Values with their shape.
#[derive(Clone, Copy, Debug)]
pub(super) struct Floats<'a> {
    pub(super) values: &'a [f32],
    shape: &'a [u32],
    name: &'static str,
}

impl Floats<'_> {
    /// The sides of a tensor of `RANK` dimensions.
    pub(super) fn sides<const RANK: usize>(&self) -> Result<[usize; RANK], Error> {
        let shape: &[u32; RANK] = self.shape.try_into().map_err(|_| {
            let expected = ["no", "1", "2", "3", "4", "5", "6", "7", "8"];
            self.rank_error(expected.get(RANK).copied().unwrap_or("fewer"))
        })?;
        Ok(shape.map(|side| side as usize))
    }

    /// How many channels each place has.
    pub(super) fn channels(&self, layout: Layout) -> Result<usize, Error> {
        let side = match layout {
            Layout::Places => self.shape.last(),
            Layout::Channels => self.shape.first(),
        };
        let side = side.ok_or_else(|| self.rank_error("1 or more"))?;
        Ok(*side as usize)
    }

    fn rank_error(&self, expected: &'static str) -> Error {
        Error::Rank {
            what: self.name,
            found: self.shape.len() as u32,
            expected,
        }
    }
}

/// A tensor of floats.
///
/// # Safety
/// Null, or a tensor whose data are as many bytes as it says, to which nothing writes.
pub(super) unsafe fn floats<'a>(
    tensor: *const TensorView,
    name: &'static str,
) -> Result<Floats<'a>, Error> {
    const FLOAT32: u32 = 0;
    // SAFETY: the caller's duty.
    let tensor = unsafe { given(tensor, name) }?;
    let shape = tensor.shape.get(..tensor.rank as usize);
    let shape = shape.ok_or(Error::Argument(name))?;
    let (data, count) = counted(tensor, shape, FLOAT32).ok_or(Error::NotFloats(name))?;
    // SAFETY: the data hold `count` values, by the caller's duty; aligned, as was checked.
    let values = unsafe { slice::<f32>(data.cast(), count) };
    Ok(Floats {
        values,
        shape,
        name,
    })
}

/// A tensor of one whole number.
///
/// # Safety
/// As for [`floats`].
pub(super) unsafe fn whole(tensor: *const TensorView, name: &'static str) -> Result<i32, Error> {
    const INT32: u32 = 1;
    // SAFETY: the caller's duty.
    let tensor = unsafe { given(tensor, name) }?;
    let shape = tensor.shape.get(..tensor.rank as usize);
    let found = shape.and_then(|shape| counted(tensor, shape, INT32));
    let Some((data, 1)) = found else {
        return Err(Error::Argument(name));
    };
    // SAFETY: four bytes, by the caller's duty; aligned, as was checked.
    Ok(unsafe { data.cast::<i32>().read() })
}

/// Its data, and how many elements of four bytes they are; none if they are no such ones.
fn counted(
    tensor: &TensorView,
    shape: &[u32],
    element: u32,
) -> Option<(*const std::ffi::c_void, usize)> {
    const _: () = assert!(RANK_MAX == 8, "names of ranks");
    let mut sides = shape.iter().map(|side| *side as usize);
    let count = sides.try_fold(1_usize, usize::checked_mul)?;
    let bytes = count.checked_mul(4)?;
    let aligned = tensor.data.cast::<u32>().is_aligned();
    let there = count == 0 || !tensor.data.is_null();
    (tensor.element == element && tensor.bytes == bytes && aligned && there)
        .then_some((tensor.data, count))
}

/// An array; none of it if there is nothing.
///
/// # Safety
/// Points to `count` values to which nothing writes, or `count` is 0.
pub(super) unsafe fn slice<'a, T>(first: *const T, count: usize) -> &'a [T] {
    if count == 0 {
        return &[];
    }
    // SAFETY: the caller's duty.
    unsafe { std::slice::from_raw_parts(first, count) }
}

/// An array that the header says is there.
///
/// # Safety
/// Null, or as for [`slice`].
pub(super) unsafe fn array<'a, T>(
    first: *const T,
    count: usize,
    name: &'static str,
) -> Result<&'a [T], Error> {
    if count > 0 && first.is_null() || count > isize::MAX as usize / size_of::<T>() {
        return Err(Error::Argument(name));
    }
    // SAFETY: the caller's duty.
    Ok(unsafe { slice(first, count) })
}

/// The same to be written.
///
/// # Safety
/// Null, or `count` values that nothing else uses.
pub(super) unsafe fn array_mut<'a, T>(
    first: *mut T,
    count: usize,
    name: &'static str,
) -> Result<&'a mut [T], Error> {
    if count == 0 {
        return Ok(&mut []);
    }
    if first.is_null() || count > isize::MAX as usize / size_of::<T>() {
        return Err(Error::Argument(name));
    }
    // SAFETY: the caller's duty.
    Ok(unsafe { std::slice::from_raw_parts_mut(first, count) })
}

/// A head of this release.
///
/// # Safety
/// Null, or a head that was initialised as the header says.
pub(super) unsafe fn head<'a>(pointer: *const Head) -> Result<&'a Head, Error> {
    if pointer.is_null() {
        return Err(Error::Argument("head"));
    }
    let known = size_of::<Head>() as u32;
    // SAFETY: the size is the first field in every release.
    let found = unsafe { pointer.cast::<u32>().read() };
    if found != known {
        let initial = "PUNCTUAL_HEAD_INIT";
        return Err(Error::Size {
            initial,
            found,
            known,
        });
    }
    // SAFETY: initialised, and of the size of ours.
    unsafe { given(pointer, "head") }
}
