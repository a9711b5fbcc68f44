//! The compiled kernels: one archive an architecture, made by `kernels/cuda/build.py`, kept in the program.
//!
//! The format is build.py's `archive`: a header (`PUNCTUAL`, format, modules, kernels), a row a module (name, whether
//! it is PTX, offset, bytes), a row a kernel (name, module, registers, shared bytes, stack bytes), and the code. Numbers
//! are little-endian `u32`s, names 32 bytes padded with zeros.
use super::contract::Contract;
use super::{Kernel, Module};

/// Why there is no code for a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ImageError {
    #[error(
        "no code of module {} for compute capability {major}.{minor}: it is compiled for 7.2, 8.0, 8.6, 8.7, 8.9, \
         9.0, 10.0 and 11.0, and for all later than 8.0 by the driver itself; modules of tensor-core kernels need 8.0",
        module.name()
    )]
    Unsupported {
        major: u32,
        minor: u32,
        module: Module,
    },
    /// The archive of an architecture is not one.
    #[error(
        "{architecture}.images is broken at byte {at} of {bytes}: run python3 kernels/cuda/build.py"
    )]
    Broken {
        architecture: &'static str,
        at: usize,
        bytes: usize,
    },
    /// The archive of an architecture lacks something.
    #[error("{architecture}.images has no {what}: run python3 kernels/cuda/build.py")]
    Missing {
        architecture: &'static str,
        what: &'static str,
    },
}

/// Code of a module, as the driver loads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Image {
    /// A cubin, or the text of PTX with a zero at its end. At a multiple of 64 bytes.
    pub bytes: &'static [u8],
    /// The driver compiles it when it is loaded, which takes its time (PASK).
    pub is_ptx: bool,
    pub architecture: &'static str,
}

#[derive(Clone, Copy, Debug)]
pub struct Archive {
    architecture: &'static str,
    capability: (u32, u32),
    /// Of a system on a chip, whose cubins are for it alone; others also run on later minor versions.
    is_soc: bool,
    is_ptx: bool,
    bytes: &'static [u8],
}

/// Makes the driver find code at an address that it can map.
#[repr(C, align(64))]
struct Aligned<T: ?Sized>(T);

macro_rules! archive {
    ($architecture:literal, $capability:expr, soc: $is_soc:expr, ptx: $is_ptx:expr) => {
        Archive {
            architecture: $architecture,
            capability: $capability,
            is_soc: $is_soc,
            is_ptx: $is_ptx,
            bytes: {
                static BYTES: &Aligned<[u8]> = &Aligned(*include_bytes!(concat!(
                    "../../cuda/images/",
                    $architecture,
                    ".images"
                )));
                &BYTES.0
            },
        }
    };
}

/// Later ones are preferred where several fit, PTX comes last.
static ARCHIVES: [Archive; 9] = [
    archive!("sm_110", (11, 0), soc: true, ptx: false),
    archive!("sm_100", (10, 0), soc: false, ptx: false),
    archive!("sm_90", (9, 0), soc: false, ptx: false),
    archive!("sm_89", (8, 9), soc: false, ptx: false),
    archive!("sm_87", (8, 7), soc: true, ptx: false),
    archive!("sm_86", (8, 6), soc: false, ptx: false),
    archive!("sm_80", (8, 0), soc: false, ptx: false),
    archive!("sm_72", (7, 2), soc: true, ptx: false),
    archive!("compute_80", (8, 0), soc: false, ptx: true),
];

#[must_use]
pub fn archives() -> &'static [Archive] {
    &ARCHIVES
}

/// The archives that a device of a compute capability may run, the best first. A driver that refuses one, as it is too
/// old for the compiler, may accept the next.
pub fn candidates(major: u32, minor: u32) -> impl Iterator<Item = &'static Archive> {
    ARCHIVES
        .iter()
        .filter(move |archive| archive.runs_on(major, minor))
}

/// The best code of a module for a device of a compute capability.
pub fn image(major: u32, minor: u32, module: Module) -> Result<Image, ImageError> {
    let unsupported = ImageError::Unsupported {
        major,
        minor,
        module,
    };
    let archive = candidates(major, minor).next().ok_or(unsupported)?;
    if !module.runs_on(archive.capability.0) {
        return Err(unsupported);
    }
    archive.module(module)
}

impl Archive {
    #[must_use]
    pub fn architecture(&self) -> &'static str {
        self.architecture
    }

    /// Compute capability that it was compiled for.
    #[must_use]
    pub fn capability(&self) -> (u32, u32) {
        self.capability
    }

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

    pub fn module(&self, module: Module) -> Result<Image, ImageError> {
        let head = self.head()?;
        for index in 0..head.modules {
            let row = HEAD_BYTES + index * MODULE_BYTES;
            if self.name(row)? == module.name().as_bytes() {
                let [is_ptx, offset, bytes] = self.numbers(row + NAME_BYTES)?;
                return Ok(Image {
                    bytes: self.range(offset as usize, bytes as usize)?,
                    is_ptx: is_ptx != 0,
                    architecture: self.architecture,
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
            if self.name(row)? == kernel.name.as_bytes() {
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

    fn name(&self, at: usize) -> Result<&'static [u8], ImageError> {
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
            architecture: self.architecture,
            at,
            bytes: self.bytes.len(),
        }
    }

    fn missing(&self, what: &'static str) -> ImageError {
        ImageError::Missing {
            architecture: self.architecture,
            what,
        }
    }
}

const MAGIC: &[u8] = b"PUNCTUAL";
const FORMAT: u32 = 1;
const NAME_BYTES: usize = 32;
const HEAD_BYTES: usize = 8 + 3 * 4;
const MODULE_BYTES: usize = NAME_BYTES + 3 * 4;
const KERNEL_BYTES: usize = NAME_BYTES + 4 * 4;

struct Head {
    modules: usize,
    kernels: usize,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cuda::KERNELS;

    fn chosen(major: u32, minor: u32) -> Vec<&'static str> {
        candidates(major, minor).map(|a| a.architecture).collect()
    }

    #[test]
    fn a_device_gets_its_own_code_then_that_of_earlier_ones_then_ptx() {
        assert_eq!(chosen(8, 6), ["sm_86", "sm_80", "compute_80"]);
        assert_eq!(chosen(9, 0), ["sm_90", "compute_80"]);
        assert_eq!(chosen(10, 3), ["sm_100", "compute_80"]);
        assert_eq!(chosen(12, 0), ["compute_80"]);
    }

    #[test]
    fn code_of_a_system_on_a_chip_is_for_it_alone() {
        assert_eq!(chosen(8, 7), ["sm_87", "sm_86", "sm_80", "compute_80"]);
        assert_eq!(chosen(8, 8), ["sm_86", "sm_80", "compute_80"]);
        assert_eq!(chosen(7, 2), ["sm_72"]);
        assert!(chosen(7, 5).is_empty());
        assert!(chosen(6, 2).is_empty());
    }

    #[test]
    fn every_archive_has_every_module_that_it_can_run_at_an_aligned_place() {
        for archive in archives() {
            for module in Module::ALL {
                let found = archive.module(module);
                if module.runs_on(archive.capability.0) {
                    let image = found.expect("there");
                    assert_eq!(image.bytes.as_ptr().addr() % 64, 0);
                    let begins = if image.is_ptx { &b"//"[..] } else { b"\x7fELF" };
                    assert!(image.bytes.starts_with(begins), "{}", archive.architecture);
                    assert!(!image.is_ptx || image.bytes.ends_with(b"\0"));
                } else {
                    let architecture = archive.architecture;
                    let what = module.name();
                    assert_eq!(found, Err(ImageError::Missing { architecture, what }));
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
                assert!((8..=255).contains(&contract.registers), "{}", kernel.name);
                assert_eq!(contract.stack_bytes, 0, "{}", kernel.name);
                assert!(contract.shared_bytes >= kernel.shared_bytes);
            }
        }
    }

    #[test]
    fn devices_without_the_instructions_are_refused_the_modules_that_need_them() {
        assert!(image(7, 2, Module::General).is_ok());
        let refused = image(7, 2, Module::Gemm64x64).expect_err("no such instructions");
        assert!(refused.to_string().contains("7.2"));
        assert!(image(7, 5, Module::General).is_err());
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
}
