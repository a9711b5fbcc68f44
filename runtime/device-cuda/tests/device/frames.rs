//! Frames that the device prepares are those that a core prepares, within what halves allow.

use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use emulated_cuda::Config;
use punctual_conformance::{Testable, networks};
use punctual_core::{ModelId, PartitionId};
use punctual_device::frames::{
    FrameMemory, FrameWork, FramesCopied, FramesRefused, HeldBytes, NotPrepared, SharedPreparer,
};
use punctual_device::{ClaimError, HostedDevice};
use punctual_device_cuda::DeviceError;
use punctual_kernels::preprocess::{CropRows, PlanarOutput, PreprocessSpec, Preprocessor};
use punctual_platform::shared_memory::MemoryFile;
use punctual_types::{Fit, FrameLayout, PixelFormat, Random, SharedBytes, Size};

use crate::subject::{ASSERT, Cuda, cuda};

const MEAN: [f32; 3] = [0.485, 0.456, 0.406];
const STD: [f32; 3] = [0.229, 0.224, 0.225];

/// What weights of the filter computed in `f32` may change of a byte's full scale, positions being below 64; by the least `std`.
const WEIGHTS: f32 = 2e-5 / 0.2;

/// Longer than anything here takes, even on a busy machine.
const LIMIT_NS: u64 = 20_000_000_000;

/// A client's memory has pages of its own: these are more than an allocator shares.
const MEMORY_BYTES: usize = 1 << 20;

/// Where frames begin in it.
const FIRST: usize = 4099;

fn network() -> punctual_model::Network {
    networks::gathers(5)
}

fn layout(format: PixelFormat) -> FrameLayout {
    let mut layout = FrameLayout::packed(format, 40, 30);
    if format == PixelFormat::Rgb8 {
        layout.row_stride += 5;
    }
    layout
}

/// Of a crop in its frame.
#[derive(Clone, Copy, Debug)]
struct Corner {
    x: u32,
    y: u32,
}

const fn corner(x: u32, y: u32) -> Corner {
    Corner { x, y }
}

/// The frames of a network on a device, by core and by GPU.
struct Frames {
    device: Cuda,
    preprocessor: Preprocessor,
    preparer: SharedPreparer,
    memory: HeldBytes,
}

impl Frames {
    fn of(format: PixelFormat, config: &Config) -> Self {
        Self::within(LIMIT_NS, format, config)
    }

    fn within(limit_ns: u64, format: PixelFormat, config: &Config) -> Self {
        let device = Cuda::with(config, &network(), &cuda(), 1);
        let layout = layout(format);
        let crop = Size {
            width: 25,
            height: 17,
        };
        let input = network().input;
        let preprocessor = Preprocessor::new(&PreprocessSpec {
            frame: layout,
            crop,
            output: Size {
                width: input.width,
                height: input.height,
            },
            channels: 3,
            fit: Fit::Stretch,
            mean: [MEAN[0], MEAN[1], MEAN[2], 0.0],
            std: [STD[0], STD[1], STD[2], 1.0],
        });
        let work = FrameWork {
            limit_ns,
            ..work(format)
        };
        let preparer = device.device.frame_preparer(&[work]);
        let mut random = Random::new(7);
        let bytes = (0..MEMORY_BYTES).map(|_| (random.next_u64() >> 56) as u8);
        let memory: Arc<[u8]> = bytes.collect();
        Self {
            device,
            preprocessor: preprocessor.expect("a geometry"),
            preparer: preparer.expect("there are kernels"),
            memory: memory.into(),
        }
    }

    /// The client's memory is known to the device, as the DMA-BUF that it is.
    fn attach(&self, dma_buf: Option<Arc<OwnedFd>>) -> Option<FramesCopied> {
        let bytes = self.memory.clone();
        self.preparer.attach(vec![FrameMemory { bytes, dma_buf }])
    }

    /// A memory file with the client's bytes, in the place of a DMA-BUF.
    fn dma_buf(&self) -> Arc<OwnedFd> {
        let mut bytes = vec![0; MEMORY_BYTES];
        self.memory.bytes().copy_to(&mut bytes);
        let file = MemoryFile::create(c"dma-buf", MEMORY_BYTES).expect("memory");
        let mut file = File::from(OwnedFd::from(file));
        file.write_all(&bytes).expect("room");
        Arc::new(file.into())
    }

    fn frame(&self) -> SharedBytes<'_> {
        self.memory.bytes().part(FIRST, self.layout().len())
    }

    fn layout(&self) -> FrameLayout {
        layout(self.preprocessor_format())
    }

    fn preprocessor_format(&self) -> PixelFormat {
        self.rows(corner(0, 0)).format()
    }

    fn rows(&self, Corner { x, y }: Corner) -> CropRows {
        self.preprocessor.crop_rows(x, y).expect("inside")
    }

    /// What the GPU makes of the crop at `at`, and how many bytes were copied.
    fn by_gpu(&self, at: Corner) -> Result<(Vec<f32>, usize), NotPrepared> {
        let mut input = self.device.inputs.claim(0, ModelId(0)).expect("free");
        input.pixels().fill(f32::NAN);
        let rows = self.rows(at);
        let copied = self.preparer.prepare(0, &rows, self.frame(), &mut input)?;
        Ok((input.pixels().to_vec(), copied))
    }

    fn by_core(&mut self, at: Corner) -> Vec<f32> {
        let rows = self.rows(at);
        let size = self.preprocessor.output();
        let (width, height) = (size.width as usize, size.height as usize);
        let mut planes = vec![0.0; 3 * width * height];
        let output = PlanarOutput::packed(&mut planes, width, height);
        let frame = self.memory.bytes().part(FIRST, self.layout().len());
        let prepared = self.preprocessor.run_in_place(&rows, frame, output);
        prepared.expect("a picture");
        planes
    }

    #[track_caller]
    fn agree(&mut self, at: Corner, copied_bytes: usize) {
        let (found, copied) = self.by_gpu(at).expect("the device is up");
        assert_eq!(copied, copied_bytes, "{at:?}");
        let expected = self.by_core(at);
        assert_eq!(found.len(), expected.len());
        for (found, expected) in found.iter().zip(&expected) {
            let allowed = WEIGHTS + expected.abs() / 2048.0;
            let error = (found - expected).abs();
            assert!(error <= allowed, "{at:?}: {found}, not {expected}");
        }
    }
}

fn work(format: PixelFormat) -> FrameWork {
    FrameWork {
        model: ModelId(0),
        partition: PartitionId(0),
        layout: layout(format),
        crop: Size {
            width: 25,
            height: 17,
        },
        mean: MEAN,
        std: STD,
        limit_ns: LIMIT_NS,
    }
}

/// Even and odd positions, and the last.
const CORNERS: [Corner; 5] = [
    corner(0, 0),
    corner(1, 0),
    corner(2, 5),
    corner(7, 3),
    corner(15, 13),
];

#[test]
fn frames_are_prepared_where_they_lie_and_from_a_copy_as_a_core_prepares_them() {
    for format in [PixelFormat::Rgb8, PixelFormat::Nv12, PixelFormat::Yuyv] {
        let mut frames = Frames::of(format, &Config::default());
        for at in CORNERS {
            let copied = frames.rows(at).copy_len();
            frames.agree(at, copied);
        }
        assert!(frames.attach(None).is_none());
        for at in CORNERS {
            frames.agree(at, 0);
        }
        frames.preparer.detach();
        let copied = frames.rows(corner(1, 1)).copy_len();
        frames.agree(corner(1, 1), copied);
        let counts = frames.device.device.counters().read();
        assert_eq!((counts.frames, counts.frames_copied), (11, 6), "{format:?}");
    }
}

#[test]
fn a_dma_buf_is_imported_and_frames_are_prepared_in_it_as_a_core_prepares_them() {
    let config = Config {
        dma_buf_import: true,
        ..Config::default()
    };
    for format in [PixelFormat::Rgb8, PixelFormat::Nv12, PixelFormat::Yuyv] {
        let mut frames = Frames::of(format, &config);
        let copied = frames.attach(Some(frames.dma_buf()));
        assert!(copied.is_none(), "{copied:?}");
        for at in CORNERS {
            frames.agree(at, 0);
        }
        let emulator = &frames.device.emulator;
        // Nothing of this process's own mapping is known to the driver.
        assert_eq!(emulator.calls("cuExternalMemoryGetMappedBuffer"), 1);
        let freed = emulator.calls("cuMemFree_v2");
        frames.preparer.detach();
        assert_eq!(emulator.calls("cuMemFree_v2"), freed + 1);
        assert_eq!(emulator.calls("cuDestroyExternalMemory"), 1);
        let copied = frames.rows(corner(1, 1)).copy_len();
        frames.agree(corner(1, 1), copied);
    }
}

#[test]
fn a_dma_buf_is_imported_again_after_a_restart() {
    let config = Config {
        dma_buf_import: true,
        ..Config::default()
    };
    let mut frames = Frames::of(PixelFormat::Nv12, &config);
    assert!(frames.attach(Some(frames.dma_buf())).is_none());
    frames.device.emulator.fail_launch(1, ASSERT.0);
    assert_eq!(frames.by_gpu(corner(0, 0)), Err(NotPrepared));
    frames.device.until_restarted(1);
    frames.agree(corner(5, 5), 0);
    let imports = frames.device.emulator.calls("cuImportExternalMemory");
    assert_eq!(imports, 2);
}

#[test]
fn a_driver_that_imports_no_dma_bufs_is_named_and_frames_are_copied() {
    let mut frames = Frames::of(PixelFormat::Nv12, &Config::default());
    let copied = frames.attach(Some(frames.dma_buf())).expect("a reason");
    let said = copied.to_string();
    for part in ["DMA-BUF", "CUDA 12.6", "cuImportExternalMemory", "Thor"] {
        assert!(said.contains(part), "{said}");
    }
    let copied = frames.rows(corner(2, 5)).copy_len();
    frames.agree(corner(2, 5), copied);
    let counts = frames.device.device.counters().read();
    assert_eq!((counts.frames, counts.frames_copied), (1, 1));
}

#[test]
fn a_stage_reads_what_the_device_has_prepared() {
    let mut frames = Frames::of(PixelFormat::Nv12, &Config::default());
    let at = corner(3, 2);
    frames.by_gpu(at).expect("prepared");
    let answers = frames.device.answers(0, &[0]);
    let planes = frames.by_core(at);
    frames.device.write_input(1, ModelId(0), &planes);
    let of_core = frames.device.answers(0, &[1]);
    assert_eq!(answers[0].class, of_core[0].class);
    let [found, expected] = [&answers, &of_core].map(|of| of[0].confidence.as_probability());
    assert!((found - expected).abs() < 0.02, "{found}, not {expected}");
}

#[test]
fn a_frame_that_fails_takes_the_device_down_and_frames_are_prepared_again_after_its_restart() {
    let mut frames = Frames::of(PixelFormat::Rgb8, &Config::default());
    assert!(frames.attach(None).is_none());
    frames.agree(corner(0, 0), 0);
    // The second of a frame's three.
    frames.device.emulator.fail_launch(1, ASSERT.0);
    assert_eq!(frames.by_gpu(corner(0, 0)), Err(NotPrepared));
    frames.device.until_restarted(1);
    let faults = frames.device.device.faults();
    let [DeviceError::Driver(error)] = faults[..] else {
        panic!("{faults:?}");
    };
    assert_eq!(error.code, ASSERT);
    // The client's memory is registered again.
    frames.agree(corner(5, 5), 0);
    let _ = frames.device.answers(0, &[0]);
}

/// A frame that a core prepares into the same buffer would be overwritten otherwise: one of another client.
#[test]
fn the_buffer_of_a_frame_that_hangs_is_out_of_use_until_the_device_was_restarted() {
    let frames = Frames::within(1_000_000, PixelFormat::Rgb8, &Config::default());
    let (inputs, emulator) = (&frames.device.inputs, &frames.device.emulator);
    // The second of a frame's three, which writes to the buffer.
    emulator.hang_launch(1);
    assert_eq!(frames.by_gpu(corner(0, 0)), Err(NotPrepared));
    let refused = inputs.claim(0, ModelId(0)).err();
    assert_eq!(refused, Some(ClaimError::Withheld(0)));
    assert!(inputs.claim(1, ModelId(0)).is_ok());
    // By default a reset waits for what hangs, so the launch still writes.
    emulator.release_hangs();
    frames.device.until_restarted(1);
    let mut written = inputs.claim(0, ModelId(0)).expect("given back");
    assert!(
        written.pixels().iter().all(|value| value.is_finite()),
        "by the launch that hung"
    );
    let limit_ns = 1_000_000;
    let overdue = DeviceError::FrameOverdue { limit_ns };
    assert_eq!(frames.device.device.faults(), [overdue]);
}

#[test]
fn what_has_no_kernel_or_no_memory_is_refused_by_name() {
    let device = Cuda::with(&Config::default(), &network(), &cuda(), 1);
    let refused = |works: &[FrameWork]| match device.device.frame_preparer(works) {
        Ok(_) => panic!("not refused"),
        Err(refused) => refused,
    };
    let gray = FrameWork {
        layout: FrameLayout::packed(PixelFormat::Gray8, 40, 30),
        ..work(PixelFormat::Rgb8)
    };
    let said = refused(&[gray]).to_string();
    assert!(
        said.contains("gray8") && said.contains("`prepare`"),
        "{said}"
    );
    let nowhere = FrameWork {
        model: ModelId(3),
        ..work(PixelFormat::Rgb8)
    };
    assert!(matches!(refused(&[nowhere]), FramesRefused::Unknown { .. }));
    drop(device);
    let config = Config {
        host_register: false,
        ..Config::default()
    };
    let device = Cuda::with(&config, &network(), &cuda(), 1);
    let refused = device.device.frame_preparer(&[work(PixelFormat::Rgb8)]);
    assert!(matches!(refused, Err(FramesRefused::NotMapped)));
}
