//! A part of a recording in memory: a state, and what followed.

use punctual_core::Instant;

use crate::entry::{Entry, Note};
use crate::pictures::{Boxes, Picture};

/// The scheduler's state between two steps, and the entries from there to the next segment.
#[derive(Clone, Debug, PartialEq)]
pub struct Segment {
    /// Its position since the scheduler was made.
    pub number: u64,
    /// When it begins.
    pub from: Instant,
    /// None: of a scheduler that was just made, or unknown.
    pub state: Option<Vec<u8>>,
    /// The time of its last step.
    to: Instant,
    /// As they are written into a file, one behind the other.
    entries: Vec<u8>,
    notes: Vec<Note>,
    pictures: Vec<Picture>,
    boxes: Vec<Boxes>,
}

impl Segment {
    #[must_use]
    pub const fn new(number: u64, from: Instant, state: Option<Vec<u8>>) -> Self {
        Self {
            number,
            from,
            state,
            to: from,
            entries: Vec::new(),
            notes: Vec::new(),
            pictures: Vec::new(),
            boxes: Vec::new(),
        }
    }

    /// Says when it begins, as long as it is empty.
    pub(crate) fn begins(&mut self, from: Instant) {
        (self.from, self.to) = (from, from);
    }

    pub fn push(&mut self, entry: &Entry) {
        if let Entry::Step(step) = entry {
            self.to = self.to.max(step.now);
        }
        let bytes = std::mem::take(&mut self.entries);
        let bytes = postcard::to_extend(entry, bytes);
        self.entries = bytes.expect("plain data always serialises");
    }

    pub fn note(&mut self, note: Note) {
        self.notes.push(note);
    }

    #[must_use]
    pub fn notes(&self) -> &[Note] {
        &self.notes
    }

    pub fn picture(&mut self, picture: Picture) {
        self.pictures.push(picture);
    }

    pub fn boxes(&mut self, boxes: Boxes) {
        self.boxes.push(boxes);
    }

    /// What was seen on pictures, of this segment or of one before.
    #[must_use]
    pub fn seen(&self) -> &[Boxes] {
        &self.boxes
    }

    /// Those that were encoded while it was the newest; their verdicts may be in another.
    #[must_use]
    pub fn pictures(&self) -> &[Picture] {
        &self.pictures
    }

    /// The time of its last step; where it begins, if it has none.
    #[must_use]
    pub const fn to(&self) -> Instant {
        self.to
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The memory that it takes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let notes = self.notes.iter().map(|note| note.json.capacity());
        let state = self.state.as_ref().map_or(0, Vec::capacity);
        let pictures = self.pictures.iter().map(|picture| picture.jpeg.capacity());
        let boxes = self.boxes.iter().map(|seen| size_of_val(&seen.boxes[..]));
        let pictures = pictures.sum::<usize>() + boxes.sum::<usize>();
        self.entries.capacity() + state + notes.sum::<usize>() + pictures
    }

    /// What followed its state.
    pub fn entries(&self) -> impl Iterator<Item = Entry> {
        let mut rest = &self.entries[..];
        std::iter::from_fn(move || {
            let (entry, behind) = (!rest.is_empty()).then(|| {
                postcard::take_from_bytes::<Entry>(rest).expect("they were written here")
            })?;
            rest = behind;
            Some(entry)
        })
    }
}
