//! Partitions on the emulated driver: calibration of what its masks and groups really do, and streams
//! that keep to what was granted.

use std::ffi::{OsString, c_void};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use emulated_cuda::{Config, Emulator};
use libsmctrl_sys::{CudaVersion, Soc};
use punctual_cuda_kernels::params::{Guard, Whereabouts};
use punctual_cuda_kernels::{Module as Unit, images};
use punctual_device_cuda::driver::{
    Context, Driver, Function, Gpu, MappedMemory, Module, Shape, Stream,
};
use punctual_device_cuda::host::Host;
use punctual_device_cuda::partition::offer::{self, How};
use punctual_device_cuda::partition::record::{self, Outcome};
use punctual_device_cuda::partition::{Mechanism, Offer, Refusal, SmSet, Trial, UnitMap};

fn trial(mechanism: Mechanism, config: &Config) -> Trial {
    Trial {
        mechanism,
        device: 0,
        version: CudaVersion::from_driver(config.driver as i32).expect("a version"),
        compute_capability: config.compute,
        libsmctrl: OsString::from("libsmctrl-that-is-not-there.so"),
        place: None,
    }
}

fn tried(mechanism: Mechanism, config: &Config) -> Result<UnitMap, Refusal> {
    let _emulator = Emulator::start(config).expect("the emulated driver");
    trial(mechanism, config).run()
}

fn sms(map: &UnitMap) -> Vec<(u8, String)> {
    let units = map.units().iter();
    units.map(|unit| (unit.bit, unit.sms.to_string())).collect()
}

#[test]
fn the_mask_of_a_stream_is_found_where_the_table_has_it() {
    // Versions of one library each: what a library exports cannot change within a process.
    for driver in [12050, 12060, 12070, 12080, 13000, 13030] {
        if cfg!(target_arch = "aarch64") && ![12050, 12060, 13000].contains(&driver) {
            continue;
        }
        let config = Config {
            driver,
            compute: if driver == 13000 { (11, 0) } else { (8, 7) },
            tpcs: 3,
            ..Config::default()
        };
        let map = tried(Mechanism::StreamMask, &config).expect("the table is right");
        let expected = [(0, "0-1"), (1, "2-3"), (2, "4-5")];
        assert_eq!(sms(&map), expected.map(|(bit, sms)| (bit, sms.to_owned())));
    }
}

#[test]
fn the_map_follows_what_the_masks_do_and_not_what_one_would_think() {
    let config = Config {
        tpcs: 3,
        spread: true,
        tpc_of_bit: vec![Some(2), None, Some(0), Some(1)],
        ..Config::default()
    };
    let map = tried(Mechanism::StreamMask, &config).expect("the table is right");
    let expected = [(0, "2, 5"), (2, "0, 3"), (3, "1, 4")];
    assert_eq!(sms(&map), expected.map(|(bit, sms)| (bit, sms.to_owned())));
}

#[test]
fn a_table_that_is_wrong_about_the_driver_is_found_out() {
    let elsewhere = Config {
        mask_offset: Some(0x100),
        ..Config::default()
    };
    let ignored = Config {
        masks: false,
        ..Config::default()
    };
    for config in [elsewhere, ignored] {
        let refused = tried(Mechanism::StreamMask, &config);
        assert_eq!(refused, Err(Refusal::NoEffect));
    }
    // One word off: the flag lies on the first bits, the first bits on TPCs 32 to 63.
    let offset = libsmctrl_sys::stream_mask::find(
        libsmctrl_sys::DriverKey::here(CudaVersion::new(12, 6), Some(Soc::Orin))
            .expect("a processor"),
    )
    .expect("a known driver")
    .offset;
    let near = Config {
        mask_offset: Some(offset as u32 - 4),
        ..Config::default()
    };
    assert!(tried(Mechanism::StreamMask, &near).is_err());
}

#[test]
fn a_driver_that_the_table_does_not_know_is_not_tried() {
    let config = Config {
        driver: 12090,
        ..Config::default()
    };
    assert_eq!(
        tried(Mechanism::StreamMask, &config),
        Err(Refusal::UnknownDriver {
            driver: format!("CUDA 12.9 on {} (Orin)", std::env::consts::ARCH)
        })
    );
}

/// The compute capabilities of Orin, Hopper and Spark, whose launches have descriptors of other versions.
#[test]
fn masks_of_launches_divide_devices_whose_stream_masks_are_not_known() {
    for compute in [(8, 7), (9, 0), (12, 1)] {
        let config = Config {
            masks: false,
            compute,
            tpcs: 3,
            tpc_of_bit: vec![Some(2), None, Some(0), Some(1)],
            ..Config::default()
        };
        let map = tried(Mechanism::LaunchMask, &config).expect("the descriptor is known");
        let expected = [(0, "4-5"), (2, "0-1"), (3, "2-3")];
        assert_eq!(
            sms(&map),
            expected.map(|(bit, sms)| (bit, sms.to_owned())),
            "{compute:?}"
        );
    }
    // Blackwell's other version.
    let config = Config {
        masks: false,
        compute: (10, 0),
        descriptor: Some(0x41),
        tpcs: 2,
        ..Config::default()
    };
    let map = tried(Mechanism::LaunchMask, &config).expect("the descriptor is known");
    assert_eq!(map.count(), 2);
}

#[test]
fn what_masks_of_launches_lack_is_refused_by_name() {
    let refused = |config: Config| match tried(Mechanism::LaunchMask, &config) {
        Err(Refusal::NotMasked { said } | Refusal::NoCallback { said }) => said,
        other => panic!("{other:?}"),
    };
    let said = refused(Config {
        descriptor: Some(0x40),
        ..Config::default()
    });
    assert!(
        said.contains("unknown version") && said.contains("byte 72: 0x40"),
        "{said}"
    );
    let said = refused(Config {
        compute: (12, 1),
        descriptor: Some(0x51),
        ..Config::default()
    });
    assert!(said.contains("byte 58: 0x51"), "{said}");
    let said = refused(Config {
        export_table: false,
        ..Config::default()
    });
    assert!(said.contains("no table of callbacks 2c8e0ad8"), "{said}");
}

#[test]
fn masks_of_launches_that_are_ignored_are_found_out() {
    let config = Config {
        descriptor_masks: false,
        ..Config::default()
    };
    let refused = tried(Mechanism::LaunchMask, &config);
    assert_eq!(refused, Err(Refusal::NoEffect));
    // Descriptors of two words have no bits for TPCs from 64 on.
    let large = Config {
        tpcs: 66,
        ..Config::default()
    };
    let refused = tried(Mechanism::LaunchMask, &large);
    assert!(
        matches!(refused, Err(Refusal::Ungoverned { .. })),
        "{refused:?}"
    );
}

#[test]
fn groups_of_green_contexts_are_as_fine_as_the_driver_makes_them() {
    let fine = Config {
        tpcs: 4,
        ..Config::default()
    };
    let map = tried(Mechanism::GreenContexts, &fine).expect("groups");
    assert_eq!((map.count(), map.granularity()), (4, 2));
    let coarse = Config {
        tpcs: 5,
        green_fine: false,
        ..Config::default()
    };
    // 10 multiprocessors are two groups of four; the rest belongs to none.
    let map = tried(Mechanism::GreenContexts, &coarse).expect("groups");
    let expected = [(0, "0-3"), (1, "4-7")];
    assert_eq!(sms(&map), expected.map(|(bit, sms)| (bit, sms.to_owned())));
    let small = Config { tpcs: 2, ..coarse };
    assert_eq!(
        tried(Mechanism::GreenContexts, &small),
        Err(Refusal::Indivisible { groups: 1 })
    );
    let one = Config {
        tpcs: 1,
        ..Config::default()
    };
    for mechanism in [Mechanism::StreamMask, Mechanism::GreenContexts] {
        let refused = tried(mechanism, &one);
        assert_eq!(refused, Err(Refusal::Indivisible { groups: 1 }));
    }
}

#[test]
fn a_call_that_fails_is_the_reason() {
    for (mechanism, name) in [
        (Mechanism::StreamMask, "cuLaunchKernel"),
        (Mechanism::StreamMask, "cuStreamQuery"),
        (Mechanism::GreenContexts, "cuGreenCtxCreate"),
        (Mechanism::GreenContexts, "cuGreenCtxStreamCreate"),
    ] {
        let config = Config {
            call_faults: vec![emulated_cuda::CallFault {
                name: name.to_owned(),
                nth: 3,
                code: 801,
            }],
            ..Config::default()
        };
        let refused = tried(mechanism, &config).expect_err("a call failed");
        assert!(
            matches!(&refused, Refusal::CallFailed { call, .. } if call == name),
            "{refused}"
        );
    }
}

/// A folder of its own for each test, empty.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&folder);
    folder
}

/// How a device is looked at with records only.
fn records_only(folder: &Path) -> How {
    How {
        host: Host::at(folder),
        ..How::usual(None, Some(folder.to_owned())).expect("no mechanisms are named")
    }
}

fn gpu() -> Gpu {
    let driver = Driver::open().expect("the emulated driver");
    driver.device(0).expect("a device")
}

fn looked(how: &How) -> Offer {
    offer::look(gpu(), 0, how).expect("a device that answers")
}

/// Keeps what a trial comes to, as a process with a program for trials would.
fn keep(folder: &Path, trial: &Trial) -> Outcome {
    let outcome = trial.run();
    let how = How {
        libsmctrl: trial.libsmctrl.clone(),
        ..records_only(folder)
    };
    let key = looked(&how).facts.key(trial.mechanism, &how);
    record::write(folder, &key, &outcome).expect("a folder that can be written");
    outcome
}

#[test]
fn without_a_record_and_a_program_nothing_is_trusted() {
    let folder = folder("nothing-is-trusted");
    let _emulator = Emulator::start(&Config::default()).expect("the emulated driver");
    let offer = looked(&records_only(&folder));
    assert_eq!(offer.mechanism(), Mechanism::Priority);
    assert_eq!((offer.tpcs(), offer.granularity()), (8, 8));
    assert!(!offer.is_enforced());
    let refused: Vec<&Refusal> = offer.choice.refused().iter().map(|(_, r)| r).collect();
    assert_eq!(refused, [&Refusal::NotTried; 3]);
    assert!(!folder.exists(), "that nobody tried it is not a record");
}

#[test]
fn an_offer_is_the_best_mechanism_on_record() {
    let folder = folder("best-on-record");
    let config = Config {
        mask_offset: Some(0x100),
        ..Config::default()
    };
    let _emulator = Emulator::start(&config).expect("the emulated driver");
    keep(&folder, &trial(Mechanism::StreamMask, &config)).expect_err("a wrong table");
    keep(&folder, &trial(Mechanism::GreenContexts, &config)).expect("it obeys");
    let offer = looked(&records_only(&folder));
    assert_eq!(offer.mechanism(), Mechanism::GreenContexts);
    assert_eq!((offer.tpcs(), offer.granularity()), (8, 1));
    assert_eq!(
        offer.choice.refused(),
        [
            (Mechanism::StreamMask, Refusal::NoEffect),
            (Mechanism::Libsmctrl, Refusal::NotTried)
        ]
    );
}

/// Launches `where_am_i` in streams.
struct Launcher {
    context: Arc<Context>,
    function: Function,
    seen: MappedMemory,
}

const BLOCKS: u32 = 32;

impl Launcher {
    fn new() -> Self {
        let context = Context::retain(gpu()).expect("a context");
        let mut archives = images::candidates(8, 7, 12);
        let archive = archives.next().expect("Orin's");
        let image = archive.module(Unit::Probe).expect("a module");
        // SAFETY: a whole image, as it was compiled.
        let module = unsafe { Module::load(&context, &image.code) }.expect("an image");
        Self {
            function: module.function(c"where_am_i").expect("a kernel"),
            seen: MappedMemory::take(&context, BLOCKS as usize * 4).expect("memory"),
            context,
        }
    }

    /// Where 32 blocks of a launch ran.
    fn ran_on(&self, stream: &Stream) -> SmSet {
        let guard = Guard::default();
        let whereabouts = Whereabouts {
            multiprocessors: self.seen.address(0),
            stay_ns: 1,
            gap: 0,
        };
        let shape = Shape {
            grid: [BLOCKS, 1, 1],
            block: 32,
            shared_bytes: 0,
        };
        let arguments: [*const c_void; 2] =
            [(&raw const guard).cast(), (&raw const whereabouts).cast()];
        // SAFETY: the kernel's parameters, and a word for each block.
        unsafe { stream.launch(&self.function, shape, arguments) }.expect("a launch");
        stream.synchronize().expect("it ends");
        let word = |block| self.seen.word(block as usize * 4);
        let sms = (0..BLOCKS).map(|b| word(b).load(std::sync::atomic::Ordering::Relaxed));
        SmSet::of(sms).expect("multiprocessors")
    }
}

#[test]
fn launches_run_where_their_partition_is_and_nowhere_else() {
    for mechanism in [
        Mechanism::StreamMask,
        Mechanism::LaunchMask,
        Mechanism::GreenContexts,
    ] {
        let folder = folder(&format!("where-{mechanism}"));
        let config = Config {
            spread: true,
            ..Config::default()
        };
        let emulator = Emulator::start(&config).expect("the emulated driver");
        keep(&folder, &trial(mechanism, &config)).expect("it obeys");
        let how = How {
            order: vec![mechanism],
            ..records_only(&folder)
        };
        let offer = looked(&how);
        assert_eq!(offer.mechanism(), mechanism);
        let partitioner = offer.partitioner(gpu()).expect("it works here");
        let launcher = Launcher::new();
        let mut left = offer.choice.map().all();
        for tpcs in [0..3, 3..4, 4..8] {
            let granted = partitioner.grant(tpcs.clone()).expect("whole units");
            assert!(granted.enforced);
            assert_eq!(granted.sms.count(), 2 * u32::from(tpcs.end - tpcs.start));
            assert_eq!(granted.sms.without(left), SmSet::default());
            left = left.without(granted.sms);
            let stream = partitioner
                .stream(&launcher.context, tpcs, 0)
                .expect("a stream");
            assert_eq!(launcher.ran_on(&stream), granted.sms);
        }
        assert!(left.is_empty());
        drop(launcher);
        drop(emulator);
    }
}

#[test]
fn streams_of_partitions_are_made_again_in_a_new_context() {
    let folder = folder("made-again");
    let config = Config::default();
    let _emulator = Emulator::start(&config).expect("the emulated driver");
    keep(&folder, &trial(Mechanism::GreenContexts, &config)).expect("it obeys");
    let offer = looked(&records_only(&folder));
    let partitioner = offer.partitioner(gpu()).expect("it works here");
    for _ in 0..2 {
        let launcher = Launcher::new();
        let stream = partitioner.stream(&launcher.context, 2..4, 0);
        let stream = stream.expect("a stream");
        assert_eq!(launcher.ran_on(&stream).to_string(), "4-7");
        let Launcher {
            context,
            function,
            seen,
        } = launcher;
        context.abandon();
        drop((stream, function, seen));
        context.reset().expect("nothing holds it");
    }
}

#[test]
fn tpcs_that_cannot_be_granted_get_no_stream() {
    let folder = folder("no-stream");
    let _emulator = Emulator::start(&Config::default()).expect("the emulated driver");
    let offer = looked(&records_only(&folder));
    let partitioner = offer.partitioner(gpu()).expect("priorities always work");
    let context = Context::retain(gpu()).expect("a context");
    assert!(partitioner.stream(&context, 0..4, 0).is_err());
    assert!(partitioner.stream(&context, 0..8, 0).is_ok());
}

/// A stand-in for libsmctrl that masks streams of the default emulated driver; none where there is no compiler.
fn stand_in() -> Option<PathBuf> {
    let version = CudaVersion::new(12, 6);
    let key =
        libsmctrl_sys::DriverKey::here(version, Some(Soc::Orin)).expect("a processor with drivers");
    let offset = libsmctrl_sys::stream_mask::find(key)
        .expect("a known driver")
        .offset;
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    let source = manifest.join("../../libsmctrl-sys/tests/fake/libsmctrl.c");
    let library = Path::new(env!("CARGO_TARGET_TMPDIR")).join("libsmctrl-stand-in.so");
    let compiled = std::process::Command::new("cc")
        .args([
            "-shared",
            "-fPIC",
            "-O1",
            &format!("-DOFFSET={offset}"),
            "-o",
        ])
        .arg(&library)
        .arg(source)
        .status();
    match compiled {
        Ok(status) => {
            assert!(status.success(), "the stand-in does not compile");
            Some(library)
        }
        Err(error) => {
            eprintln!("skipped: no C compiler called cc ({error})");
            None
        }
    }
}

#[test]
fn libsmctrl_masks_streams_where_it_is_found() {
    let Some(library) = stand_in() else {
        return;
    };
    let folder = folder("libsmctrl");
    let config = Config::default();
    let _emulator = Emulator::start(&config).expect("the emulated driver");
    let mut how = records_only(&folder);
    how.libsmctrl = library.clone().into_os_string();
    how.order = vec![Mechanism::Libsmctrl, Mechanism::Priority];
    let trial = Trial {
        libsmctrl: library.into_os_string(),
        ..trial(Mechanism::Libsmctrl, &config)
    };
    let outcome = keep(&folder, &trial);
    assert_eq!(outcome.as_ref().map(UnitMap::count), Ok(8));
    assert_eq!(
        looked(&records_only(&folder)).mechanism(),
        Mechanism::Priority,
        "the record is of another file"
    );
    let offer = looked(&how);
    assert_eq!(offer.mechanism(), Mechanism::Libsmctrl);
    let partitioner = offer.partitioner(gpu()).expect("it works here");
    let launcher = Launcher::new();
    let stream = partitioner.stream(&launcher.context, 5..7, 0);
    let ran = launcher.ran_on(&stream.expect("a stream"));
    assert_eq!(ran.to_string(), "10-13");
}
