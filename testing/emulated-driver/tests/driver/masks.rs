use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::Mutex;

use cudarc::driver::sys::{self, CUdevResource, CUdevResourceType, CUgreenCtx, CUresult, CUstream};
use emulated_cuda::{Config, HungReset};

use crate::gpu::{Gpu, NON_BLOCKING, ok, parameters, start};

const fn config(driver: u32) -> Config {
    Config {
        devices: 1,
        tpcs: 4,
        sms_per_tpc: 2,
        spread: false,
        tpc_of_bit: Vec::new(),
        compute: (8, 7),
        driver,
        integrated: true,
        host_register: true,
        host_register_read_only: true,
        dma_buf_import: false,
        memory_bytes: 1 << 30,
        queue: 1024,
        masks: true,
        green_fine: true,
        // So that the test is the same on all architectures.
        mask_offset: Some(0x4ec),
        connections: None,
        lazy: None,
        hung_reset: HungReset::Waits,
        export_table: true,
        fragile: None,
        clock_file: None,
        descriptor_mask: None,
        launch_log: None,
        descriptor: None,
        descriptor_masks: true,
        hide: Vec::new(),
        call_faults: Vec::new(),
        launch_faults: Vec::new(),
    }
}

/// Writes words into the object of a stream, as one who knows where the mask is.
fn write(stream: CUstream, offset: usize, words: &[u32]) {
    // SAFETY: the handle points to a pointer to an object that is larger than that.
    unsafe {
        let object = stream.cast::<*mut u8>().read();
        let at = object.add(offset).cast::<u32>();
        for (place, word) in words.iter().enumerate() {
            at.add(place).write_volatile(*word);
        }
    }
}

/// The multiprocessors on which a launch of many blocks ran.
fn whereabouts(gpu: &Gpu, stream: CUstream) -> Vec<u32> {
    let (sms, count) = (gpu.alloc(4 * 64), gpu.numbers(&[0]));
    let function = gpu.function("trial_where");
    ok(gpu.try_launch(function, 64, 1, 0, stream, parameters![sms, count]));
    gpu.wait(stream);
    let mut seen = gpu.download(sms, 64);
    seen.sort_unstable();
    seen.dedup();
    seen
}

#[test]
fn a_mask_in_the_stream_switches_tpcs_off() {
    let gpu = start(&config(12060));
    let stream = gpu.stream();
    assert_eq!(whereabouts(&gpu, stream), [0, 1, 2, 3, 4, 5, 6, 7]);
    write(stream, 0x4ec, &[1, 0b0101, 0, 0, 0]);
    assert_eq!(whereabouts(&gpu, stream), [2, 3, 6, 7]);
    write(stream, 0x4ec, &[0, 0b0101, 0, 0, 0]);
    assert_eq!(
        whereabouts(&gpu, stream).len(),
        8,
        "a mask that is not enabled"
    );
    let other = gpu.stream();
    assert_eq!(whereabouts(&gpu, other).len(), 8, "another stream's");
}

#[test]
fn a_mask_elsewhere_does_nothing() {
    let gpu = start(&config(12060));
    let stream = gpu.stream();
    write(stream, 0x4fc, &[1, 0b0101, 0, 0, 0]);
    assert_eq!(whereabouts(&gpu, stream).len(), 8);
    drop(gpu);
    let gpu = start(&Config {
        masks: false,
        ..config(12060)
    });
    let stream = gpu.stream();
    write(stream, 0x4ec, &[1, 0b0101, 0, 0, 0]);
    assert_eq!(
        whereabouts(&gpu, stream).len(),
        8,
        "masks are not obeyed at all"
    );
}

/// What a tool writes into each descriptor: a word at a byte.
static WRITES: Mutex<Vec<(usize, u32)>> = Mutex::new(Vec::new());

unsafe extern "C" fn tool(_user: *mut c_void, domain: i32, event: i32, parameters: *const c_void) {
    assert_eq!((domain, event), (0xb, 1));
    let words = parameters.cast::<usize>();
    // SAFETY: parameters as the driver gives them: their bytes, and in the fifth word the descriptor.
    unsafe {
        assert!(words.cast::<u32>().read() >= 40);
        let descriptor = words.add(4).read() as *mut u8;
        for &(byte, word) in &*WRITES.lock().expect("nothing panics") {
            let at = descriptor.add(byte).cast::<u32>();
            at.write_volatile(at.read_volatile() | word);
        }
    }
}

/// Subscribes, once in this process.
fn subscribe() {
    type Subscribe = unsafe extern "C" fn(*mut u32, Tool, *mut c_void) -> u32;
    type Enable = unsafe extern "C" fn(u32, u32, i32, i32) -> u32;
    type Tool = unsafe extern "C" fn(*mut c_void, i32, i32, *const c_void);
    let name = *b"\x2c\x8e\x0a\xd8\x07\x10\xab\x4e\x90\xdd\x54\x71\x9f\xe5\xf7\x4b";
    let uuid = sys::CUuuid {
        bytes: name.map(|byte| byte as _),
    };
    let mut table: *const c_void = std::ptr::null();
    let mut handle = 0;
    // SAFETY: valid places, and functions of these types at these places of the table.
    unsafe {
        ok(sys::cuGetExportTable(&raw mut table, &raw const uuid));
        let at = |place| table.cast::<*const c_void>().add(place).read();
        let subscribe: Subscribe = std::mem::transmute(at(3));
        let enable: Enable = std::mem::transmute(at(6));
        assert_eq!(subscribe(&raw mut handle, tool, null_mut()), 0);
        assert_eq!(enable(1, handle, 0xb, 1), 0);
        // One tool a process.
        assert_ne!(subscribe(&raw mut handle, tool, null_mut()), 0);
    }
}

#[test]
fn a_mask_in_the_descriptor_of_a_launch_switches_tpcs_off() {
    let write = |writes: &[(usize, u32)]| {
        *WRITES.lock().expect("nothing panics") = writes.to_vec();
    };
    for (number, (compute, mask, valid)) in [
        ((8, 7), 84, None),
        ((9, 0), 304, Some(0)),
        ((12, 1), 280, Some(16)),
    ]
    .into_iter()
    .enumerate()
    {
        let gpu = start(&Config {
            compute,
            ..config(12060)
        });
        if number == 0 {
            subscribe();
        }
        let stream = gpu.stream();
        write(&[]);
        assert_eq!(whereabouts(&gpu, stream).len(), 8);
        write(&[(mask, 0b0101)]);
        let seen = whereabouts(&gpu, stream);
        match valid {
            None => assert_eq!(seen, [2, 3, 6, 7]),
            Some(byte) => {
                assert_eq!(seen.len(), 8, "a mask that does not count");
                write(&[(mask, 0b0101), (byte, 1 << 31)]);
                assert_eq!(whereabouts(&gpu, stream), [2, 3, 6, 7]);
            }
        }
        write(&[]);
        drop(gpu);
    }
    let gpu = start(&Config {
        export_table: false,
        ..config(12060)
    });
    let mut table: *const c_void = std::ptr::null();
    let uuid = sys::CUuuid { bytes: [0x2c; 16] };
    // SAFETY: valid places.
    let code = unsafe { sys::cuGetExportTable(&raw mut table, &raw const uuid) };
    assert_eq!(code, CUresult::CUDA_ERROR_NOT_FOUND);
    drop(gpu);
}

#[test]
fn a_driver_of_which_nobody_knows_where_masks_are_obeys_none() {
    let gpu = start(&Config {
        mask_offset: None,
        ..config(12_990)
    });
    let stream = gpu.stream();
    // Wherever one looks for it, all but the words of a stream's object that come before any mask.
    for word in (0x100..0x1000).step_by(4) {
        write(stream, word, &[1]);
    }
    assert_eq!(whereabouts(&gpu, stream).len(), 8);
}

#[test]
fn a_mask_counts_for_launches_after_it() {
    let gpu = start(&config(12060));
    let stream = gpu.stream();
    gpu.emulator.hold(stream as u64, emulated_cuda::After::Now);
    let (sms, count) = (gpu.numbers(&[9; 8]), gpu.numbers(&[0]));
    let function = gpu.function("trial_where");
    ok(gpu.try_launch(function, 8, 1, 0, stream, parameters![sms, count]));
    write(stream, 0x4ec, &[1, 0b0111, 0, 0, 0]);
    gpu.emulator.go_on(stream as u64);
    gpu.wait(stream);
    assert_eq!(gpu.download(sms, 8), [0, 1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(whereabouts(&gpu, stream), [6, 7]);
}

#[test]
fn bits_need_not_be_in_the_order_of_tpcs_and_tpcs_need_not_be_neighbours() {
    let gpu = start(&Config {
        tpc_of_bit: vec![Some(2), None, Some(0), Some(1), Some(3)],
        spread: true,
        ..config(12060)
    });
    let stream = gpu.stream();
    write(stream, 0x4ec, &[1, 0b00011, 0, 0, 0]);
    assert_eq!(whereabouts(&gpu, stream), [0, 1, 3, 4, 5, 7]);
}

#[test]
fn a_launch_that_no_tpc_may_run_hangs() {
    let gpu = start(&config(12060));
    let stream = gpu.stream();
    write(stream, 0x4ec, &[1, u32::MAX, 0, 0, 0]);
    let reverse = gpu.function("trial_reverse");
    let at = gpu.alloc(4);
    ok(gpu.try_launch(reverse, 1, 1, 4, stream, parameters![at, at]));
    gpu.emulator.release_hangs();
    // SAFETY: a stream of this context.
    let state = unsafe { sys::cuStreamQuery(stream) };
    assert_eq!(state, CUresult::CUDA_ERROR_NOT_READY);
}

/// The resources of a split into groups of at least `least`, and of what is left.
fn split(
    groups: u32,
    flags: u32,
    least: u32,
) -> Result<(Vec<CUdevResource>, CUdevResource), CUresult> {
    // SAFETY: plain data; room for as many groups as are asked for.
    unsafe {
        let mut whole: CUdevResource = std::mem::zeroed();
        let kind = CUdevResourceType::CU_DEV_RESOURCE_TYPE_SM;
        ok(sys::cuDeviceGetDevResource(0, &raw mut whole, kind));
        let mut found = vec![std::mem::zeroed::<CUdevResource>(); groups as usize];
        let mut rest: CUdevResource = std::mem::zeroed();
        let mut count = groups;
        let code = sys::cuDevSmResourceSplitByCount(
            found.as_mut_ptr(),
            &raw mut count,
            &raw const whole,
            &raw mut rest,
            flags,
            least,
        );
        if code != CUresult::CUDA_SUCCESS {
            return Err(code);
        }
        found.truncate(count as usize);
        Ok((found, rest))
    }
}

fn size(of: &CUdevResource) -> u32 {
    // SAFETY: of the kind that has a count.
    unsafe { of.__bindgen_anon_1.sm.smCount }
}

fn green(groups: &mut [CUdevResource]) -> (CUgreenCtx, CUstream) {
    let (mut description, mut context, mut stream) = (null_mut(), null_mut(), null_mut());
    // SAFETY: resources of this driver, room for handles.
    unsafe {
        ok(sys::cuDevResourceGenerateDesc(
            &raw mut description,
            groups.as_mut_ptr(),
            groups.len() as u32,
        ));
        ok(sys::cuGreenCtxCreate(&raw mut context, description, 0, 1));
        ok(sys::cuGreenCtxStreamCreate(
            &raw mut stream,
            context,
            NON_BLOCKING,
            0,
        ));
    }
    (context, stream)
}

#[test]
fn green_contexts_keep_their_streams_to_their_multiprocessors() {
    let gpu = start(&config(12060));
    let (mut groups, rest) = split(2, 0, 1).expect("splits");
    assert_eq!(groups.iter().map(size).collect::<Vec<_>>(), [4, 4]);
    assert_eq!(size(&rest), 0);
    let (_, second) = green(&mut groups[1..]);
    assert_eq!(whereabouts(&gpu, second), [4, 5, 6, 7]);
    let (context, both) = green(&mut groups);
    assert_eq!(
        whereabouts(&gpu, both).len(),
        8,
        "groups of a split can be joined"
    );
    let mut current = null_mut();
    // SAFETY: handles of this driver.
    unsafe {
        ok(sys::cuCtxFromGreenCtx(&raw mut current, context));
        ok(sys::cuCtxSetCurrent(current));
        ok(sys::cuGreenCtxDestroy(context));
        assert_eq!(
            sys::cuCtxFromGreenCtx(&raw mut current, context),
            CUresult::CUDA_ERROR_INVALID_HANDLE
        );
    }
}

#[test]
fn groups_are_as_fine_as_the_architecture_and_the_flag_allow() {
    let sizes = |config: &Config, flags, least| {
        let _gpu = start(config);
        split(16, flags, least).map(|(groups, rest)| {
            let groups: Vec<u32> = groups.iter().map(size).collect();
            (groups, size(&rest))
        })
    };
    let orin = config(12060);
    assert_eq!(sizes(&orin, 1, 1), Ok((vec![2; 4], 0)));
    assert_eq!(sizes(&orin, 0, 5), Ok((vec![6], 2)));
    let hopper = Config {
        tpcs: 9,
        compute: (9, 0),
        ..orin.clone()
    };
    assert_eq!(sizes(&hopper, 0, 1), Ok((vec![8, 8], 2)));
    let coarse = Config {
        green_fine: false,
        ..orin.clone()
    };
    assert_eq!(
        sizes(&coarse, 1, 1),
        Err(CUresult::CUDA_ERROR_INVALID_VALUE)
    );
    assert_eq!(sizes(&orin, 0, 99), Err(CUresult::CUDA_ERROR_INVALID_VALUE));
}
