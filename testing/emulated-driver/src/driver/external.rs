//! Memory of other drivers: imported by its file, and mapped for kernels.
//!
//! Drivers import DMA-BUFs on Jetson boards from Thor on only, by their manual. Any file that can be mapped stands for one here.
use std::os::fd::{AsFd, FromRawFd, OwnedFd};

use punctual_ptx::Region;

use super::context;
use super::memory::{Kind, Mapping, Range};
use crate::code::{Code, Outcome};

/// `CU_EXTERNAL_MEMORY_HANDLE_TYPE_DMABUF_FD`
const DMA_BUF: u32 = 9;

/// `CUDA_EXTERNAL_MEMORY_HANDLE_DESC`
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Description {
    kind: u32,
    handle: Handle,
    bytes: u64,
    flags: u32,
    reserved: [u32; 16],
}

/// A union with two pointers.
#[repr(C, align(8))]
#[derive(Clone, Copy)]
struct Handle {
    file: i32,
    _others: [u32; 3],
}

/// `CUDA_EXTERNAL_MEMORY_BUFFER_DESC`
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Part {
    offset: u64,
    bytes: u64,
    flags: u32,
    reserved: [u32; 16],
}

pub(crate) struct External {
    file: OwnedFd,
    bytes: u64,
}

/// Takes the file over, if it succeeds.
pub(crate) fn import(description: Description) -> Outcome<usize> {
    let Description {
        kind,
        handle,
        bytes,
        flags,
        reserved,
    } = description;
    context::with(|device| {
        if kind != DMA_BUF || !device.config.dma_buf_import {
            return Err(Code::NOT_SUPPORTED);
        }
        let has_rest = flags != 0 || reserved != [0; 16];
        if has_rest || bytes == 0 || file_bytes(handle.file)? < bytes {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: open, as it has a size, and the driver's from now on, by the manual of the call.
        let file = unsafe { OwnedFd::from_raw_fd(handle.file) };
        let handle = device.handle();
        device.external.insert(handle, External { file, bytes });
        Ok(handle)
    })
}

/// The size of a file, by whose end DMA-BUFs are asked for it.
fn file_bytes(file: i32) -> Outcome<u64> {
    if file < 0 {
        return Err(Code::INVALID_VALUE);
    }
    // SAFETY: any number may be asked about; a closed one is an error.
    let end = unsafe { libc::lseek(file, 0, libc::SEEK_END) };
    u64::try_from(end).map_err(|_| Code::INVALID_VALUE)
}

pub(crate) fn map(external: usize, part: Part) -> Outcome<u64> {
    let Part {
        offset,
        bytes,
        flags,
        reserved,
    } = part;
    context::with(|device| {
        let external = device.external.get(&external).ok_or(Code::INVALID_HANDLE)?;
        let end = offset.checked_add(bytes).ok_or(Code::INVALID_VALUE)?;
        if flags != 0 || reserved != [0; 16] || offset != 0 || bytes == 0 || end > external.bytes {
            return Err(Code::INVALID_VALUE);
        }
        let mapping =
            Mapping::of_file(external.file.as_fd(), bytes as usize).ok_or(Code::OUT_OF_MEMORY)?;
        let address = mapping.address() as usize;
        device
            .memory
            .space
            .add(Region::written(address as u64, bytes));
        let range = Range {
            bytes: bytes as usize,
            kind: Kind::External,
            _mapping: Some(mapping),
        };
        device.memory.ranges.insert(address, range);
        Ok(address as u64)
    })
}

/// What was mapped of it stays until it is freed.
pub(crate) fn destroy(external: usize) -> Outcome {
    context::with(|device| {
        let known = device.external.remove(&external);
        known.map(drop).ok_or(Code::INVALID_HANDLE)
    })
}
