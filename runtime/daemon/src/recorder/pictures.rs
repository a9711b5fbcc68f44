//! Pictures from a client's intake to the thread that encodes them: without an allocation, a lock or a system call.
//!
//! An intake copies what it has into one of a few buffers that were taken at start, and goes on. Where none is free, or where
//! the recording has had its share of pictures, the picture is left out and counted.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use punctual_core::{Instant, TaskId, Ticket};
use punctual_kernels::preprocess::CropRows;
use rtrb::{Consumer, Producer, RingBuffer};

/// What a picture is of, and how its copy is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subject {
    pub task: TaskId,
    pub ticket: Ticket,
    pub captured: Instant,
    pub rows: CropRows,
}

/// From when on pictures are wanted, as the thread that encodes them says, and how many were left out.
#[derive(Debug, Default)]
pub struct Gate {
    opens_ns: AtomicU64,
    left_out: AtomicU64,
}

impl Gate {
    // Relaxed: neither orders anything else.
    pub fn open_from(&self, ns: u64) {
        self.opens_ns.store(ns, Relaxed);
    }

    fn is_open(&self, now_ns: u64) -> bool {
        self.opens_ns.load(Relaxed) <= now_ns
    }

    pub fn leave_out(&self) {
        self.left_out.fetch_add(1, Relaxed);
    }

    pub fn left_out(&self) -> u64 {
        self.left_out.load(Relaxed)
    }
}

#[derive(Debug)]
struct Copied {
    subject: Subject,
    bytes: Box<[u8]>,
}

/// An intake's end.
#[derive(Debug)]
pub struct PictureSink {
    copied: Producer<Copied>,
    free: Consumer<Box<[u8]>>,
    /// Of a picture that could not be copied.
    spare: Option<Box<[u8]>>,
    gate: Arc<Gate>,
    /// Whether whole frames are recorded rather than crops.
    pub of_frames: bool,
}

/// The encoding thread's end.
#[derive(Debug)]
pub struct PictureSource {
    copied: Consumer<Copied>,
    free: Producer<Box<[u8]>>,
}

/// Buffers of `bytes` each, the only allocation. Their memory is there: no page of it is touched for the first time later.
pub fn pool(
    buffers: usize,
    bytes: usize,
    of_frames: bool,
    gate: &Arc<Gate>,
) -> (PictureSink, PictureSource) {
    let (copied, copied_out) = RingBuffer::new(buffers);
    let (mut free, free_out) = RingBuffer::new(buffers);
    for _ in 0..buffers {
        // Written, as memory of zeros alone is not there yet.
        let _ = free.push(vec![u8::MAX; bytes].into_boxed_slice());
    }
    let sink = PictureSink {
        copied,
        free: free_out,
        spare: None,
        gate: Arc::clone(gate),
        of_frames,
    };
    let source = PictureSource {
        copied: copied_out,
        free,
    };
    (sink, source)
}

impl PictureSink {
    /// Has `copy` fill a buffer of as many bytes as the picture has; it may find that it cannot.
    pub fn write(&mut self, subject: Subject, now_ns: u64, copy: impl FnOnce(&mut [u8]) -> bool) {
        let written = self.gate.is_open(now_ns) && self.fill(subject, copy).is_some();
        if !written {
            self.gate.leave_out();
        }
    }

    fn fill(&mut self, subject: Subject, copy: impl FnOnce(&mut [u8]) -> bool) -> Option<()> {
        let mut bytes = self.spare.take().or_else(|| self.free.pop().ok())?;
        let part = bytes.get_mut(..subject.rows.copy_len());
        if !part.is_some_and(copy) {
            self.spare = Some(bytes);
            return None;
        }
        // There is room: the ring holds all buffers.
        self.copied.push(Copied { subject, bytes }).ok()
    }
}

impl PictureSource {
    /// Takes the oldest out, for as long as it is looked at; false if there is none.
    pub fn take(&mut self, look: impl FnOnce(&Subject, &[u8])) -> bool {
        let Ok(Copied { subject, bytes }) = self.copied.pop() else {
            return false;
        };
        look(&subject, &bytes);
        let _ = self.free.push(bytes);
        true
    }
}

#[cfg(test)]
mod tests {
    use punctual_core::ClientId;
    use punctual_types::{FrameLayout, PixelFormat};

    use super::*;

    const BYTES: usize = 4 * 2;

    fn subject(sequence: u64) -> Subject {
        let layout = FrameLayout::packed(PixelFormat::Gray8, 4, 2);
        Subject {
            task: TaskId(1),
            ticket: Ticket {
                client: ClientId(2),
                slot: 3,
                part: 0,
                sequence,
            },
            captured: Instant::from_nanos(sequence),
            rows: CropRows::whole(&layout).expect("a picture"),
        }
    }

    fn fill(sink: &mut PictureSink, sequence: u64) {
        sink.write(subject(sequence), 0, |bytes| {
            bytes.fill(sequence as u8);
            true
        });
    }

    fn taken(source: &mut PictureSource) -> Vec<u64> {
        let mut taken = Vec::new();
        let mut look = |subject: &Subject, bytes: &[u8]| {
            assert_eq!(bytes, [subject.ticket.sequence as u8; BYTES]);
            taken.push(subject.ticket.sequence);
        };
        while source.take(&mut look) {}
        taken
    }

    #[test]
    fn pictures_come_out_in_order_and_their_buffers_are_filled_again() {
        let gate = Arc::default();
        let (mut sink, mut source) = pool(2, BYTES, false, &gate);
        for round in 0..5 {
            fill(&mut sink, 2 * round);
            fill(&mut sink, 2 * round + 1);
            assert_eq!(taken(&mut source), [2 * round, 2 * round + 1]);
        }
        assert_eq!(gate.left_out(), 0);
    }

    #[test]
    fn without_a_free_buffer_a_picture_is_left_out_and_counted() {
        let gate = Arc::default();
        let (mut sink, mut source) = pool(2, BYTES, false, &gate);
        (0..5).for_each(|sequence| fill(&mut sink, sequence));
        assert_eq!((taken(&mut source), gate.left_out()), (vec![0, 1], 3));
    }

    #[test]
    fn behind_a_closed_gate_nothing_is_copied() {
        let gate: Arc<Gate> = Arc::default();
        let (mut sink, mut source) = pool(2, BYTES, false, &gate);
        gate.open_from(1);
        sink.write(subject(7), 0, |_| panic!("the gate is closed"));
        assert_eq!((taken(&mut source), gate.left_out()), (vec![], 1));
    }

    #[test]
    fn the_buffer_of_a_picture_that_could_not_be_copied_is_used_for_the_next() {
        let gate = Arc::default();
        let (mut sink, mut source) = pool(1, BYTES, false, &gate);
        sink.write(subject(1), 0, |_| false);
        fill(&mut sink, 2);
        assert_eq!((taken(&mut source), gate.left_out()), (vec![2], 1));
        let (mut small, mut source) = pool(1, BYTES - 1, false, &gate);
        small.write(subject(3), 0, |_| panic!("it does not fit"));
        assert!(taken(&mut source).is_empty());
    }
}
