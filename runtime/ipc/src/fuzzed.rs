//! For the fuzz targets and the replay of their corpora, not for users: bytes of anybody's choice
//! into each decoder. What is accepted must be possible, and encode to what was read.

use std::sync::atomic::Ordering;

use crate::client::{ClientChannel, Disconnected, Outputs};
use crate::description::Description;
use crate::descriptor::{Crop, Descriptor, Expected};
use crate::frame::{FrameSpec, Layout, PixelFormat};
use crate::handshake::{
    Agreement, OutputTerms, Reply, StreamTerms, decode_answer, decode_opening, encode_answer,
    encode_opening,
};
use crate::internals::{pair_with_outputs, small_terms, terms_with_outputs};
use crate::layout::{OutputLayout, RequestLayout, ResultLayout};
use crate::result::ResultRecord;
use crate::ring::Cell;

/// The first message of either side, as it comes from the socket.
///
/// # Panics
/// If something is accepted that does not survive the way.
pub fn handshake(message: &[u8]) {
    description(message);
    if let Ok((agreement, hello)) = decode_opening(message) {
        assert!(agreement.version <= Agreement::newest().version);
        let again = decode_opening(&encode_opening(&hello)).expect("our own");
        assert_eq!(again.1, hello);
    }
    if let Ok((agreement, reply)) = decode_answer(message) {
        if let Reply::Welcome(terms) = &reply {
            possible_if_checked(terms);
        }
        let again = decode_answer(&encode_answer(Some(agreement), &reply));
        assert_eq!(again.expect("our own"), (agreement, reply));
    }
}

/// What a daemon tells about its answers: whatever is accepted lies inside of the areas.
///
/// # Panics
/// If something is accepted that does not, or does not survive the way.
pub fn description(bytes: &[u8]) {
    let (terms, _) = terms_with_outputs();
    for terms in [terms, small_terms()] {
        let Ok(read) = Description::decode(bytes, &terms) else {
            continue;
        };
        let area = terms.outputs.area_bytes;
        for exit in 0..=u8::MAX {
            for output in read.outputs(exit) {
                assert!(output.offset >= 64 && output.offset + output.bytes <= area);
            }
        }
        let floats = (0..4).filter_map(|at| read.vector_place(at)).next_back();
        assert!(floats.is_none_or(|place| place.end <= usize::from(terms.vectors)));
        if let Ok(again) = Description::decode(&read.encode(), &terms) {
            assert_eq!(again.encode(), read.encode());
        }
    }
}

/// What the client tells about a frame: the stream's terms, then a descriptor against them.
///
/// # Panics
/// If a descriptor is accepted that leaves them, or a frame that leaves its slot.
pub fn metadata(script: &[u8]) {
    let mut script = Words(script);
    let format = PixelFormat::ALL[script.word() as usize % PixelFormat::ALL.len()];
    let small = |word: u64| (word % 5000) as u32;
    let (width, height) = (small(script.word()), small(script.word()));
    let layout = Layout {
        offset: script.word() as u32,
        row_stride: script.word() as u32,
        chroma_offset: script.word() as u32,
        chroma_stride: script.word() as u32,
    };
    let packed = FrameSpec::packed(format, width, height);
    let frame = match script.word() % 4 {
        0 => packed,
        1 => FrameSpec::strided(format, width, height, layout.row_stride),
        2 => FrameSpec {
            offset: layout.offset,
            ..packed
        },
        _ => FrameSpec {
            offset: layout.offset,
            row_stride: layout.row_stride,
            chroma_offset: layout.chroma_offset,
            chroma_stride: layout.chroma_stride,
            ..packed
        },
    };
    let terms = StreamTerms {
        slots: script.word() as u16,
        results: script.word() as u32,
        frame,
        crop_width: small(script.word()),
        crop_height: small(script.word()),
        outputs: OutputTerms {
            description_bytes: script.word() as u32,
            areas: script.word() as u16,
            area_bytes: script.word() as u32,
        },
        vectors: script.word() as u16,
        records: script.word() as u8,
        ..small_terms()
    };
    if possible_if_checked(&terms) {
        descriptor(&terms, &script.cell());
    }
}

fn possible_if_checked(terms: &StreamTerms) -> bool {
    if terms.check().is_err() {
        return false;
    }
    let requests = RequestLayout::of(terms, false);
    let results = ResultLayout::of(terms);
    let last = requests.slot(terms.slots - 1) + requests.slot_bytes;
    assert!(last <= requests.bytes && results.results.end() <= results.bytes);
    assert!(terms.frame.bytes() <= requests.slot_bytes as u64);
    assert!(requests.released(terms.outputs.areas) <= requests.vectors(0));
    assert!(requests.vectors(terms.slots) <= requests.slot(0));
    let outputs = OutputLayout::of(terms);
    assert!(outputs.area(terms.outputs.areas) <= outputs.bytes);
    true
}

fn descriptor(terms: &StreamTerms, cell: &Cell) {
    let (format, crop_max) = (terms.frame.format, terms.crop_max());
    let expected = Expected::first(terms.stream, terms.slots, format, crop_max);
    // Right but for what the script changes, or hardly anything would get through.
    let mut right = Descriptor {
        sequence: 1,
        captured_ns: 0,
        deadline_ns: None,
        slot: 0,
        crop: Crop::default(),
        egress_ns: 0,
        task: 0,
    }
    .encode(1, terms.stream, terms.frame.format.code());
    for (word, noise) in right.iter_mut().zip(cell) {
        *word ^= noise;
    }
    if let Ok((descriptor, generation)) = Descriptor::decode(&right, &expected) {
        assert!(descriptor.slot < terms.slots);
        assert!(descriptor.crop.x + terms.crop_width <= terms.frame.width);
        assert!(descriptor.crop.y + terms.crop_height <= terms.frame.height);
        let again = descriptor.encode(generation, terms.stream, terms.frame.format.code());
        assert_eq!(again, right);
    }
}

/// A daemon that writes what it likes into the results: the client reads records that make sense,
/// or learns that its daemon does not.
///
/// # Panics
/// If a record is accepted that encodes to something else.
pub fn results(script: &[u8]) {
    let (terms, _) = terms_with_outputs();
    let layout = ResultLayout::of(&terms);
    let (server, mut client) = pair_with_outputs();
    let memory = server.results_memory();
    let mut script = Words(script);
    while !script.0.is_empty() {
        match script.word() % 8 {
            0 => {
                let slot = client.slot();
                // Refused when too many results wait.
                let _ = slot.map(|mut slot| {
                    let _ = slot.set_vector("speed", &[0.0; 2]);
                    slot.submit(1, None, Crop::default())
                });
            }
            1..4 => {
                let at = layout.results.cells + 8 * (script.word() as usize % 32);
                memory.write_word(at, script.word());
            }
            4 => {
                let at = 4 * (script.word() as usize % (layout.results.cells / 4));
                let word = memory.word32(at);
                word.store(script.word() as u32, Ordering::Relaxed);
            }
            5 => {
                let tail = memory.word32(layout.results.tail);
                tail.fetch_add(1 + script.word() as u32 % 2, Ordering::Relaxed);
            }
            _ => {
                if read_all(&mut client).is_err() {
                    return;
                }
            }
        }
    }
}

fn read_all(client: &mut ClientChannel) -> Result<(), Disconnected> {
    while let Some(record) = client.take()? {
        assert_eq!(ResultRecord::decode(&record.encode()), Ok(record));
        let outputs = client.outputs(&record);
        for tensor in outputs.iter().flat_map(Outputs::iter) {
            assert_eq!(tensor.bytes().len(), 32);
            let _ = tensor.is_finite();
        }
    }
    Ok(())
}

/// A record alone.
///
/// # Panics
/// If one is accepted that encodes to something else.
pub fn record(bytes: &[u8]) {
    let cell = Words(bytes).cell();
    if let Ok(record) = ResultRecord::decode(&cell) {
        assert_eq!(record.encode(), cell);
    }
}

/// Words out of bytes: short ones for small numbers, so that a fuzzer finds them; zeros when they have run out.
struct Words<'b>(&'b [u8]);

impl Words<'_> {
    fn bytes<const N: usize>(&mut self) -> [u8; N] {
        std::array::from_fn(|_| {
            let Some((&byte, rest)) = self.0.split_first() else {
                return 0;
            };
            self.0 = rest;
            byte
        })
    }

    fn word(&mut self) -> u64 {
        match self.bytes::<1>() {
            [0xFF] => u64::from_le_bytes(self.bytes()),
            [0xFE] => u64::from(u32::from_le_bytes(self.bytes())),
            [0xFD] => u64::from(u16::from_le_bytes(self.bytes())),
            [small] => u64::from(small),
        }
    }

    fn cell(&mut self) -> Cell {
        std::array::from_fn(|_| u64::from_le_bytes(self.bytes()))
    }
}
