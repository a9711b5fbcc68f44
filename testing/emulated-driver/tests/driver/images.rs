//! The images that are in the tree, read as a driver reads them.
use std::ffi::CString;
use std::ptr::null_mut;
use std::sync::LazyLock;

use cudarc::driver::sys::{self, CUfunction, CUfunction_attribute as A};
use emulated_cuda::Config;
use punctual_cuda_kernels::images::{Archive, archives};
use punctual_cuda_kernels::table::{KERNELS, Kernel, Module};
use serde_json::Value;

use crate::gpu::{ok, start};

fn attribute(function: CUfunction, which: A) -> u32 {
    let mut value = 0;
    // SAFETY: a function of this context, room for the value.
    ok(unsafe { sys::cuFuncGetAttribute(&raw mut value, which, function) });
    value as u32
}

fn blocks(function: CUfunction, kernel: &Kernel) -> u32 {
    let mut blocks = 0;
    // SAFETY: as above.
    ok(unsafe {
        sys::cuOccupancyMaxActiveBlocksPerMultiprocessor(
            &raw mut blocks,
            function,
            kernel.block as i32,
            kernel.shared_bytes as usize,
        )
    });
    blocks as u32
}

/// Blocks of a kernel that `kernels/cuda/gate.py` says a multiprocessor has room for.
fn blocks_of_the_gate(archive: &Archive, kernel: &Kernel) -> u64 {
    static FIGURES: LazyLock<Value> = LazyLock::new(|| {
        let text = include_str!("../../../../kernels/cuda/figures.json");
        serde_json::from_str(text).expect("JSON")
    });
    let modules = FIGURES["modules"].as_array().expect("a list");
    let here = |of: &&Value| of["image"] == archive.name() && of["module"] == kernel.module.name();
    let of = modules.iter().find(here).expect("figures of the module");
    of["kernels"][kernel.name]["blocks"]
        .as_u64()
        .expect("a number")
}

fn check(archive: &Archive, module: Module) {
    let image = archive.module(module).expect("a module");
    let mut loaded = null_mut();
    // SAFETY: a cubin or a text, room for the handle.
    ok(unsafe { sys::cuModuleLoadData(&raw mut loaded, image.code.as_ptr().cast()) });
    for kernel in KERNELS.iter().filter(|kernel| kernel.module == module) {
        let (name, mut function) = (CString::new(kernel.name).expect("no zeros"), null_mut());
        // SAFETY: a text that ends in 0, room for the handle.
        ok(unsafe { sys::cuModuleGetFunction(&raw mut function, loaded, name.as_ptr()) });
        // The contract read from the image and the contract read from the driver must be the same.
        let Some(contract) = archive.contract(kernel).expect("a contract") else {
            assert!(image.is_ptx, "{}", kernel.name);
            continue;
        };
        assert_eq!(
            attribute(function, A::CU_FUNC_ATTRIBUTE_NUM_REGS),
            contract.registers
        );
        let shared = attribute(function, A::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);
        assert_eq!(
            shared + kernel.shared_bytes,
            contract.shared_bytes,
            "{}",
            kernel.name
        );
        let blocks = u64::from(blocks(function, kernel));
        assert!(blocks > 0, "{}", kernel.name);
        assert_eq!(
            blocks,
            blocks_of_the_gate(archive, kernel),
            "{} of {}",
            kernel.name,
            archive.name()
        );
    }
}

#[test]
fn every_kernel_of_every_image_is_found_and_has_its_contract() {
    for archive in archives() {
        let (major, minor) = archive.capability();
        let _gpu = start(&Config {
            compute: (major, minor),
            // A driver of CUDA 12 loads what a compiler of CUDA 11 made, too.
            driver: if archive.cuda() == 13 { 13000 } else { 12060 },
            ..Config::default()
        });
        for module in Module::ALL
            .into_iter()
            .filter(|module| module.runs_on(major))
        {
            check(archive, module);
        }
    }
}
