//! The three memory files of a client, as the daemon makes them.

use punctual_platform::OsError;
use punctual_platform::areas::{self, Area};
use punctual_platform::shared_memory::{Access, MemoryFile, Seals};

use crate::handshake::StreamTerms;
use crate::layout::{RequestLayout, ResultLayout};
use crate::region::Region;

/// A client's memory files, our mappings of them, and the areas of the last.
pub(crate) struct Memory {
    pub(crate) request_file: MemoryFile,
    pub(crate) result_file: MemoryFile,
    pub(crate) output_file: MemoryFile,
    pub(crate) requests: Region,
    pub(crate) results: Region,
    pub(crate) areas: Vec<Area>,
}

impl Memory {
    /// For a client with these terms and the encoded description of them, which may have its payload elsewhere.
    pub(crate) fn create(
        terms: &StreamTerms,
        description: &[u8],
        import_buffers: bool,
    ) -> Result<Self, OsError> {
        let requests = RequestLayout::of(terms, import_buffers);
        let results = ResultLayout::new(terms.slots, terms.results);
        let request_file = MemoryFile::create(c"punctual-requests", requests.bytes)?;
        let result_file = MemoryFile::create(c"punctual-results", results.bytes)?;
        let (count, bytes) = (terms.outputs.areas, terms.outputs.area_bytes);
        let (count, bytes) = (usize::from(count), bytes as usize);
        let (output_file, areas) = areas::shared(c"punctual-outputs", description, count, bytes)?;
        // The client gets the file too, and could otherwise add seals of its own.
        request_file.seal(Seals::SEAL)?;
        // We only read what the client writes, and it only reads what we write.
        let requests = Region::of(request_file.map(Access::Read)?);
        let results = Region::of(result_file.map(Access::ReadWrite)?);
        // After our own mapping: no other can be writable, and no process can punch holes.
        result_file.seal(Seals::FUTURE_WRITE.and(Seals::SEAL))?;
        Ok(Self {
            request_file,
            result_file,
            output_file,
            requests,
            results,
            areas,
        })
    }
}
