//! The PTX that each cubin of `kernels/cuda/images` was assembled from. Products do not contain it.
//!
//! The format is `write_ptx` of `kernels/cuda/archives.py`: a header (`PUNCTPTX`, format, texts, cubins), a row a text
//! (offset, bytes compressed and not), a row a cubin (the hash of its bytes, module, image, the texts of head and body),
//! and the texts, compressed (zlib). Numbers are little-endian `u32`s but the hash, names 32 bytes padded with zeros. A
//! head names compiler and target; bodies that are the same for several architectures are there once.
use miniz_oxide::inflate::decompress_to_vec_zlib_with_limit;

static ARCHIVE: &[u8] = include_bytes!("../../../kernels/cuda/images/ptx.images");

/// What the compiler made on the way to a cubin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ptx {
    pub module: &'static str,
    /// The archive that the cubin is in: its architecture (`sm_87`), and the compiler's version where there are several
    /// (`sm_87-cuda11`).
    pub image: &'static str,
    /// All of it, without a zero at its end.
    pub text: String,
}

impl Ptx {
    /// `sm_87`, as its `.target` line says.
    #[must_use]
    pub fn architecture(&self) -> &'static str {
        self.image
            .split_once('-')
            .map_or(self.image, |(name, _)| name)
    }
}

/// The PTX of a cubin; `image` has all of its bytes and no more. `None`: it is none of ours.
///
/// # Panics
/// If the archive is damaged, which is an error of the build.
#[must_use]
pub fn ptx_of(image: &[u8]) -> Option<Ptx> {
    find(ARCHIVE, hash(image))
        .expect("ptx.images is whole: if not, run python3 kernels/cuda/build.py")
}

/// Fowler, Noll, Vo (64 bits, 1a), as archives.py has it.
pub(crate) fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// What is wrong with an archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Damaged;

const MAGIC: &[u8] = b"PUNCTPTX";
const FORMAT: u32 = 1;
const NAME_BYTES: usize = 32;
const HEAD_BYTES: usize = 8 + 3 * 4;
const TEXT_BYTES: usize = 3 * 4;
const ENTRY_BYTES: usize = 8 + 2 * NAME_BYTES + 2 * 4;

/// The entry of a cubin's hash.
fn find(archive: &'static [u8], hash: u64) -> Result<Option<Ptx>, Damaged> {
    let [format, texts, entries] = numbers(archive, MAGIC.len())?;
    if range(archive, 0, MAGIC.len())? != MAGIC || format != FORMAT {
        return Err(Damaged);
    }
    for index in 0..entries as usize {
        let row = HEAD_BYTES + texts as usize * TEXT_BYTES + index * ENTRY_BYTES;
        let [low, high] = numbers(archive, row)?;
        if u64::from(high) << 32 | u64::from(low) != hash {
            continue;
        }
        let names = row + 8;
        let mut whole = Vec::new();
        for of in numbers::<2>(archive, names + 2 * NAME_BYTES)? {
            whole.append(&mut text(archive, of as usize)?);
        }
        return Ok(Some(Ptx {
            module: name(archive, names)?,
            image: name(archive, names + NAME_BYTES)?,
            text: String::from_utf8(whole).map_err(|_| Damaged)?,
        }));
    }
    Ok(None)
}

fn text(archive: &'static [u8], index: usize) -> Result<Vec<u8>, Damaged> {
    let [offset, packed, bytes] = numbers(archive, HEAD_BYTES + index * TEXT_BYTES)?;
    let packed = range(archive, offset as usize, packed as usize)?;
    let text = decompress_to_vec_zlib_with_limit(packed, bytes as usize).map_err(|_| Damaged)?;
    (text.len() == bytes as usize)
        .then_some(text)
        .ok_or(Damaged)
}

fn name(archive: &'static [u8], at: usize) -> Result<&'static str, Damaged> {
    let padded = str::from_utf8(range(archive, at, NAME_BYTES)?).map_err(|_| Damaged)?;
    Ok(padded.trim_end_matches('\0'))
}

fn numbers<const N: usize>(archive: &'static [u8], at: usize) -> Result<[u32; N], Damaged> {
    let words = range(archive, at, 4 * N)?.as_chunks::<4>().0;
    Ok(std::array::from_fn(|i| u32::from_le_bytes(words[i])))
}

fn range(archive: &'static [u8], at: usize, bytes: usize) -> Result<&'static [u8], Damaged> {
    let end = at.checked_add(bytes).ok_or(Damaged)?;
    archive.get(at..end).ok_or(Damaged)
}

#[cfg(test)]
mod tests {
    use punctual_cuda_kernels::images::{Archive, archives};
    use punctual_cuda_kernels::{KERNELS, Module};

    use super::*;

    fn cubins() -> impl Iterator<Item = (&'static Archive, Module)> {
        let of_code = archives().iter().filter(|archive| !archive.is_ptx());
        of_code.flat_map(|archive| {
            let here = |module: &Module| module.runs_on(archive.capability().0);
            Module::ALL
                .into_iter()
                .filter(here)
                .map(move |module| (archive, module))
        })
    }

    #[test]
    fn every_cubin_of_every_archive_has_the_ptx_of_its_own_module_and_architecture() {
        for (archive, module) in cubins() {
            let image = archive.module(module).expect("there");
            let ptx = ptx_of(&image.code).expect("an entry");
            assert_eq!((ptx.image, ptx.module), (archive.name(), module.name()));
            let (major, minor) = archive.capability();
            assert_eq!(ptx.architecture(), format!("sm_{major}{minor}"));
            let target = format!(".target {}", ptx.architecture());
            let targets = ptx.text.lines().filter(|line| line.starts_with(".target"));
            assert_eq!(targets.collect::<Vec<_>>(), [target]);
            assert!(!ptx.text.contains('\0'));
        }
    }

    #[test]
    fn the_ptx_of_a_module_has_its_kernels_and_no_other() {
        for (archive, module) in cubins() {
            let image = archive.module(module).expect("there");
            let text = ptx_of(&image.code).expect("an entry").text;
            let mut entries: Vec<&str> = text
                .split(".visible .entry ")
                .skip(1)
                .map(|rest| rest.split_once('(').expect("parameters").0)
                .collect();
            let of_module = KERNELS.iter().filter(|kernel| kernel.module == module);
            let mut kernels: Vec<&str> = of_module.map(|kernel| kernel.name).collect();
            entries.sort_unstable();
            kernels.sort_unstable();
            assert_eq!(entries, kernels, "{} {}", archive.name(), module.name());
        }
    }

    #[test]
    fn the_interpreter_reads_the_ptx_of_every_image() {
        let mut refused = Vec::new();
        let mut kernels = 0;
        for archive in archives() {
            for module in Module::ALL {
                let Ok(image) = archive.module(module) else {
                    continue;
                };
                let text = if image.is_ptx {
                    String::from_utf8_lossy(&image.code)
                        .trim_end_matches('\0')
                        .to_owned()
                } else {
                    ptx_of(&image.code).expect("an entry").text
                };
                match punctual_ptx::Module::read(&text) {
                    Ok(module) => kernels += module.kernels().count(),
                    Err(error) => {
                        refused.push(format!("{} {}: {error}", archive.name(), module.name()));
                    }
                }
            }
        }
        assert_eq!(refused, Vec::<String>::new());
        println!("{kernels} kernels of {} archives", archives().len());
    }

    #[test]
    fn a_cubin_that_is_none_of_ours_has_no_ptx() {
        let image = archives()[0].module(Module::Probe).expect("there");
        let mut code = image.code.to_vec();
        code[100] ^= 1;
        assert_eq!(ptx_of(&code), None);
        assert_eq!(ptx_of(&image.code[1..]), None);
        assert_eq!(ptx_of(b""), None);
    }

    #[test]
    fn an_archive_cut_short_is_refused() {
        let code = archives()[0].module(Module::Probe).expect("there").code;
        for bytes in [0, 7, 8, 19, 20, 500, 5000, 20_000] {
            assert_eq!(
                find(&ARCHIVE[..bytes], hash(&code)),
                Err(Damaged),
                "{bytes}"
            );
        }
    }
}
