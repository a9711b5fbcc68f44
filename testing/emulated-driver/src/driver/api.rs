//! Every call that the library exports, by the name and with the arguments that the CUDA driver API
//! documents. A row is a name, its arguments and what carries it out; where a result goes is an argument, too.
#![allow(non_snake_case, reason = "the names are CUDA's")]
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::copy::{Copy, Way};
use super::green::{Resource, Split};
use super::{
    allocation, context, copy, descriptor, device, event, external, green, launch, module, state,
    stream,
};
use crate::code::{Code, Outcome};
use crate::index::Index;

/// A name and the function behind it.
pub(crate) struct Export {
    pub(crate) name: &'static str,
    address: *const c_void,
}

// SAFETY: the address of a function.
unsafe impl Sync for Export {}

/// All rows of the table below.
pub(crate) fn exports() -> &'static [Export] {
    EXPORTS
}

/// What every call does around its own work.
fn called(name: &'static str, body: impl FnOnce() -> Outcome) -> Code {
    if let Some(code) = state::count(name) {
        return code;
    }
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => Code::SUCCESS,
        Ok(Err(code)) => code,
        // A defect of the emulation must not unwind into a program that expects C.
        Err(_) => Code::UNKNOWN,
    }
}

/// Puts a result where the program wants it.
///
/// # Safety
/// `to` is null or points to room for a `T`.
unsafe fn put<T>(to: *mut T, value: T) -> Outcome {
    if to.is_null() {
        return Err(Code::INVALID_VALUE);
    }
    // SAFETY: the caller's promise.
    unsafe { to.write(value) };
    Ok(())
}

macro_rules! calls {
    ($($name:ident($($argument:ident: $kind:ty),*) $body:block)*) => {
        $(
            /// See the CUDA driver API.
            ///
            /// # Safety
            /// As documented there.
            #[unsafe(no_mangle)]
            #[allow(unused_unsafe, reason = "calls without pointers need none")]
            pub unsafe extern "C" fn $name($($argument: $kind),*) -> Code {
                // SAFETY: pointers are as the manual of the call demands, which is the caller's promise.
                called(stringify!($name), || unsafe { $body })
            }
        )*

        const EXPORTS: &[Export] = &[$(Export {
            name: stringify!($name),
            address: $name as unsafe extern "C" fn($($kind),*) -> Code as *const c_void,
        }),*];
    };
}

type Ptr = *mut c_void;

// Initialisation, device, primary context.
calls! {
    cuInit(flags: c_uint) { device::init(flags) }
    cuDriverGetVersion(version: *mut c_int) { put(version, device::driver_version()?) }
    cuDeviceGetCount(count: *mut c_int) { put(count, device::count()?) }
    cuDeviceGet(to: *mut c_int, ordinal: c_int) { put(to, device::get(ordinal)?) }
    cuDeviceGetName(name: *mut c_char, bytes: c_int, of: c_int) {
        put_text(name, bytes, &device::name(of)?)
    }
    cuDeviceGetUuid(to: *mut [u8; 16], of: c_int) { put(to, device::uuid(of)?) }
    cuDeviceGetUuid_v2(to: *mut [u8; 16], of: c_int) { put(to, device::uuid(of)?) }
    cuDeviceGetAttribute(to: *mut c_int, which: c_uint, of: c_int) { put(to, device::attribute(which, of)?) }
    cuDeviceTotalMem_v2(to: *mut usize, of: c_int) { put(to, device::total_memory(of)?) }
    cuDevicePrimaryCtxRetain(to: *mut usize, of: c_int) { put(to, context::retain(of)?) }
    cuDevicePrimaryCtxRelease_v2(of: c_int) { context::release(of) }
    cuDevicePrimaryCtxReset_v2(of: c_int) { context::reset(of) }
    cuDevicePrimaryCtxGetState(of: c_int, flags: *mut c_uint, active: *mut c_int) {
        let state = context::primary_state(of)?;
        put(flags, state.0)?;
        put(active, state.1)
    }

    cuCtxSetCurrent(context: usize) { context::set_current(context) }
    cuCtxGetCurrent(to: *mut usize) { put(to, context::get_current()?) }
    cuCtxPushCurrent_v2(context: usize) { context::push(context) }
    cuCtxPopCurrent_v2(to: *mut usize) {
        let popped = context::pop()?;
        if to.is_null() { Ok(()) } else { put(to, popped) }
    }
    cuCtxGetDevice(to: *mut c_int) { put(to, context::current_device()?) }
    cuCtxSynchronize() { context::synchronize() }
    cuCtxGetStreamPriorityRange(least: *mut c_int, greatest: *mut c_int) {
        let range = context::priority_range()?;
        // Either may be left out.
        if !least.is_null() { put(least, range.0)?; }
        if !greatest.is_null() { put(greatest, range.1)?; }
        Ok(())
    }

    cuMemAlloc_v2(to: *mut u64, bytes: usize) { put(to, allocation::allocate(bytes)?) }
    cuMemFree_v2(address: u64) { allocation::free(address) }
    cuMemGetInfo_v2(free: *mut usize, total: *mut usize) {
        let info = allocation::info()?;
        put(free, info.0)?;
        put(total, info.1)
    }
    cuMemHostAlloc(to: *mut usize, bytes: usize, flags: c_uint) {
        // Portable, mapped, write-combined: all memory is all of that here.
        if flags & !7 != 0 { return Err(Code::INVALID_VALUE); }
        put(to, allocation::host_allocate(bytes)?)
    }
    cuMemFreeHost(address: usize) { allocation::free_host(address) }
    cuMemHostRegister_v2(address: usize, bytes: usize, flags: c_uint) {
        // Portable, mapped, of a device, read only.
        if flags & !15 != 0 { return Err(Code::INVALID_VALUE); }
        allocation::register(address, bytes, flags & 8 != 0)
    }
    cuMemHostUnregister(address: usize) { allocation::unregister(address) }
    cuMemHostGetDevicePointer_v2(to: *mut u64, address: usize, flags: c_uint) {
        if flags != 0 { return Err(Code::INVALID_VALUE); }
        put(to, allocation::device_pointer(address)?)
    }

    cuImportExternalMemory(to: *mut usize, description: *const external::Description) {
        if to.is_null() || description.is_null() { return Err(Code::INVALID_VALUE); }
        put(to, external::import(description.read())?)
    }
    cuExternalMemoryGetMappedBuffer(to: *mut u64, external: usize, part: *const external::Part) {
        if to.is_null() || part.is_null() { return Err(Code::INVALID_VALUE); }
        put(to, external::map(external, part.read())?)
    }
    cuDestroyExternalMemory(external: usize) { external::destroy(external) }

    cuMemcpyHtoD_v2(to: u64, from: u64, bytes: usize) { Copy { way: Way::ToDevice, to, from, bytes }.now() }
    cuMemcpyDtoH_v2(to: u64, from: u64, bytes: usize) { Copy { way: Way::ToHost, to, from, bytes }.now() }
    cuMemcpyDtoD_v2(to: u64, from: u64, bytes: usize) { Copy { way: Way::OnDevice, to, from, bytes }.now() }
    cuMemcpyHtoDAsync_v2(to: u64, from: u64, bytes: usize, stream: usize) {
        Copy { way: Way::ToDevice, to, from, bytes }.later(stream)
    }
    cuMemcpyDtoHAsync_v2(to: u64, from: u64, bytes: usize, stream: usize) {
        Copy { way: Way::ToHost, to, from, bytes }.later(stream)
    }
    cuMemcpyDtoDAsync_v2(to: u64, from: u64, bytes: usize, stream: usize) {
        Copy { way: Way::OnDevice, to, from, bytes }.later(stream)
    }
    cuMemsetD8_v2(to: u64, value: u8, words: usize) { copy::fill_now(to, value.into(), 1, words) }
    cuMemsetD32_v2(to: u64, value: c_uint, words: usize) { copy::fill_now(to, value, 4, words) }
    cuMemsetD8Async(to: u64, value: u8, words: usize, stream: usize) {
        copy::fill_later(to, value.into(), 1, words, stream)
    }
    cuMemsetD32Async(to: u64, value: c_uint, words: usize, stream: usize) {
        copy::fill_later(to, value, 4, words, stream)
    }

    cuModuleLoadData(to: *mut usize, image: *const u8) { put(to, module::load(image)?) }
    cuModuleUnload(module: usize) { module::unload(module) }
    cuModuleGetFunction(to: *mut usize, module: usize, name: *const c_char) {
        if name.is_null() { return Err(Code::INVALID_VALUE); }
        put(to, module::function(module, CStr::from_ptr(name))?)
    }
    cuFuncGetAttribute(to: *mut c_int, which: c_uint, function: usize) {
        put(to, module::attribute(function, which)?)
    }
    cuFuncSetAttribute(function: usize, which: c_uint, value: c_int) {
        module::set_attribute(function, which, value)
    }
    cuOccupancyMaxActiveBlocksPerMultiprocessor(to: *mut c_int, function: usize, threads: c_int, shared: usize) {
        put(to, module::occupancy(function, threads, shared)?)
    }
    cuLaunchKernel(
        function: usize, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint, block_x: c_uint, block_y: c_uint,
        block_z: c_uint, shared: c_uint, stream: usize, parameters: *const *const c_void, extra: *const Ptr
    ) {
        if !extra.is_null() { return Err(Code::NOT_SUPPORTED); }
        let grid = Index { x: grid_x, y: grid_y, z: grid_z };
        let block = Index { x: block_x, y: block_y, z: block_z };
        launch::launch(function, grid, block, shared as usize, stream, parameters)
    }

    cuStreamCreate(to: *mut usize, flags: c_uint) { put(to, stream::create(flags, 0)?) }
    cuStreamCreateWithPriority(to: *mut usize, flags: c_uint, priority: c_int) {
        put(to, stream::create(flags, priority)?)
    }
    cuStreamDestroy_v2(stream: usize) { stream::destroy(stream) }
    cuStreamGetPriority(stream: usize, to: *mut c_int) { put(to, stream::priority(stream)?) }
    cuStreamQuery(stream: usize) { stream::query(stream) }
    cuStreamSynchronize(stream: usize) { stream::synchronize(stream) }
    cuStreamWaitEvent(stream: usize, event: usize, flags: c_uint) {
        if flags > 1 { return Err(Code::INVALID_VALUE); }
        event::stream_wait(stream, event)
    }
    cuStreamWriteValue32_v2(stream: usize, to: u64, value: u32, flags: c_uint) {
        if flags > 1 { return Err(Code::INVALID_VALUE); }
        stream::write_value(stream, to, value)
    }

    cuEventCreate(to: *mut usize, flags: c_uint) { put(to, event::create(flags)?) }
    cuEventDestroy_v2(event: usize) { event::destroy(event) }
    cuEventRecord(event: usize, stream: usize) { event::record(event, stream) }
    cuEventQuery(event: usize) { event::query(event) }
    cuEventSynchronize(event: usize) { event::synchronize(event) }
    cuEventElapsedTime(to: *mut f32, from: usize, until: usize) { put(to, event::elapsed(from, until)?) }

    cuDeviceGetDevResource(of: c_int, to: *mut Resource, kind: c_uint) { put(to, green::of_device(of, kind)?) }
    cuDevSmResourceSplitByCount(
        to: *mut Resource, count: *mut c_uint, input: *const Resource, rest: *mut Resource, flags: c_uint,
        least: c_uint
    ) {
        let (Some(input), Some(room)) = (input.as_ref(), count.as_ref()) else {
            return Err(Code::INVALID_VALUE);
        };
        // Without a place for the groups the question is how many there could be.
        let wanted = if to.is_null() { None } else { Some(*room) };
        let split = green::split(input, wanted, flags, least)?;
        put_split(to, count, rest, &split)
    }
    cuDevResourceGenerateDesc(to: *mut usize, resources: *const Resource, count: c_uint) {
        if resources.is_null() || count == 0 { return Err(Code::INVALID_VALUE); }
        put(to, green::describe(std::slice::from_raw_parts(resources, count as usize))?)
    }
    cuGreenCtxCreate(to: *mut usize, description: usize, of: c_int, flags: c_uint) {
        put(to, green::create(description, of, flags)?)
    }
    cuGreenCtxDestroy(green: usize) { green::destroy(green) }
    cuCtxFromGreenCtx(to: *mut usize, green: usize) { put(to, green::as_context(green)?) }
    cuGreenCtxStreamCreate(to: *mut usize, green: usize, flags: c_uint, priority: c_int) {
        put(to, green::create_stream(green, flags, priority)?)
    }

    cuGetExportTable(to: *mut *const c_void, name: *const [u8; 16]) { put(to, descriptor::table(name)?) }
    cuGetErrorName(code: Code, to: *mut *const c_char) { put_error_text(to, code.texts().map(|texts| texts.0)) }
    cuGetErrorString(code: Code, to: *mut *const c_char) { put_error_text(to, code.texts().map(|texts| texts.1)) }
    cuGetProcAddress(name: *const c_char, to: *mut *const c_void, version: c_int, flags: u64) {
        put_address(name, to, version, flags).map(drop)
    }
    cuGetProcAddress_v2(
        name: *const c_char, to: *mut *const c_void, version: c_int, flags: u64, status: *mut c_uint
    ) {
        // CU_GET_PROC_ADDRESS_SUCCESS, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND
        let found = put_address(name, to, version, flags);
        if !status.is_null() { put(status, c_uint::from(found.is_err()))?; }
        found
    }
}

/// # Safety
/// `to` is null or room for `bytes` bytes.
unsafe fn put_text(to: *mut c_char, bytes: c_int, text: &str) -> Outcome {
    let room = usize::try_from(bytes).map_err(|_| Code::INVALID_VALUE)?;
    if to.is_null() || room == 0 {
        return Err(Code::INVALID_VALUE);
    }
    let length = text.len().min(room - 1);
    // SAFETY: the caller's promise.
    unsafe {
        std::ptr::copy_nonoverlapping(text.as_ptr().cast(), to, length);
        *to.add(length) = 0;
    }
    Ok(())
}

/// # Safety
/// As of `put`.
unsafe fn put_error_text(to: *mut *const c_char, text: Option<&'static CStr>) -> Outcome {
    // SAFETY: the caller's promise.
    unsafe { put(to, text.map_or(std::ptr::null(), CStr::as_ptr)) }?;
    text.map(drop).ok_or(Code::INVALID_VALUE)
}

/// # Safety
/// `to` is null or room for the groups; `count` and `rest` are as for `put`, the latter may be null.
unsafe fn put_split(
    to: *mut Resource,
    count: *mut c_uint,
    rest: *mut Resource,
    split: &Split,
) -> Outcome {
    // SAFETY: the caller's promise.
    unsafe {
        if !to.is_null() {
            std::ptr::copy_nonoverlapping(split.groups.as_ptr(), to, split.groups.len());
        }
        if !rest.is_null() {
            rest.write(split.rest);
        }
        put(count, split.groups.len() as c_uint)
    }
}

/// The youngest variant of a call: programs ask for `cuMemAlloc` and mean `cuMemAlloc_v2`.
///
/// # Safety
/// `name` is null or text that ends in 0; `to` is as for `put`.
unsafe fn put_address(
    name: *const c_char,
    to: *mut *const c_void,
    version: c_int,
    flags: u64,
) -> Outcome {
    // Of the flags, those that choose a default stream a thread are not emulated.
    if name.is_null() || flags & !1 != 0 || version < 0 {
        return Err(Code::INVALID_VALUE);
    }
    // SAFETY: the caller's promise.
    let name = unsafe { CStr::from_ptr(name) }
        .to_str()
        .map_err(|_| Code::INVALID_VALUE)?;
    let state = super::state::DRIVER.lock();
    let found = ["_v2", ""].iter().find_map(|suffix| {
        EXPORTS.iter().find(|export| {
            let lacks = state.config.as_ref().is_some_and(|c| c.lacks(export.name));
            !lacks && export.name.strip_suffix(suffix) == Some(name)
        })
    });
    drop(state);
    let address = found.map_or(std::ptr::null(), |export| export.address);
    // SAFETY: the caller's promise.
    unsafe { put(to, address) }?;
    found.map(drop).ok_or(Code::NOT_FOUND)
}
