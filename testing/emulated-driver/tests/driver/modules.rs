use std::ffi::CStr;
use std::ptr::null_mut;

use cudarc::driver::sys::{self, CUfunction_attribute as A, CUmodule, CUresult};
use emulated_cuda::Config;
use punctual_cuda_kernels::Module;
use punctual_cuda_kernels::images::{Code, archives};

use crate::gpu::{Gpu, ok, parameters, start};

fn load(image: &CStr) -> Result<CUmodule, CUresult> {
    let mut module = null_mut();
    // SAFETY: a text that ends in 0, room for a handle.
    match unsafe { sys::cuModuleLoadData(&raw mut module, image.as_ptr().cast()) } {
        CUresult::CUDA_SUCCESS => Ok(module),
        code => Err(code),
    }
}

fn find(module: CUmodule, name: &CStr) -> Result<sys::CUfunction, CUresult> {
    let mut function = null_mut();
    // SAFETY: a text that ends in 0, room for a handle.
    match unsafe { sys::cuModuleGetFunction(&raw mut function, module, name.as_ptr()) } {
        CUresult::CUDA_SUCCESS => Ok(function),
        code => Err(code),
    }
}

const PTX: &CStr =
    c".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry trial_reverse(\n)\n{ ret; }\n\
                     .visible .entry another()\n{ ret; }\n";

#[test]
fn a_module_has_the_kernels_of_its_image_and_no_others() {
    let _gpu = Gpu::new();
    let module = load(PTX).expect("loads");
    assert!(find(module, c"trial_reverse").is_ok());
    let missing = Err(CUresult::CUDA_ERROR_NOT_FOUND);
    assert_eq!(find(module, c"trial_scale"), missing, "not in the image");
    assert!(find(module, c"another").is_ok());
    // SAFETY: a module of this context.
    ok(unsafe { sys::cuModuleUnload(module) });
    assert_eq!(
        find(module, c"trial_reverse"),
        Err(CUresult::CUDA_ERROR_INVALID_HANDLE)
    );
}

#[test]
fn an_image_that_a_driver_would_not_take_is_refused() {
    {
        let _gpu = Gpu::new();
        assert_eq!(
            load(c"not an image"),
            Err(CUresult::CUDA_ERROR_INVALID_IMAGE)
        );
        assert_eq!(load(c""), Err(CUresult::CUDA_ERROR_INVALID_IMAGE));
    }
    {
        let _gpu = start(&Config {
            driver: 12060,
            compute: (7, 2),
            ..Config::default()
        });
        assert_eq!(load(PTX), Err(CUresult::CUDA_ERROR_INVALID_PTX));
    }
}

/// The smallest cubin of an architecture that is in the tree.
fn cubin(architecture: &str) -> Code {
    let archive = archives().iter().find(|a| a.name() == architecture);
    let image = archive.expect("in the tree").module(Module::Probe);
    image.expect("there").code
}

#[test]
fn a_cubin_for_another_gpu_is_refused() {
    let _gpu = Gpu::new();
    let load = |cubin: &[u8]| {
        let mut module = null_mut();
        // SAFETY: a cubin, room for a handle.
        unsafe { sys::cuModuleLoadData(&raw mut module, cubin.as_ptr().cast()) }
    };
    ok(load(&cubin("sm_87")));
    for other in ["sm_80", "sm_89", "sm_90"] {
        assert_eq!(
            load(&cubin(other)),
            CUresult::CUDA_ERROR_NO_BINARY_FOR_GPU,
            "{other}"
        );
    }
}

#[test]
fn a_cubin_whose_ptx_nobody_knows_is_refused() {
    let _gpu = Gpu::new();
    let mut changed = cubin("sm_87").to_vec();
    let last = changed.len() - 1;
    changed[last] ^= 1;
    let mut module = null_mut();
    // SAFETY: a cubin, room for a handle.
    let code = unsafe { sys::cuModuleLoadData(&raw mut module, changed.as_ptr().cast()) };
    assert_eq!(code, CUresult::CUDA_ERROR_NO_BINARY_FOR_GPU);
}

#[test]
fn more_shared_memory_is_had_by_asking_for_it() {
    let gpu = Gpu::new();
    let reverse = gpu.function("trial_reverse");
    let (at, to) = (gpu.numbers(&[1; 32]), gpu.alloc(128));
    let stream = gpu.stream();
    let launch = || gpu.try_launch(reverse, 1, 32, 60 << 10, stream, parameters![to, at]);
    assert_eq!(launch(), CUresult::CUDA_ERROR_INVALID_VALUE);
    let shared = A::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
    let (mut bytes, mut threads, mut blocks) = (0, 0, 0);
    // SAFETY: a function of this context, room for the results.
    unsafe {
        let too_much = sys::cuFuncSetAttribute(reverse, shared, 164 << 10);
        assert_eq!(too_much, CUresult::CUDA_ERROR_INVALID_VALUE);
        ok(sys::cuFuncSetAttribute(reverse, shared, 60 << 10));
        ok(sys::cuFuncGetAttribute(&raw mut bytes, shared, reverse));
        let most = A::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK;
        ok(sys::cuFuncGetAttribute(&raw mut threads, most, reverse));
        ok(sys::cuOccupancyMaxActiveBlocksPerMultiprocessor(
            &raw mut blocks,
            reverse,
            256,
            60 << 10,
        ));
    }
    assert_eq!((bytes, threads, blocks), (60 << 10, 1024, 2));
    ok(launch());
    gpu.wait(stream);
}
