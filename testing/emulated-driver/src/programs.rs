//! PTX that was read before: tests load the same modules again and again.
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use punctual_ptx::Module;

use crate::code::{Code, Outcome};
use crate::ptx_images::{self, hash};

static KNOWN: Mutex<Option<BTreeMap<u64, Arc<Module>>>> = Mutex::new(None);

/// The program of an image, which `text` finds if it is new.
fn known(image: &[u8], text: impl FnOnce() -> Option<String>) -> Outcome<Arc<Module>> {
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let known = known.get_or_insert_default();
    let key = hash(image);
    if let Some(module) = known.get(&key) {
        return Ok(Arc::clone(module));
    }
    let text = text().ok_or_else(|| {
        eprintln!(
            "emulated driver: a cubin of {} bytes that is none of kernels/cuda/images: nobody knows its PTX",
            image.len()
        );
        Code::NO_BINARY_FOR_GPU
    })?;
    let module = Module::read(&text).map_err(|error| {
        eprintln!("emulated driver: {error}");
        Code::INVALID_PTX
    })?;
    let module = Arc::new(module);
    known.insert(key, Arc::clone(&module));
    Ok(module)
}

/// What a cubin was assembled from.
pub(crate) fn of_cubin(cubin: &[u8]) -> Outcome<Arc<Module>> {
    known(cubin, || ptx_images::ptx_of(cubin).map(|ptx| ptx.text))
}

pub(crate) fn of_text(text: &str) -> Outcome<Arc<Module>> {
    known(text.as_bytes(), || Some(text.to_owned()))
}
