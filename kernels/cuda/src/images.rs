//! The compiled kernels: one archive for each architecture and compiler, made by `kernels/cuda/build.py`, kept in the
//! program.
//!
//! The format is `write_code` of `archives.py`: a header (`PUNCTUAL`, format, modules, kernels), a row a module (name,
//! whether it is PTX, offset, bytes compressed and not), a row a kernel (name, module, registers, shared bytes, stack
//! bytes), and the code of each module, compressed (zlib). Numbers are little-endian `u32`s, names 32 bytes padded with
//! zeros.
//!
//! A module is decompressed when it is asked for, by the thread that loads it: never by a real-time one.
use core::ops::Deref;

use miniz_oxide::inflate::decompress_slice_iter_to_slice;

use crate::contract::Contract;
use crate::{Kernel, Module};

/// Why there is no code for a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ImageError {
    #[error(
        "no code of module {} for compute capability {major}.{minor}: it is compiled for 7.2, 7.5, 8.0, 8.6, \
         8.7, 8.9, 9.0, 10.0, 11.0, 12.0 and 12.1, and for all later than 8.0 by the driver itself; modules of \
         tensor-core kernels need 8.0",
        module.name()
    )]
    Unsupported {
        major: u32,
        minor: u32,
        module: Module,
    },
    /// An archive is not one.
    #[error(
        "{archive}.images is broken at byte {at} of {bytes}: run python3 kernels/cuda/build.py"
    )]
    Broken {
        archive: &'static str,
        at: usize,
        bytes: usize,
    },
    /// An archive lacks something.
    #[error("{archive}.images has no {what}: run python3 kernels/cuda/build.py")]
    Missing {
        archive: &'static str,
        what: &'static str,
    },
}

/// Code of a module, as the driver loads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// A cubin, or the text of PTX with a zero at its end.
    pub code: Code,
    /// The driver compiles it when it is loaded, which takes its time (PASK).
    pub is_ptx: bool,
    /// Name of the archive that it is from.
    pub archive: &'static str,
}

/// Bytes at a multiple of [`Code::ALIGNMENT`], where the driver finds an ELF file's numbers aligned.
#[derive(Clone, Debug)]
pub struct Code {
    storage: Box<[Line]>,
    len: usize,
}

#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct Line([u8; Code::ALIGNMENT]);

impl Code {
    pub const ALIGNMENT: usize = 64;

    /// `len` bytes that `packed` decompresses to. `None`: it does not.
    fn unpack(packed: &[u8], len: usize) -> Option<Self> {
        // Nothing compresses better: what claims to is damaged, and must not cost its memory.
        const DEFLATE_RATIO_MAX: usize = 1032;
        if len / DEFLATE_RATIO_MAX > packed.len() {
            return None;
        }
        let lines = vec![Line([0; Self::ALIGNMENT]); len.div_ceil(Self::ALIGNMENT)];
        let mut code = Self {
            storage: lines.into_boxed_slice(),
            len,
        };
        // SAFETY: `storage` has at least `len` consecutive, initialised bytes: a `Line` is 64 of them without padding.
        let bytes =
            unsafe { core::slice::from_raw_parts_mut(code.storage.as_mut_ptr().cast(), len) };
        let written = decompress_slice_iter_to_slice(bytes, core::iter::once(packed), true, false);
        (written == Ok(len)).then_some(code)
    }
}

impl Deref for Code {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: as in `unpack`.
        unsafe { core::slice::from_raw_parts(self.storage.as_ptr().cast(), self.len) }
    }
}

impl PartialEq for Code {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Code {}

#[derive(Clone, Copy, Debug)]
pub struct Archive {
    name: &'static str,
    /// Major version of CUDA that its compiler is of: cubins are promised to load in drivers of that one and of later
    /// ones.
    cuda: u32,
    capability: (u32, u32),
    /// Of a system on a chip, whose cubins are for it alone; others also run on later minor versions.
    is_soc: bool,
    is_ptx: bool,
    bytes: &'static [u8],
}

macro_rules! archive {
    ($name:literal, cuda $cuda:literal, $capability:expr, soc: $is_soc:expr, ptx: $is_ptx:expr) => {
        Archive {
            name: $name,
            cuda: $cuda,
            capability: $capability,
            is_soc: $is_soc,
            is_ptx: $is_ptx,
            bytes: include_bytes!(concat!("../images/", $name, ".images")),
        }
    };
}

/// Where several fit, the first is preferred: later architectures, then later compilers.
static ARCHIVES: [Archive; 17] = [
    archive!("sm_121", cuda 13, (12, 1), soc: false, ptx: false),
    archive!("sm_120", cuda 13, (12, 0), soc: false, ptx: false),
    archive!("sm_110", cuda 13, (11, 0), soc: true, ptx: false),
    archive!("sm_100", cuda 13, (10, 0), soc: false, ptx: false),
    archive!("sm_90", cuda 12, (9, 0), soc: false, ptx: false),
    archive!("sm_89", cuda 12, (8, 9), soc: false, ptx: false),
    archive!("sm_87", cuda 12, (8, 7), soc: true, ptx: false),
    archive!("sm_87-cuda11", cuda 11, (8, 7), soc: true, ptx: false),
    archive!("sm_86", cuda 12, (8, 6), soc: false, ptx: false),
    archive!("sm_86-cuda11", cuda 11, (8, 6), soc: false, ptx: false),
    archive!("sm_80", cuda 12, (8, 0), soc: false, ptx: false),
    archive!("sm_80-cuda11", cuda 11, (8, 0), soc: false, ptx: false),
    archive!("sm_75", cuda 12, (7, 5), soc: false, ptx: false),
    archive!("sm_75-cuda11", cuda 11, (7, 5), soc: false, ptx: false),
    archive!("sm_72", cuda 12, (7, 2), soc: true, ptx: false),
    archive!("sm_72-cuda11", cuda 11, (7, 2), soc: true, ptx: false),
    archive!("compute_80", cuda 12, (8, 0), soc: false, ptx: true),
];

#[must_use]
pub fn archives() -> &'static [Archive] {
    &ARCHIVES
}

/// The archives that a device of a compute capability may run under a driver of CUDA `cuda`, the best first: those that the
/// driver is promised to load, then those of later compilers, which it may refuse, then PTX. A caller tries the next one
/// when the driver refuses one.
pub fn candidates(
    major: u32,
    minor: u32,
    cuda: u32,
) -> impl ExactSizeIterator<Item = &'static Archive> {
    let fits = |archive: &&Archive| archive.runs_on(major, minor);
    let mut fitting: Vec<_> = ARCHIVES.iter().filter(fits).collect();
    fitting.sort_by_key(|archive| (archive.is_ptx, archive.cuda > cuda));
    fitting.into_iter()
}

impl Archive {
    /// Its architecture, with the compiler's version where there are several.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Major version of CUDA that its compiler is of.
    #[must_use]
    pub fn cuda(&self) -> u32 {
        self.cuda
    }

    /// Compute capability that it was compiled for.
    #[must_use]
    pub fn capability(&self) -> (u32, u32) {
        self.capability
    }

    #[must_use]
    pub fn is_ptx(&self) -> bool {
        self.is_ptx
    }

    /// The file.
    #[must_use]
    pub fn bytes(&self) -> &'static [u8] {
        self.bytes
    }

    fn runs_on(&self, major: u32, minor: u32) -> bool {
        if self.is_ptx {
            return (major, minor) >= self.capability;
        }
        let (own_major, own_minor) = self.capability;
        let later = !self.is_soc && minor > own_minor;
        major == own_major && (minor == own_minor || later)
    }

    /// The code of a module, decompressed: this allocates.
    pub fn module(&self, module: Module) -> Result<Image, ImageError> {
        let head = self.head()?;
        for index in 0..head.modules {
            let row = HEAD_BYTES + index * MODULE_BYTES;
            if self.name_at(row)? == module.name().as_bytes() {
                let [is_ptx, offset, packed, bytes] = self.numbers(row + NAME_BYTES)?;
                let packed = self.range(offset as usize, packed as usize)?;
                let code = Code::unpack(packed, bytes as usize);
                return Ok(Image {
                    code: code.ok_or(self.broken(offset as usize))?,
                    is_ptx: is_ptx != 0,
                    archive: self.name,
                });
            }
        }
        Err(self.missing(module.name()))
    }

    /// What a kernel needs of a multiprocessor. `None`: that is not known before the driver compiles it (PTX).
    pub fn contract(&self, kernel: &Kernel) -> Result<Option<Contract>, ImageError> {
        if self.is_ptx {
            return Ok(None);
        }
        let head = self.head()?;
        for index in 0..head.kernels {
            let row = HEAD_BYTES + head.modules * MODULE_BYTES + index * KERNEL_BYTES;
            if self.name_at(row)? == kernel.name.as_bytes() {
                let [_, registers, shared_bytes, stack_bytes] = self.numbers(row + NAME_BYTES)?;
                return Ok(Some(Contract {
                    threads: kernel.block,
                    registers,
                    shared_bytes: shared_bytes + kernel.shared_bytes,
                    stack_bytes,
                }));
            }
        }
        Err(self.missing(kernel.name))
    }

    fn head(&self) -> Result<Head, ImageError> {
        let [format, modules, kernels] = self.numbers(MAGIC.len())?;
        if self.range(0, MAGIC.len())? != MAGIC || format != FORMAT {
            return Err(self.broken(0));
        }
        Ok(Head {
            modules: modules as usize,
            kernels: kernels as usize,
        })
    }

    fn name_at(&self, at: usize) -> Result<&'static [u8], ImageError> {
        let padded = self.range(at, NAME_BYTES)?;
        let end = padded.iter().position(|&byte| byte == 0);
        Ok(&padded[..end.unwrap_or(NAME_BYTES)])
    }

    fn numbers<const N: usize>(&self, at: usize) -> Result<[u32; N], ImageError> {
        let words = self.range(at, 4 * N)?.as_chunks::<4>().0;
        Ok(core::array::from_fn(|i| u32::from_le_bytes(words[i])))
    }

    fn range(&self, at: usize, bytes: usize) -> Result<&'static [u8], ImageError> {
        let end = at.checked_add(bytes).ok_or(self.broken(at))?;
        self.bytes.get(at..end).ok_or(self.broken(at))
    }

    fn broken(&self, at: usize) -> ImageError {
        ImageError::Broken {
            archive: self.name,
            at,
            bytes: self.bytes.len(),
        }
    }

    fn missing(&self, what: &'static str) -> ImageError {
        ImageError::Missing {
            archive: self.name,
            what,
        }
    }
}

const MAGIC: &[u8] = b"PUNCTUAL";
const FORMAT: u32 = 2;
const NAME_BYTES: usize = 32;
const HEAD_BYTES: usize = 8 + 3 * 4;
const MODULE_BYTES: usize = NAME_BYTES + 4 * 4;
const KERNEL_BYTES: usize = NAME_BYTES + 4 * 4;

struct Head {
    modules: usize,
    kernels: usize,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::KERNELS;

    fn chosen(major: u32, minor: u32, cuda: u32) -> Vec<&'static str> {
        candidates(major, minor, cuda).map(|a| a.name).collect()
    }

    #[test]
    fn a_device_gets_its_own_code_then_that_of_earlier_ones_then_ptx() {
        let ampere = ["sm_86", "sm_86-cuda11", "sm_80", "sm_80-cuda11"];
        assert_eq!(chosen(8, 6, 12), [&ampere[..], &["compute_80"]].concat());
        assert_eq!(chosen(9, 0, 12), ["sm_90", "compute_80"]);
        assert_eq!(chosen(9, 0, 13), ["sm_90", "compute_80"]);
        assert_eq!(chosen(10, 3, 13), ["sm_100", "compute_80"]);
        assert_eq!(chosen(7, 5, 12), ["sm_75", "sm_75-cuda11"]);
        assert_eq!(chosen(7, 5, 13)[0], "sm_75");
        assert_eq!(chosen(12, 0, 13), ["sm_120", "compute_80"]);
        assert_eq!(chosen(12, 1, 13), ["sm_121", "sm_120", "compute_80"]);
    }

    #[test]
    fn a_driver_gets_what_it_is_promised_to_load_before_what_it_may_refuse() {
        let orin = chosen(8, 7, 11);
        assert_eq!(orin[0], "sm_87-cuda11", "JetPack 5");
        assert_eq!(orin.last(), Some(&"compute_80"));
        assert!(orin.contains(&"sm_87"), "it may load all the same");
        assert_eq!(chosen(8, 7, 12)[0], "sm_87", "JetPack 6");
        assert_eq!(chosen(8, 7, 13)[0], "sm_87", "JetPack 7");
        assert_eq!(chosen(7, 2, 11), ["sm_72-cuda11", "sm_72"]);
        assert_eq!(chosen(7, 5, 11), ["sm_75-cuda11", "sm_75"]);
        assert_eq!(chosen(8, 9, 11)[0], "sm_86-cuda11");
        assert_eq!(chosen(10, 0, 12), ["sm_100", "compute_80"]);
    }

    #[test]
    fn a_device_later_than_all_gets_ptx() {
        assert_eq!(chosen(13, 0, 14), ["compute_80"]);
        assert_eq!(chosen(11, 1, 13), ["compute_80"]);
    }

    #[test]
    fn code_of_a_system_on_a_chip_is_for_it_alone() {
        assert_eq!(chosen(8, 8, 12)[0], "sm_86");
        assert!(!chosen(8, 9, 12).contains(&"sm_87"));
        assert_eq!(chosen(7, 2, 12), ["sm_72", "sm_72-cuda11"]);
        assert!(chosen(7, 3, 12).is_empty());
        assert!(chosen(6, 2, 12).is_empty());
    }

    #[test]
    fn every_archive_has_every_module_that_it_can_run_at_an_aligned_place() {
        for archive in archives() {
            for module in Module::ALL {
                let found = archive.module(module);
                if module.runs_on(archive.capability.0) {
                    let image = found.expect("there");
                    assert_eq!(image.code.as_ptr().addr() % Code::ALIGNMENT, 0);
                    let begins = if image.is_ptx { &b"//"[..] } else { b"\x7fELF" };
                    assert!(image.code.starts_with(begins), "{}", archive.name);
                    assert!(!image.is_ptx || image.code.ends_with(b"\0"));
                } else {
                    let (archive, what) = (archive.name, module.name());
                    assert_eq!(found, Err(ImageError::Missing { archive, what }));
                }
            }
        }
    }

    #[test]
    fn every_kernel_has_its_contract_and_none_keeps_anything_in_memory() {
        for archive in archives().iter().filter(|archive| !archive.is_ptx) {
            let here = |kernel: &&Kernel| kernel.module.runs_on(archive.capability.0);
            for kernel in KERNELS.iter().filter(here) {
                let contract = archive.contract(kernel).expect("there").expect("a cubin");
                assert!((1..=255).contains(&contract.registers), "{}", kernel.name);
                assert_eq!(contract.stack_bytes, 0, "{}", kernel.name);
                assert!(contract.shared_bytes >= kernel.shared_bytes);
            }
        }
    }

    #[test]
    fn devices_without_the_instructions_are_refused_the_modules_that_need_them() {
        for archive in candidates(7, 2, 12).chain(candidates(7, 5, 12)) {
            assert!(archive.module(Module::General).is_ok());
            let refused = archive.module(Module::Gemm64x64);
            assert!(matches!(refused, Err(ImageError::Missing { .. })));
        }
    }

    #[test]
    fn an_archive_cut_short_anywhere_is_refused() {
        let whole = archives()[0];
        for bytes in (0..2000).chain([whole.bytes.len() - 1]) {
            let cut = Archive {
                bytes: &whole.bytes[..bytes],
                ..whole
            };
            let all = Module::ALL.iter().all(|&module| cut.module(module).is_ok());
            assert!(!all, "{bytes} bytes");
        }
    }

    #[test]
    fn damaged_code_is_refused() {
        let whole = archives()[0];
        let [_, offset, packed, _] = whole.numbers(HEAD_BYTES + NAME_BYTES).expect("a row");
        for at in [offset + 100, offset + packed / 2, offset + packed - 1] {
            let mut bytes = whole.bytes.to_vec();
            bytes[at as usize] ^= 1;
            let bytes = bytes.leak();
            let found = Archive { bytes, ..whole }.module(Module::General);
            assert!(matches!(found, Err(ImageError::Broken { .. })), "{at}");
        }
    }
}
