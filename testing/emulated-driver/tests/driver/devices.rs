use std::ffi::CStr;
use std::ptr::null_mut;

use cudarc::driver::sys::{self, CUdevice_attribute as A, CUresult};
use emulated_cuda::{Config, Emulator};

use crate::gpu::{Gpu, ok, start};

fn attribute(which: A) -> i32 {
    let mut value = -1;
    // SAFETY: room for the value.
    ok(unsafe { sys::cuDeviceGetAttribute(&raw mut value, which, 0) });
    value
}

fn name() -> String {
    let mut name = [0; 64];
    // SAFETY: room for 64 bytes.
    ok(unsafe { sys::cuDeviceGetName(name.as_mut_ptr(), 64, 0) });
    // SAFETY: the call ended it with a zero.
    unsafe { CStr::from_ptr(name.as_ptr()) }
        .to_string_lossy()
        .into_owned()
}

#[test]
fn the_machine_is_the_configured_one() {
    let _gpu = start(&Config {
        tpcs: 66,
        compute: (9, 0),
        driver: 12060,
        integrated: false,
        memory_bytes: 5 << 30,
        ..Config::default()
    });
    assert_eq!(attribute(A::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT), 132);
    assert_eq!(
        attribute(A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR),
        9
    );
    assert_eq!(
        attribute(A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR),
        0
    );
    assert_eq!(attribute(A::CU_DEVICE_ATTRIBUTE_INTEGRATED), 0);
    assert_eq!(attribute(A::CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY), 1);
    assert_eq!(
        attribute(A::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN),
        227 << 10
    );
    assert!(name().starts_with("Emulated"));
    let (mut version, mut bytes) = (0, 0);
    // SAFETY: room for both.
    unsafe {
        ok(sys::cuDriverGetVersion(&raw mut version));
        ok(sys::cuDeviceTotalMem_v2(&raw mut bytes, 0));
    }
    assert_eq!((version, bytes), (12060, 5 << 30));
}

#[test]
fn nothing_works_before_it_was_initialised() {
    let _emulator = Emulator::start(&Config::default()).expect("starts");
    let (mut count, mut address) = (0, 0);
    // SAFETY: room for the results.
    unsafe {
        let before = CUresult::CUDA_ERROR_NOT_INITIALIZED;
        assert_eq!(sys::cuDeviceGetCount(&raw mut count), before);
        assert_eq!(sys::cuMemAlloc_v2(&raw mut address, 16), before);
        ok(sys::cuDriverGetVersion(&raw mut count));
        ok(sys::cuInit(0));
        ok(sys::cuDeviceGetCount(&raw mut count));
    }
    assert_eq!(count, 1);
}

#[test]
fn a_machine_may_have_no_gpu() {
    let none = Config {
        devices: 0,
        ..Config::default()
    };
    let _emulator = Emulator::start(&none).expect("starts");
    // SAFETY: no pointers.
    let code = unsafe { sys::cuInit(0) };
    assert_eq!(code, CUresult::CUDA_ERROR_NO_DEVICE);
}

#[test]
fn a_thread_has_the_context_that_it_made_current() {
    let _gpu = Gpu::new();
    let (mut context, mut popped, mut address) = (null_mut(), null_mut(), 0);
    // SAFETY: room for the results; handles of this driver.
    unsafe {
        ok(sys::cuCtxGetCurrent(&raw mut context));
        assert!(!context.is_null());
        ok(sys::cuCtxSetCurrent(null_mut()));
        assert_eq!(
            sys::cuMemAlloc_v2(&raw mut address, 16),
            CUresult::CUDA_ERROR_INVALID_CONTEXT
        );
        ok(sys::cuCtxPushCurrent_v2(context));
        ok(sys::cuMemAlloc_v2(&raw mut address, 16));
        ok(sys::cuCtxPopCurrent_v2(&raw mut popped));
        assert_eq!(popped, context);
        assert_eq!(
            sys::cuCtxPopCurrent_v2(&raw mut popped),
            CUresult::CUDA_ERROR_INVALID_CONTEXT
        );
        assert_eq!(
            sys::cuCtxSetCurrent(0x1234 as _),
            CUresult::CUDA_ERROR_INVALID_CONTEXT
        );
    }
}

#[test]
fn a_context_that_nobody_retains_is_gone_with_all_in_it() {
    let gpu = Gpu::new();
    let address = gpu.alloc(100);
    assert_eq!(gpu.emulator.memory().device.allocations, 1);
    let mut context = null_mut();
    // SAFETY: handles of this driver; the address is only asked about.
    unsafe {
        ok(sys::cuDevicePrimaryCtxRelease_v2(0));
        assert_eq!(gpu.emulator.memory().device.allocations, 0);
        assert_eq!(
            sys::cuMemFree_v2(address),
            CUresult::CUDA_ERROR_CONTEXT_IS_DESTROYED
        );
        assert_eq!(
            sys::cuDevicePrimaryCtxRelease_v2(0),
            CUresult::CUDA_ERROR_INVALID_CONTEXT
        );
        ok(sys::cuDevicePrimaryCtxRetain(&raw mut context, 0));
        assert_eq!(
            sys::cuMemFree_v2(address),
            CUresult::CUDA_ERROR_INVALID_VALUE
        );
    }
}

#[test]
fn all_that_is_listed_is_exported_and_nothing_else_is_there() {
    let _gpu = Gpu::new();
    // SAFETY: names are only looked up.
    let has = |name: &str| unsafe {
        sys::culib()
            .get::<*const ()>(format!("{name}\0").as_bytes())
            .is_ok()
    };
    let missing: Vec<_> = emulated_cuda::exported_calls()
        .filter(|name| !has(name))
        .collect();
    assert_eq!(missing, Vec::<&str>::new());
    assert!(!has("cuMemAllocAsync") && !has("cuGraphLaunch") && !has("_uInit"));
}

#[test]
fn an_address_is_found_by_the_plain_name_of_a_call() {
    let _gpu = Gpu::new();
    let find = |name: &CStr| {
        let mut address = null_mut();
        let mut status = sys::CUdriverProcAddressQueryResult::CU_GET_PROC_ADDRESS_SUCCESS;
        // SAFETY: a text that ends in 0, room for the results.
        let code = unsafe {
            sys::cuGetProcAddress_v2(name.as_ptr(), &raw mut address, 12060, 0, &raw mut status)
        };
        (code, address)
    };
    // SAFETY: the name is only looked up.
    let direct = unsafe {
        *sys::culib()
            .get::<*mut std::ffi::c_void>(b"cuMemAlloc_v2\0")
            .expect("there")
    };
    assert_eq!(find(c"cuMemAlloc"), (CUresult::CUDA_SUCCESS, direct));
    assert_eq!(
        find(c"cuGraphLaunch"),
        (CUresult::CUDA_ERROR_NOT_FOUND, null_mut())
    );
}

#[test]
fn errors_have_names() {
    let _gpu = Gpu::new();
    let mut text = std::ptr::null();
    // SAFETY: room for the address of a text.
    let name = unsafe {
        ok(sys::cuGetErrorName(
            CUresult::CUDA_ERROR_ILLEGAL_ADDRESS,
            &raw mut text,
        ));
        CStr::from_ptr(text)
    };
    assert_eq!(name, c"CUDA_ERROR_ILLEGAL_ADDRESS");
}
