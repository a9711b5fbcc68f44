//! The functions of `punctual.h` and `punctual_decode.h`, which document them.
//!
//! | file | what lives there |
//! |---|---|
//! | `abi` | the structures and numbers of the header |
//! | `status` | return values, and the words for them |
//! | `opening` | how to open a client, from the program's options |
//! | `handle` | a client behind a pointer; slots behind tokens |
//! | `decode` | the functions of `punctual_decode.h`; `decode::abi` its structures |
//!
//! Nothing that panics gets across: each body runs guarded. Pointers are checked for NULL; that
//! they point to what the header says is the program's duty, here as in all of C.
#![allow(
    clippy::missing_safety_doc,
    reason = "the header says what must be pointed to; each block below refers to it"
)]

pub mod abi;
pub mod decode;
pub mod handle;
mod opening;
pub mod status;

use std::ffi::{CStr, c_char, c_int, c_void};

use punctual_client::{SlotMemory, now_ns};

use abi::{Callback, FOREVER, Options, Outcome, Request, SlotView, TensorView, Terms};
use handle::{CallbackTarget, Handle, TakenOutputs};
use status::{Error, NOTHING, OK, Status, guarded};

/// What `pointer` points to.
///
/// # Safety
/// Null, or what the header requires of this argument.
unsafe fn given<'a, T>(pointer: *const T, name: &'static str) -> Result<&'a T, Error> {
    // SAFETY: the caller's duty.
    unsafe { pointer.as_ref() }.ok_or(Error::Argument(name))
}

/// Where to put a result.
///
/// # Safety
/// Null, or valid for writing a `T`, which need not be initialised.
unsafe fn put<T>(pointer: *mut T, name: &'static str, value: T) -> Result<(), Error> {
    if pointer.is_null() {
        return Err(Error::Argument(name));
    }
    // SAFETY: the caller's duty.
    unsafe { pointer.write(value) };
    Ok(())
}

/// # Safety
/// Null, or a string that ends with a zero.
unsafe fn text<'a>(pointer: *const c_char, name: &'static str) -> Result<&'a CStr, Error> {
    if pointer.is_null() {
        return Err(Error::Argument(name));
    }
    // SAFETY: the caller's duty.
    Ok(unsafe { CStr::from_ptr(pointer) })
}

fn limit(until_ns: u64) -> Option<u64> {
    (until_ns != FOREVER).then_some(until_ns)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_open(
    options: *const Options,
    until_ns: u64,
    client: *mut *mut Handle,
) -> Status {
    guarded(|| {
        if client.is_null() {
            return Err(Error::Argument("client"));
        }
        // SAFETY: as the header says.
        let options = unsafe { opening::options(options) }?;
        let handle = Handle::asked(options.open(limit(until_ns))?);
        // SAFETY: as the header says.
        unsafe { put(client, "client", Box::into_raw(Box::new(handle))) }?;
        Ok(OK)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_open_with_callback(
    options: *const Options,
    until_ns: u64,
    callback: Callback,
    context: *mut c_void,
    client: *mut *mut Handle,
) -> Status {
    guarded(|| {
        if client.is_null() {
            return Err(Error::Argument("client"));
        }
        let callback = callback.ok_or(Error::Argument("callback"))?;
        // SAFETY: as the header says.
        let options = unsafe { opening::options(options) }?;
        let stream = options.stream(limit(until_ns))?;
        let handle = Handle::told(stream, CallbackTarget { callback, context });
        // SAFETY: as the header says.
        unsafe { put(client, "client", Box::into_raw(Box::new(handle))) }?;
        Ok(OK)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_close(client: *mut Handle) {
    guarded(|| {
        if !client.is_null() {
            // SAFETY: made by `punctual_open`, and not closed before, as the header says.
            drop(unsafe { Box::from_raw(client) });
        }
        Ok(OK)
    });
}

/// Runs `body` on the client.
///
/// # Safety
/// `client` is null or an open client.
unsafe fn with(
    client: *const Handle,
    body: impl FnOnce(&Handle) -> Result<Status, Error>,
) -> Status {
    // SAFETY: the caller's duty.
    guarded(|| body(unsafe { given(client, "client") }?))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_get_terms(client: *const Handle, terms: *mut Terms) -> Status {
    let body = |handle: &Handle| {
        // SAFETY: as the header says.
        unsafe { put(terms, "terms", Terms::from(&handle.terms())) }?;
        Ok(OK)
    };
    // SAFETY: as the header says.
    unsafe { with(client, body) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_accept_terms(client: *mut Handle) -> Status {
    let body = |handle: &Handle| {
        handle.accept_terms();
        Ok(OK)
    };
    // SAFETY: as the header says.
    unsafe { with(client, body) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_slot(
    client: *mut Handle,
    until_ns: u64,
    slot: *mut SlotView,
) -> Status {
    let body = |handle: &Handle| {
        if slot.is_null() {
            return Err(Error::Argument("slot"));
        }
        let Some(view) = handle.slot(limit(until_ns))? else {
            return Ok(NOTHING);
        };
        // SAFETY: as the header says.
        unsafe { put(slot, "slot", view) }?;
        Ok(OK)
    };
    // SAFETY: as the header says.
    unsafe { with(client, body) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_slot_at(
    client: *mut Handle,
    index: u32,
    slot: *mut SlotView,
) -> Status {
    let body = |handle: &Handle| {
        if slot.is_null() {
            return Err(Error::Argument("slot"));
        }
        let index = u16::try_from(index).map_err(|_| Error::Argument("index"))?;
        let Some(view) = handle.slot_at(index)? else {
            return Ok(NOTHING);
        };
        // SAFETY: as the header says.
        unsafe { put(slot, "slot", view) }?;
        Ok(OK)
    };
    // SAFETY: as the header says.
    unsafe { with(client, body) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_submit(
    client: *mut Handle,
    slot: *const SlotView,
    request: *const Request,
    sequence: *mut u64,
) -> Status {
    let body = |handle: &Handle| {
        // SAFETY: as the header says.
        let (slot, request) = unsafe { (given(slot, "slot")?, given(request, "request")?) };
        let number = handle.submit(slot.token, *request)?;
        if !sequence.is_null() {
            // SAFETY: as the header says.
            unsafe { put(sequence, "sequence", number) }?;
        }
        Ok(OK)
    };
    // SAFETY: as the header says.
    unsafe { with(client, body) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_give_back(client: *mut Handle, slot: *const SlotView) -> Status {
    let body = |handle: &Handle| {
        // SAFETY: as the header says.
        handle.give_back(unsafe { given(slot, "slot") }?.token)?;
        Ok(OK)
    };
    // SAFETY: as the header says.
    unsafe { with(client, body) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_keep(
    client: *const Handle,
    slot: *const SlotView,
    memory: *mut *mut SlotMemory,
) -> Status {
    let body = |handle: &Handle| {
        // SAFETY: as the header says.
        let kept = handle.memory(unsafe { given(slot, "slot") }?.token)?;
        if memory.is_null() {
            return Err(Error::Argument("memory"));
        }
        // SAFETY: as the header says.
        unsafe { put(memory, "memory", Box::into_raw(Box::new(kept))) }?;
        Ok(OK)
    };
    // SAFETY: as the header says.
    unsafe { with(client, body) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_let_go(memory: *mut SlotMemory) {
    guarded(|| {
        if !memory.is_null() {
            // SAFETY: made by `punctual_keep`, and not let go before, as the header says.
            drop(unsafe { Box::from_raw(memory) });
        }
        Ok(OK)
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_verdict(
    client: *mut Handle,
    until_ns: u64,
    result: *mut Outcome,
) -> Status {
    // SAFETY: as the header says.
    unsafe { read(client, result, |handle| handle.verdict(limit(until_ns))) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_try_verdict(client: *mut Handle, result: *mut Outcome) -> Status {
    // SAFETY: as the header says.
    unsafe { read(client, result, Handle::try_verdict) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_answer(
    client: *mut Handle,
    until_ns: u64,
    result: *mut Outcome,
) -> Status {
    // SAFETY: as the header says.
    unsafe { read(client, result, |handle| handle.answer(limit(until_ns))) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_try_answer(client: *mut Handle, result: *mut Outcome) -> Status {
    // SAFETY: as the header says.
    unsafe { read(client, result, Handle::try_answer) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_latest(client: *mut Handle, result: *mut Outcome) -> Status {
    // SAFETY: as the header says.
    unsafe { read(client, result, |handle| Ok(handle.latest())) }
}

/// # Safety
/// As for [`punctual_verdict`].
unsafe fn read(
    client: *mut Handle,
    result: *mut Outcome,
    next: impl FnOnce(&Handle) -> Result<Option<Outcome>, Error>,
) -> Status {
    let body = |handle: &Handle| {
        if result.is_null() {
            return Err(Error::Argument("result"));
        }
        let Some(outcome) = next(handle)? else {
            return Ok(NOTHING);
        };
        // SAFETY: as the header says.
        unsafe { put(result, "result", outcome) }?;
        Ok(OK)
    };
    // SAFETY: as the header says.
    unsafe { with(client, body) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_set_vector(
    client: *mut Handle,
    slot: *const SlotView,
    name: *const c_char,
    values: *const f32,
    count: usize,
) -> Status {
    let body = |handle: &Handle| {
        // SAFETY: as the header says.
        let (slot, name) = unsafe { (given(slot, "slot")?, text(name, "name")?) };
        let name = name.to_str().map_err(|_| Error::Argument("name"))?;
        if values.is_null() || count > NUMBERS_MAX {
            return Err(Error::Argument("values"));
        }
        // SAFETY: as the header says.
        let values = unsafe { std::slice::from_raw_parts(values, count) };
        handle.set_vector(slot.token, name, values)?;
        Ok(OK)
    };
    // SAFETY: as the header says.
    unsafe { with(client, body) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_set_task(
    client: *mut Handle,
    slot: *const SlotView,
    name: *const c_char,
) -> Status {
    let body = |handle: &Handle| {
        // SAFETY: as the header says.
        let (slot, name) = unsafe { (given(slot, "slot")?, text(name, "name")?) };
        let name = name.to_str().map_err(|_| Error::Argument("name"))?;
        handle.set_task(slot.token, name)?;
        Ok(OK)
    };
    // SAFETY: as the header says.
    unsafe { with(client, body) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_task_count(client: *const Handle) -> u32 {
    // SAFETY: as the header says.
    let count = unsafe { client.as_ref() }.map_or(0, Handle::task_count);
    count.into()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_task_name(
    client: *const Handle,
    task: u32,
    name: *mut c_char,
    size: usize,
) -> Status {
    // SAFETY: as the header says.
    unsafe { copy_name(client, name, size, |handle| handle.task_name(task)) }
}

/// More numbers than any vector has.
const NUMBERS_MAX: usize = 1 << 16;

#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_take_outputs(
    client: *mut Handle,
    result: *const Outcome,
    outputs: *mut *mut TakenOutputs,
) -> Status {
    let body = |handle: &Handle| {
        // SAFETY: as the header says.
        let result = unsafe { given(result, "result") }?;
        if outputs.is_null() {
            return Err(Error::Argument("outputs"));
        }
        let Some(taken) = handle.take_outputs(result) else {
            return Ok(NOTHING);
        };
        // SAFETY: as the header says.
        unsafe { put(outputs, "outputs", Box::into_raw(Box::new(taken))) }?;
        Ok(OK)
    };
    // SAFETY: as the header says.
    unsafe { with(client, body) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_output_count(outputs: *const TakenOutputs) -> u32 {
    // SAFETY: as the header says.
    let outputs = unsafe { outputs.as_ref() };
    outputs.map_or(0, |outputs| outputs.count() as u32)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_output_at(
    outputs: *const TakenOutputs,
    position: u32,
    tensor: *mut TensorView,
) -> Status {
    guarded(|| {
        // SAFETY: as the header says.
        let outputs = unsafe { given(outputs, "outputs") }?;
        // SAFETY: as the header says.
        unsafe { give_tensor(outputs, Some(position as usize), tensor) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_output_named(
    outputs: *const TakenOutputs,
    name: *const c_char,
    tensor: *mut TensorView,
) -> Status {
    guarded(|| {
        // SAFETY: as the header says.
        let (outputs, name) = unsafe { (given(outputs, "outputs")?, text(name, "name")?) };
        // SAFETY: as the header says.
        unsafe { give_tensor(outputs, outputs.named(name), tensor) }
    })
}

/// # Safety
/// As for [`punctual_output_at`].
unsafe fn give_tensor(
    outputs: &TakenOutputs,
    position: Option<usize>,
    tensor: *mut TensorView,
) -> Result<Status, Error> {
    if tensor.is_null() {
        return Err(Error::Argument("tensor"));
    }
    let Some(view) = position.and_then(|position| outputs.view(position)) else {
        return Ok(NOTHING);
    };
    // SAFETY: the caller's duty.
    unsafe { put(tensor, "tensor", view) }?;
    Ok(OK)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_release_outputs(outputs: *mut TakenOutputs) {
    guarded(|| {
        if !outputs.is_null() {
            // SAFETY: made by `punctual_take_outputs`, and not released before, as the header says.
            drop(unsafe { Box::from_raw(outputs) });
        }
        Ok(OK)
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_class_name(
    client: *const Handle,
    class_index: u32,
    name: *mut c_char,
    size: usize,
) -> Status {
    let found = |handle: &Handle| handle.class_name(0, class_index as usize);
    // SAFETY: as the header says.
    unsafe { copy_name(client, name, size, found) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_class_name_of(
    client: *const Handle,
    task: u32,
    class_index: u32,
    name: *mut c_char,
    size: usize,
) -> Status {
    let found = |handle: &Handle| handle.class_name(task, class_index as usize);
    // SAFETY: as the header says.
    unsafe { copy_name(client, name, size, found) }
}

/// # Safety
/// As for [`punctual_class_name`].
unsafe fn copy_name(
    client: *const Handle,
    name: *mut c_char,
    size: usize,
    find: impl FnOnce(&Handle) -> Option<String>,
) -> Status {
    let body = |handle: &Handle| {
        if name.is_null() {
            return Err(Error::Argument("name"));
        }
        let Some(found) = find(handle) else {
            return Ok(NOTHING);
        };
        if found.len() >= size {
            return Err(Error::Room(found.len()));
        }
        // SAFETY: the header asks for room of `size` bytes, more than these.
        unsafe {
            name.copy_from_nonoverlapping(found.as_ptr().cast(), found.len());
            name.add(found.len()).write(0);
        }
        Ok(OK)
    };
    // SAFETY: as the header says.
    unsafe { with(client, body) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_fd(client: *mut Handle, fd: *mut c_int) -> Status {
    let body = |handle: &Handle| {
        // SAFETY: as the header says.
        unsafe { put(fd, "fd", handle.descriptor()?) }?;
        Ok(OK)
    };
    // SAFETY: as the header says.
    unsafe { with(client, body) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_unanswered(client: *const Handle) -> u64 {
    // SAFETY: as the header says.
    unsafe { client.as_ref() }.map_or(0, Handle::unanswered)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_connections(client: *const Handle) -> u64 {
    // SAFETY: as the header says.
    unsafe { client.as_ref() }.map_or(0, Handle::connections)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_is_connected(client: *const Handle) -> c_int {
    // SAFETY: as the header says.
    let handle = unsafe { client.as_ref() };
    c_int::from(handle.is_some_and(Handle::is_connected))
}

#[unsafe(no_mangle)]
pub extern "C" fn punctual_now_ns() -> u64 {
    now_ns()
}

#[unsafe(no_mangle)]
pub extern "C" fn punctual_strerror(status: Status) -> *const c_char {
    status::meaning(status).as_ptr()
}

#[unsafe(no_mangle)]
pub extern "C" fn punctual_last_error() -> *const c_char {
    status::last_error()
}

#[unsafe(no_mangle)]
pub extern "C" fn punctual_verdict_text(verdict: u8, reason: u8) -> *const c_char {
    status::verdict_text(verdict, reason).as_ptr()
}
