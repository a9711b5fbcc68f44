//! Images of modules: which kernels a cubin or PTX text holds, and the PTX that is run in its place.
//!
//! A cubin of ours is known by its bytes, and the PTX that it was assembled from is run; another one is refused. An image
//! that no driver would take is refused, and so is one for another GPU.
use std::collections::BTreeMap;
use std::ffi::CStr;
use std::sync::Arc;

use punctual_ptx::Module as Program;

use crate::code::{Code, Outcome};
use crate::config::Config;
use crate::{programs, versions};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Resources {
    pub(crate) registers: u32,
    /// Of a block, known when it was compiled.
    pub(crate) shared_bytes: u32,
}

/// Kernels by name.
pub(crate) type Kernels = BTreeMap<String, Resources>;

/// What a module is made of.
pub(crate) struct Image {
    pub(crate) kernels: Kernels,
    pub(crate) program: Arc<Program>,
    pub(crate) bytes: usize,
}

const ELF_MAGIC: &[u8; 4] = b"\x7fELF";
const ELF_HEADER_BYTES: usize = 64;
const SECTION_HEADER_BYTES: usize = 64;
const EM_CUDA: u16 = 190;
/// Registers of a thread that PTX is compiled to; the true number is not known before a compiler has seen it.
const REGISTERS_OF_PTX: u32 = 64;

/// The kernels of an image, for a GPU and a driver as configured.
///
/// # Safety
/// `image` is a cubin, or text that ends in 0, as `cuModuleLoadData` wants it: its size is what it says.
pub(crate) unsafe fn read(image: *const u8, config: &Config) -> Outcome<Image> {
    if image.is_null() {
        return Err(Code::INVALID_VALUE);
    }
    // SAFETY: compares byte by byte, so that it stops before a text's end.
    let is_elf = ELF_MAGIC
        .iter()
        .enumerate()
        .all(|(at, &byte)| unsafe { *image.add(at) } == byte);
    if is_elf {
        // SAFETY: a cubin has a header, which says where its last part ends.
        let header = unsafe { std::slice::from_raw_parts(image, ELF_HEADER_BYTES) };
        let bytes = elf_bytes(header).ok_or(Code::INVALID_IMAGE)?;
        // SAFETY: as the image says.
        let elf = unsafe { std::slice::from_raw_parts(image, bytes) };
        let kernels = read_elf(elf, config)?;
        let program = programs::of_cubin(elf)?;
        return Ok(Image {
            kernels,
            program,
            bytes,
        });
    }
    // SAFETY: by the caller's promise a text.
    let text = unsafe { CStr::from_ptr(image.cast()) };
    let text = text.to_str().map_err(|_| Code::INVALID_IMAGE)?;
    let (major, minor) = config.compute;
    let mut kernels = read_ptx(text, major, minor, config.driver)?;
    let program = programs::of_text(text)?;
    for kernel in program.kernels() {
        if let Some(resources) = kernels.get_mut(kernel.name()) {
            resources.shared_bytes = kernel.static_shared();
        }
    }
    Ok(Image {
        kernels,
        program,
        bytes: text.len() + 1,
    })
}

fn number<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    number(bytes, at).map(u16::from_le_bytes)
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    number(bytes, at).map(u32::from_le_bytes)
}

fn usize_at(bytes: &[u8], at: usize) -> Option<usize> {
    number(bytes, at)
        .map(u64::from_le_bytes)
        .and_then(|n| n.try_into().ok())
}

/// Its tables of sections and of segments: one of them is the last thing in a cubin.
fn elf_bytes(header: &[u8]) -> Option<usize> {
    let end = |offset, size, count| {
        let bytes = usize::from(u16_at(header, size)?) * usize::from(u16_at(header, count)?);
        usize_at(header, offset)?.checked_add(bytes)
    };
    let last = end(40, 58, 60)?.max(end(32, 54, 56)?);
    Some(last.max(ELF_HEADER_BYTES))
}

fn read_elf(elf: &[u8], config: &Config) -> Outcome<Kernels> {
    if u16_at(elf, 18) != Some(EM_CUDA) {
        return Err(Code::INVALID_IMAGE);
    }
    let architecture = architecture(elf).ok_or(Code::INVALID_IMAGE)?;
    let toolkit = elf.get(8).copied().zip(u32_at(elf, 20));
    let (format, version) = toolkit.ok_or(Code::INVALID_IMAGE)?;
    if !versions::loads_cubin(config.driver, format, version) {
        return Err(Code::INVALID_IMAGE);
    }
    let (major, minor) = config.compute;
    if !runs_on(architecture, major, minor) {
        return Err(Code::NO_BINARY_FOR_GPU);
    }
    kernels_of_elf(elf, architecture).ok_or(Code::INVALID_IMAGE)
}

/// 87 for sm_87. The eighth version of the format moved it up by a byte.
fn architecture(elf: &[u8]) -> Option<u32> {
    let flags = u32_at(elf, 48)?;
    match elf.get(8)? {
        0..=7 => Some(flags & 0xff),
        _ => Some(flags >> 8 & 0xff),
    }
}

/// Systems on a chip, whose cubins are theirs alone.
const SYSTEMS_ON_A_CHIP: [u32; 5] = [53, 62, 72, 87, 110];

/// A cubin runs on GPUs of its major version and no lower minor version; systems on a chip neither
/// run others' nor do others run theirs.
fn runs_on(architecture: u32, major: u32, minor: u32) -> bool {
    let device = 10 * major + minor;
    let alone = |which| SYSTEMS_ON_A_CHIP.contains(which);
    if alone(&architecture) || alone(&device) {
        return architecture == device;
    }
    architecture / 10 == major && architecture % 10 <= minor
}

struct Section<'a> {
    name: &'a str,
    /// Of its contents in the file, if they are there.
    offset: usize,
    bytes: usize,
}

fn sections(elf: &[u8]) -> Option<Vec<Section<'_>>> {
    let table = usize_at(elf, 40)?;
    let count = usize::from(u16_at(elf, 60)?);
    let header = |at: usize| elf.get(table.checked_add(at * SECTION_HEADER_BYTES)?..);
    let names = header(usize::from(u16_at(elf, 62)?))?;
    let names = elf.get(usize_at(names, 24)?..)?;
    (0..count)
        .map(|at| {
            let section = header(at)?;
            let name = names.get(u32_at(section, 0)? as usize..)?;
            Some(Section {
                name: CStr::from_bytes_until_nul(name).ok()?.to_str().ok()?,
                offset: usize_at(section, 24)?,
                bytes: usize_at(section, 32)?,
            })
        })
        .collect()
}

/// Each kernel's code is a section of its own, and so is its shared memory.
fn kernels_of_elf(elf: &[u8], architecture: u32) -> Option<Kernels> {
    // From sm_90 on, each block has a part that is the system's.
    let reserved = if architecture >= 90 { 1024 } else { 0 };
    let sections = sections(elf)?;
    let registers = registers(elf, &sections)?;
    let mut kernels = Kernels::new();
    for (at, section) in sections.iter().enumerate() {
        if let Some(name) = section.name.strip_prefix(".text.") {
            let kernel = kernels.entry(name.to_owned()).or_default();
            kernel.registers = registers.get(&at).copied().unwrap_or(0);
        }
    }
    for section in &sections {
        let shared = section.name.strip_prefix(".nv.shared.");
        if let Some(kernel) = shared.and_then(|name| kernels.get_mut(name)) {
            kernel.shared_bytes = (section.bytes as u32).saturating_sub(reserved);
        }
    }
    Some(kernels)
}

/// Attribute of `.nv.info`: the registers of a thread, after the number of the kernel's symbol.
const REGISTER_COUNT: u8 = 0x2f;
/// Of an attribute: its value's size follows in two bytes; otherwise the value is those two bytes.
const SIZED: u8 = 4;
const SYMBOL_BYTES: usize = 24;

/// Registers by the number of the section with the kernel's code.
fn registers(elf: &[u8], sections: &[Section<'_>]) -> Option<BTreeMap<usize, u32>> {
    let contents = |name| {
        let section = sections.iter().find(|section| section.name == name)?;
        elf.get(section.offset..section.offset.checked_add(section.bytes)?)
    };
    let mut found = BTreeMap::new();
    let (Some(mut info), Some(symbols)) = (contents(".nv.info"), contents(".symtab")) else {
        return Some(found);
    };
    while let [format, attribute, rest @ ..] = info {
        let size = usize::from(u16_at(rest, 0)?);
        let value = rest.get(2..)?;
        if *format != SIZED {
            info = value;
            continue;
        }
        if *attribute == REGISTER_COUNT {
            let symbol = u32_at(value, 0)? as usize;
            let section = u16_at(symbols, symbol.checked_mul(SYMBOL_BYTES)?.checked_add(6)?)?;
            found.insert(usize::from(section), u32_at(value, 4)?);
        }
        info = value.get(size..)?;
    }
    Some(found)
}

fn read_ptx(text: &str, major: u32, minor: u32, driver: u32) -> Outcome<Kernels> {
    let mut words = text.split_whitespace();
    let mut kernels = Kernels::new();
    let (mut version, mut target) = (None, None);
    while let Some(word) = words.next() {
        match word {
            ".version" => version = words.next().and_then(ptx_version),
            ".target" => target = words.next().and_then(ptx_target),
            ".entry" => {
                let name = words.next().ok_or(Code::INVALID_PTX)?;
                let name = name.split('(').next().unwrap_or(name);
                let registers = REGISTERS_OF_PTX;
                kernels.insert(
                    name.to_owned(),
                    Resources {
                        registers,
                        shared_bytes: 0,
                    },
                );
            }
            _ => {}
        }
    }
    let (Some(version), Some(target)) = (version, target) else {
        return Err(Code::INVALID_IMAGE);
    };
    if version > versions::newest_ptx(driver) {
        return Err(Code::UNSUPPORTED_PTX_VERSION);
    }
    if target > 10 * major + minor {
        return Err(Code::INVALID_PTX);
    }
    Ok(kernels)
}

fn ptx_version(word: &str) -> Option<(u32, u32)> {
    let (major, minor) = word.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

fn ptx_target(word: &str) -> Option<u32> {
    let digits = word.strip_prefix("sm_")?;
    let end = digits
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(digits.len());
    digits[..end].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PTX: &str = "//\n.version 8.5\n.target sm_80\n.address_size 64\n.visible .entry one(\n.param .u64 a\n)\n{ }\n\
                       .visible .entry two()\n{ }\n";

    fn names(kernels: Outcome<Kernels>) -> Outcome<Vec<String>> {
        kernels.map(|kernels| kernels.into_keys().collect())
    }

    #[test]
    fn ptx_is_taken_by_drivers_and_gpus_that_are_new_enough() {
        let both = Ok(vec!["one".to_owned(), "two".to_owned()]);
        assert_eq!(names(read_ptx(PTX, 8, 7, 12060)), both);
        assert_eq!(names(read_ptx(PTX, 9, 0, 13000)), both);
        assert_eq!(
            names(read_ptx(PTX, 8, 7, 12040)),
            Err(Code::UNSUPPORTED_PTX_VERSION)
        );
        assert_eq!(names(read_ptx(PTX, 7, 2, 12060)), Err(Code::INVALID_PTX));
        assert_eq!(
            names(read_ptx("nonsense", 8, 7, 12060)),
            Err(Code::INVALID_IMAGE)
        );
    }

    #[test]
    fn a_cubin_runs_on_its_major_version_only() {
        assert!(runs_on(80, 8, 9) && runs_on(86, 8, 9) && runs_on(87, 8, 7));
        assert!(!runs_on(89, 8, 6) && !runs_on(80, 9, 0) && !runs_on(100, 11, 0));
        assert!(!runs_on(87, 8, 9) && !runs_on(80, 8, 7), "Orin is alone");
    }

    #[test]
    fn a_cubin_of_a_later_major_version_is_refused() {
        let mut elf = vec![0u8; ELF_HEADER_BYTES];
        elf[..4].copy_from_slice(ELF_MAGIC);
        elf[18..20].copy_from_slice(&EM_CUDA.to_le_bytes());
        (elf[8], elf[20], elf[48]) = (7, 126, 87);
        let old = Config {
            driver: 11040,
            ..Config::default()
        };
        assert_eq!(read_elf(&elf, &old), Err(Code::INVALID_IMAGE));
        elf[20] = 118;
        assert_eq!(read_elf(&elf, &old), Ok(Kernels::new()));
    }

    #[test]
    fn damaged_cubins_are_refused_and_never_read_past_their_end() {
        let orin = Config::default();
        let mut elf = vec![0u8; ELF_HEADER_BYTES];
        elf[..4].copy_from_slice(ELF_MAGIC);
        assert_eq!(read_elf(&elf, &orin), Err(Code::INVALID_IMAGE));
        elf[18..20].copy_from_slice(&EM_CUDA.to_le_bytes());
        (elf[8], elf[20], elf[48]) = (7, 126, 87);
        assert_eq!(read_elf(&elf, &orin), Ok(Kernels::new()));
        let desktop = Config {
            compute: (8, 6),
            ..orin.clone()
        };
        assert_eq!(read_elf(&elf, &desktop), Err(Code::NO_BINARY_FOR_GPU));
        // Sections that lie behind the end.
        for at in [40, 47, 60, 62] {
            let mut damaged = elf.clone();
            damaged[60] = 1;
            damaged[at] = 0xff;
            assert_eq!(
                read_elf(&damaged, &orin),
                Err(Code::INVALID_IMAGE),
                "byte {at}"
            );
        }
    }
}
