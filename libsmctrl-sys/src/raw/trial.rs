//! libsmctrl's first call, in a child process.

use std::ffi::{OsStr, c_void};

use super::api;
use crate::mask::TpcMask;
use crate::stream_mask::Layout;

/// The library or its functions are not there.
pub(super) const NOT_LOADED: u64 = u64::MAX;

/// The call came back and nothing that looks like a mask was written.
pub(super) const NO_MASK: u64 = u64::MAX - 1;

/// Words of the object that stands in for a stream's: more than any known offset.
const OBJECT_WORDS: usize = 4096;

/// A mask that no memory of zeros contains by chance, sayable in 64 bits.
const MASK: TpcMask = TpcMask::from_disabled_bits(u128::MAX << 64 | 0x1234_5678_9abc_def0);

/// Loads the library and lets it mask an object that stands in for a stream's. Says at which byte of
/// the object the mask lies then.
pub(super) fn run(file: &OsStr, layout: Layout) -> u64 {
    // SAFETY: the caller's promise: it is libsmctrl.
    let Ok(library) = (unsafe { libloading::Library::new(file) }) else {
        return NOT_LOADED;
    };
    // The library stays loaded: this process ends without running any clean-up (`_exit`).
    let library = std::mem::ManuallyDrop::new(library);
    let mut object = vec![0_u32; OBJECT_WORDS];
    let mut handle = object.as_mut_ptr();
    let stream = (&raw mut handle).cast::<c_void>();
    // SAFETY: the functions have the types of the library's header. They write through the handle into
    // the object, or somewhere else, in a process that is there to die of it.
    unsafe {
        if let Ok(set) = library.get::<api::SetStreamMaskExt>(b"libsmctrl_set_stream_mask_ext") {
            set(stream, MASK.disabled_bits());
        } else if let Ok(set) = library.get::<api::SetStreamMask>(b"libsmctrl_set_stream_mask") {
            set(stream, MASK.disabled_bits() as u64);
        } else {
            return NOT_LOADED;
        }
    }
    let bytes: Vec<u8> = object.iter().flat_map(|word| word.to_ne_bytes()).collect();
    place_of_mask(&bytes, layout).map_or(NO_MASK, |at| at as u64)
}

/// The first byte of the only thing in an object of zeros, if it is the mask.
fn place_of_mask(object: &[u8], layout: Layout) -> Option<usize> {
    let mut expected = [0; 32];
    layout.encode(MASK, &mut expected).ok()?;
    let expected = &expected[..layout.bytes()];
    let at = (0..object.len())
        .step_by(size_of::<u32>())
        .find(|at| object[*at..].starts_with(expected))?;
    let (before, rest) = object.split_at(at);
    let zeros = |bytes: &[u8]| bytes.iter().all(|byte| *byte == 0);
    (zeros(before) && zeros(&rest[expected.len()..])).then_some(at)
}
