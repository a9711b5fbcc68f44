use std::ffi::c_void;
use std::ptr::null_mut;

use cudarc::driver::sys::{self, CUresult};
use emulated_cuda::{After, Config};

use crate::gpu::{Gpu, ok, start};

#[test]
fn fresh_memory_holds_no_zeros() {
    let gpu = Gpu::new();
    let at = gpu.alloc(64);
    assert_eq!(gpu.download(at, 16), [u32::MAX; 16]);
}

#[test]
fn copies_and_fills_arrive() {
    let gpu = Gpu::new();
    let (a, b) = (gpu.numbers(&[1, 2, 3, 4]), gpu.numbers(&[0; 8]));
    let stream = gpu.stream();
    // SAFETY: within the allocations.
    unsafe {
        ok(sys::cuMemcpyDtoDAsync_v2(b, a, 16, stream));
        ok(sys::cuMemsetD32Async(b + 16, 7, 2, stream));
        ok(sys::cuMemsetD8Async(b + 24, 0xAB, 4, stream));
        ok(sys::cuStreamWriteValue32_v2(stream, b + 28, 9, 0));
    }
    gpu.wait(stream);
    assert_eq!(gpu.download(b, 8), [1, 2, 3, 4, 7, 7, 0xABAB_ABAB, 9]);
}

#[test]
fn a_copy_outside_an_allocation_breaks_the_context() {
    for past in [1usize, 100] {
        let gpu = Gpu::new();
        let at = gpu.numbers(&[1, 2, 3, 4]);
        let bytes = vec![0u8; 16 + past];
        // SAFETY: the source is large enough; the destination is what the driver is to check.
        let code = unsafe { sys::cuMemcpyHtoD_v2(at, bytes.as_ptr().cast(), 16 + past) };
        assert_eq!(code, CUresult::CUDA_ERROR_ILLEGAL_ADDRESS);
        let mut other = 0;
        // SAFETY: room for an address.
        let after = unsafe { sys::cuMemAlloc_v2(&raw mut other, 16) };
        assert_eq!(after, CUresult::CUDA_ERROR_ILLEGAL_ADDRESS);
        assert_eq!(gpu.emulator.broken(), Some(700));
    }
}

#[test]
fn memory_is_not_endless() {
    let gpu = start(&Config {
        memory_bytes: 1 << 20,
        ..Config::default()
    });
    let at = gpu.alloc(1 << 19);
    let (mut more, mut free, mut total) = (0, 0, 0);
    // SAFETY: room for the results; an address of this driver.
    unsafe {
        let full = CUresult::CUDA_ERROR_OUT_OF_MEMORY;
        assert_eq!(sys::cuMemAlloc_v2(&raw mut more, (1 << 19) + 1), full);
        ok(sys::cuMemGetInfo_v2(&raw mut free, &raw mut total));
        assert_eq!((free, total), (1 << 19, 1 << 20));
        ok(sys::cuMemFree_v2(at));
        ok(sys::cuMemAlloc_v2(&raw mut more, 1 << 20));
        assert_eq!(
            sys::cuMemFree_v2(more + 1),
            CUresult::CUDA_ERROR_INVALID_VALUE
        );
    }
    assert_eq!(gpu.emulator.memory().device.bytes, 1 << 20);
    assert_eq!(gpu.emulator.calls("cuMemAlloc_v2"), 3);
}

/// Page-locked memory with one word in it.
fn locked_word(value: u32) -> *mut u32 {
    let mut at: *mut c_void = null_mut();
    // SAFETY: room for an address, then for a word.
    unsafe {
        ok(sys::cuMemHostAlloc(
            &raw mut at,
            4,
            sys::CU_MEMHOSTALLOC_DEVICEMAP,
        ));
        at.cast::<u32>().write(value);
    }
    at.cast()
}

#[test]
fn a_copy_from_page_locked_memory_is_read_when_its_turn_comes_and_from_other_memory_at_once() {
    let gpu = Gpu::new();
    let to = gpu.numbers(&[0, 0]);
    let stream = gpu.stream();
    gpu.emulator.hold(stream as u64, After::Now);
    let locked = locked_word(1);
    let mut plain = Box::new(1u32);
    // SAFETY: a word each; nothing else uses the memory at the same time.
    unsafe {
        ok(sys::cuMemcpyHtoDAsync_v2(to, locked.cast(), 4, stream));
        ok(sys::cuMemcpyHtoDAsync_v2(
            to + 4,
            (&raw const *plain).cast(),
            4,
            stream,
        ));
        locked.write(2);
    }
    *plain = 2;
    gpu.emulator.go_on(stream as u64);
    gpu.wait(stream);
    assert_eq!(
        gpu.download(to, 2),
        [2, 1],
        "the plain one was {plain} too late"
    );
}

#[test]
fn page_locked_memory_is_the_device_s_too() {
    let gpu = Gpu::new();
    let word = locked_word(5);
    let mut at = 0;
    // SAFETY: room for an address; page-locked memory of this driver.
    unsafe {
        ok(sys::cuMemHostGetDevicePointer_v2(
            &raw mut at,
            word.cast(),
            0,
        ))
    };
    assert_eq!(gpu.download(at, 1), [5]);
    let stream = gpu.stream();
    // SAFETY: a word.
    unsafe { ok(sys::cuStreamWriteValue32_v2(stream, at, 6, 0)) };
    gpu.wait(stream);
    // SAFETY: the stream has ended its work.
    assert_eq!(unsafe { word.read_volatile() }, 6);
    // SAFETY: from `cuMemHostAlloc`.
    unsafe { ok(sys::cuMemFreeHost(word.cast())) };
    assert_eq!(gpu.emulator.memory().host.allocations, 0);
}

#[test]
fn memory_of_the_program_is_registered_once_and_only_where_that_works() {
    let mut memory = vec![3u32; 1024];
    let at: *mut c_void = memory.as_mut_ptr().cast();
    {
        let gpu = Gpu::new();
        let mut known = 0;
        // SAFETY: memory that outlives its registration.
        unsafe {
            ok(sys::cuMemHostRegister_v2(
                at,
                4096,
                sys::CU_MEMHOSTREGISTER_DEVICEMAP,
            ));
            let twice = sys::cuMemHostRegister_v2(at.byte_add(2048), 64, 0);
            assert_eq!(twice, CUresult::CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
            ok(sys::cuMemHostGetDevicePointer_v2(
                &raw mut known,
                at.byte_add(40),
                0,
            ));
            assert_eq!(gpu.download(known, 1), [3]);
            ok(sys::cuMemHostUnregister(at));
            let again = sys::cuMemHostUnregister(at);
            assert_eq!(again, CUresult::CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
        }
    }
    let _gpu = start(&Config {
        host_register: false,
        ..Config::default()
    });
    // SAFETY: nothing is registered.
    let refused = unsafe { sys::cuMemHostRegister_v2(at, 4096, 0) };
    assert_eq!(refused, CUresult::CUDA_ERROR_NOT_SUPPORTED);
}
