//! The header and the table of sections: the part of a package that is read before anything is
//! believed. docs/package.md gives both byte for byte.

use super::error::{PackageError, SectionProblem};
use super::format::{HEADER_BYTES, MAGIC, SECTIONS_MAX, SectionKind, VERSION};
use super::hash::ContentHash;

/// The header's bytes before its hash, which the hash covers together with the table.
const HASHED_BYTES: usize = HEADER_BYTES - 32;
/// Kind, parameter, offset, length, hash, zeros.
const ENTRY_BYTES: usize = 64;
/// Sections begin at multiples of this: a page of memory, so that they can be mapped alone.
const SECTION_ALIGNMENT: u64 = 4096;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Section {
    pub(super) kind: SectionKind,
    /// Bytes from the beginning of the file.
    pub(super) offset: u64,
    /// Bytes.
    pub(super) length: u64,
    pub(super) hash: ContentHash,
}

impl Section {
    pub(super) fn end(&self) -> u64 {
        self.offset + self.length
    }

    /// The section's bytes in the file that it was checked against.
    pub(super) fn of<'f>(&self, file: &'f [u8]) -> &'f [u8] {
        &file[self.offset as usize..self.end() as usize]
    }

    /// The bytes that the package's hash covers: what the section holds, not where.
    pub(super) fn identity(&self) -> [u8; 48] {
        let (kind, parameter) = self.kind.code();
        let mut bytes = [0; 48];
        bytes[..4].copy_from_slice(&kind.to_le_bytes());
        bytes[4..8].copy_from_slice(&parameter.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.length.to_le_bytes());
        bytes[16..].copy_from_slice(&self.hash.0);
        bytes
    }

    fn encode(&self) -> [u8; ENTRY_BYTES] {
        let (kind, parameter) = self.kind.code();
        let mut bytes = [0; ENTRY_BYTES];
        bytes[..4].copy_from_slice(&kind.to_le_bytes());
        bytes[4..8].copy_from_slice(&parameter.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.offset.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.length.to_le_bytes());
        bytes[24..56].copy_from_slice(&self.hash.0);
        bytes
    }

    fn decode(bytes: &[u8]) -> Result<Self, SectionProblem> {
        let (kind, parameter) = (u32_at(bytes, 0), u32_at(bytes, 4));
        let known = SectionKind::of_code(kind, parameter);
        Ok(Self {
            kind: known.ok_or(SectionProblem::Unknown { kind, parameter })?,
            offset: u64_at(bytes, 8),
            length: u64_at(bytes, 16),
            hash: ContentHash(array_at(bytes, 24)),
        })
    }
}

/// Puts sections of these kinds, lengths and hashes behind each other.
pub(super) fn place(sections: &[(SectionKind, u64, ContentHash)]) -> Vec<Section> {
    let mut end = (HEADER_BYTES + sections.len() * ENTRY_BYTES) as u64;
    let placed = sections.iter().map(|&(kind, length, hash)| {
        let offset = end.next_multiple_of(SECTION_ALIGNMENT);
        end = offset + length;
        Section {
            kind,
            offset,
            length,
            hash,
        }
    });
    placed.collect()
}

/// The bytes of header and table.
pub(super) fn encode(sections: &[Section]) -> Vec<u8> {
    let end = sections.last().map_or(0, Section::end);
    let mut bytes = Vec::with_capacity(HEADER_BYTES + sections.len() * ENTRY_BYTES);
    bytes.extend_from_slice(&MAGIC);
    bytes.extend_from_slice(&VERSION.to_le_bytes());
    bytes.extend_from_slice(&(sections.len() as u32).to_le_bytes());
    bytes.extend_from_slice(&end.to_le_bytes());
    bytes.resize(HEADER_BYTES, 0);
    bytes.extend(sections.iter().flat_map(Section::encode));
    let hash = hash_of(&bytes);
    bytes[HASHED_BYTES..HEADER_BYTES].copy_from_slice(&hash.0);
    bytes
}

/// The sections of a file, each within it, in their order, with nothing but zeros between them.
pub(super) fn decode(file: &[u8]) -> Result<Vec<Section>, PackageError> {
    let count = check_header(file)?;
    let table = HEADER_BYTES + count * ENTRY_BYTES;
    let Some(head) = file.get(..table) else {
        let bytes = file.len();
        return Err(PackageError::Truncated { bytes });
    };
    let (expected, found) = (ContentHash(array_at(head, HASHED_BYTES)), hash_of(head));
    if found != expected {
        return Err(PackageError::Table { expected, found });
    }
    let mut sections: Vec<Section> = Vec::with_capacity(count);
    for (index, entry) in head[HEADER_BYTES..].chunks_exact(ENTRY_BYTES).enumerate() {
        let wrong = |problem| PackageError::Section { index, problem };
        let section = Section::decode(entry).map_err(wrong)?;
        let end = sections.last().map_or(table as u64, Section::end);
        if sections
            .last()
            .is_some_and(|last| last.kind >= section.kind)
        {
            return Err(wrong(SectionProblem::Order(section.kind)));
        }
        check_extent(&section, end, file.len() as u64).map_err(wrong)?;
        check_zeros(file, end, section.offset)?;
        sections.push(section);
    }
    let promised = sections.last().map_or(0, Section::end);
    if promised != file.len() as u64 {
        let found = file.len() as u64;
        return Err(PackageError::Length { promised, found });
    }
    // What is reserved is zero, as the encoder leaves it.
    let again = encode(&sections);
    let differs =
        |&at: &usize| head[at] != again[at] && !(HASHED_BYTES..HEADER_BYTES).contains(&at);
    match (0..table).find(differs) {
        Some(at) => Err(PackageError::Padding { at: at as u64 }),
        None => Ok(sections),
    }
}

/// The number of sections, at most [`SECTIONS_MAX`].
fn check_header(file: &[u8]) -> Result<usize, PackageError> {
    if let Some(found) = file.first_chunk()
        && *found != MAGIC
    {
        return Err(PackageError::Magic);
    }
    if file.len() >= 12 {
        let found = u32_at(file, 8);
        if found != VERSION {
            return Err(PackageError::Version { found });
        }
    }
    if file.len() < HEADER_BYTES {
        let bytes = file.len();
        return Err(PackageError::Truncated { bytes });
    }
    let (promised, found) = (u64_at(file, 16), file.len() as u64);
    if promised != found {
        return Err(PackageError::Length { promised, found });
    }
    let found = u32_at(file, 12);
    if !(1..=SECTIONS_MAX).contains(&found) {
        return Err(PackageError::SectionCount { found });
    }
    Ok(found as usize)
}

fn check_extent(section: &Section, after: u64, file: u64) -> Result<(), SectionProblem> {
    let expected = after.next_multiple_of(SECTION_ALIGNMENT);
    if section.offset != expected {
        let found = section.offset;
        return Err(SectionProblem::Offset { found, expected });
    }
    let wrong = |expected| SectionProblem::Length {
        section: section.kind,
        found: section.length,
        expected,
    };
    let end = section.offset.checked_add(section.length);
    if section.length == 0 || end.is_none_or(|end| end > file) {
        return Err(wrong("1 to what the file still has"));
    }
    if section.kind.is_floats() && !section.length.is_multiple_of(4) {
        return Err(wrong("a multiple of 4"));
    }
    Ok(())
}

/// Between two sections that lie in the file.
fn check_zeros(file: &[u8], from: u64, to: u64) -> Result<(), PackageError> {
    let gap = &file[from as usize..to as usize];
    match gap.iter().position(|&byte| byte != 0) {
        Some(at) => Err(PackageError::Padding {
            at: from + at as u64,
        }),
        None => Ok(()),
    }
}

/// Of header and table, without the place in between where the hash stands.
fn hash_of(head: &[u8]) -> ContentHash {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&head[..HASHED_BYTES]);
    hasher.update(&head[HEADER_BYTES..]);
    ContentHash(*hasher.finalize().as_bytes())
}

fn array_at<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let field = bytes[at..].first_chunk();
    *field.expect("the fields lie within their record")
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(array_at(bytes, at))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(array_at(bytes, at))
}
