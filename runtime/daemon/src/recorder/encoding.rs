//! The thread that encodes pictures: an ordinary one of its own, so that no step waits for it.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, select, tick};
use image::ExtendedColorType;
use image::codecs::jpeg::JpegEncoder;
use punctual_core::Ticket;
use punctual_platform::clock;
use punctual_recording::{Boxes, Picture};

use super::boxes::BoxSource;
use super::pictures::{Gate, PictureSource, Subject};

/// How often it looks: a client of 100 frames a second fills two of its buffers meanwhile. No real-time thread wakes it.
const LOOK: Duration = Duration::from_millis(20);

/// Of 100. A noisy crop of 192x192 has 15 kB.
const QUALITY: u8 = 75;

const SECOND_NS: u64 = 1_000_000_000;

/// What pictures may take of a recording.
pub struct Share {
    bytes_a_second: u64,
    /// Until then it is spent, at that rate; up to a second of it is saved.
    spent_until_ns: u64,
}

impl Share {
    pub fn of(bytes_a_second: u64) -> Self {
        Self {
            bytes_a_second: bytes_a_second.max(1),
            spent_until_ns: 0,
        }
    }

    const fn is_spent(&self, now_ns: u64) -> bool {
        self.spent_until_ns > now_ns
    }

    fn spend(&mut self, bytes: usize, now_ns: u64) {
        let ns = (bytes as u64).saturating_mul(SECOND_NS) / self.bytes_a_second;
        let saved = now_ns.saturating_sub(SECOND_NS);
        self.spent_until_ns = self.spent_until_ns.max(saved).saturating_add(ns);
    }
}

/// What goes to the collector.
pub enum OnPicture {
    Picture(Picture),
    Boxes(Boxes),
}

/// Frames whose boxes are awaited: the newest.
const ENCODED_MAX: usize = 256;

pub struct Encoding {
    pub sources: Vec<PictureSource>,
    /// None without a detector.
    pub boxes: Option<BoxSource>,
    pub gate: Arc<Gate>,
    pub share: Share,
    pub encoded: Sender<OnPicture>,
    /// Frames whose pictures were recorded, the newest first.
    pub recorded: VecDeque<Ticket>,
    /// A picture in red, green and blue.
    pub rgb: Vec<u8>,
}

impl Encoding {
    /// Works until the recorder lets go of its end.
    pub fn serve(mut self, end: &Receiver<Infallible>) {
        let looks = tick(LOOK);
        loop {
            select! {
                recv(looks) -> _ => self.look(),
                recv(end) -> _ => break,
            }
        }
        self.look();
    }

    /// One of each client in turn, so that none takes the whole share. Boxes are taken out before: their pictures were copied
    /// earlier.
    fn look(&mut self) {
        let boxes = self.boxes.as_mut();
        let boxes: Vec<Boxes> = boxes.into_iter().flat_map(BoxSource::take_all).collect();
        let mut sources = std::mem::take(&mut self.sources);
        let mut found = true;
        while found {
            found = false;
            for source in &mut sources {
                found |= source.take(|subject, copy| self.encode(subject, copy));
            }
        }
        self.sources = sources;
        for seen in boxes {
            self.draw(seen);
        }
    }

    /// Boxes without a picture show nothing.
    fn draw(&mut self, seen: Boxes) {
        if let Some(at) = self.recorded.iter().position(|of| *of == seen.ticket) {
            self.recorded.remove(at);
            let _ = self.encoded.try_send(OnPicture::Boxes(seen));
        }
    }

    fn encode(&mut self, subject: &Subject, copy: &[u8]) {
        let now_ns = clock::now_ns();
        if self.share.is_spent(now_ns) {
            return self.gate.leave_out();
        }
        subject.rows.to_rgb(copy, &mut self.rgb);
        let size = subject.rows.crop();
        let mut jpeg = Vec::new();
        let mut encoder = JpegEncoder::new_with_quality(&mut jpeg, QUALITY);
        let encoded = encoder.encode(&self.rgb, size.width, size.height, ExtendedColorType::Rgb8);
        jpeg.shrink_to_fit();
        self.share.spend(jpeg.len(), now_ns);
        self.gate.open_from(self.share.spent_until_ns);
        let picture = Picture {
            task: subject.task,
            ticket: subject.ticket,
            captured: subject.captured,
            jpeg,
        };
        // The collector may get no processor for a while.
        let is_sent = encoded.is_ok() && self.encoded.try_send(OnPicture::Picture(picture)).is_ok();
        if !is_sent {
            return self.gate.leave_out();
        }
        if self.boxes.is_some() {
            self.recorded.truncate(ENCODED_MAX - 1);
            self.recorded.push_front(subject.ticket);
        }
    }
}

#[cfg(test)]
mod tests {
    use crossbeam_channel::bounded;
    use punctual_core::{ClientId, Instant, TaskId, Ticket};
    use punctual_kernels::preprocess::CropRows;
    use punctual_types::{FrameLayout, PixelFormat};

    use super::super::pictures::pool;
    use super::*;

    /// Pictures of 32x16 pixels, four of each of two clients, go in; who has which outcome.
    fn encoded(bytes_a_second: u64) -> (Vec<Picture>, u64) {
        let gate: Arc<Gate> = Arc::default();
        let layout = FrameLayout::packed(PixelFormat::Rgb8, 32, 16);
        let rows = CropRows::whole(&layout).expect("a picture");
        let (mut sinks, sources): (Vec<_>, _) =
            (0..2).map(|_| pool(4, layout.len(), false, &gate)).unzip();
        for (client, sink) in (0..).map(ClientId).zip(&mut sinks) {
            for sequence in 0..4 {
                let ticket = Ticket {
                    client,
                    slot: 0,
                    part: 0,
                    sequence,
                };
                let subject = Subject {
                    task: TaskId(0),
                    ticket,
                    captured: Instant::ZERO,
                    rows,
                };
                sink.write(subject, clock::now_ns(), |copy| {
                    copy.fill(200);
                    true
                });
            }
        }
        let (out, pictures) = bounded(16);
        let mut encoding = Encoding {
            sources,
            gate: Arc::clone(&gate),
            share: Share::of(bytes_a_second),
            boxes: None,
            encoded: out,
            recorded: VecDeque::new(),
            rgb: Vec::new(),
        };
        encoding.look();
        let pictures = pictures.try_iter().filter_map(|sent| match sent {
            OnPicture::Picture(picture) => Some(picture),
            OnPicture::Boxes(_) => None,
        });
        (pictures.collect(), gate.left_out())
    }

    #[test]
    fn pictures_are_encoded_one_of_each_client_in_turn() {
        let (pictures, left_out) = encoded(1_000_000);
        let order: Vec<(u16, u64)> = pictures
            .iter()
            .map(|picture| (picture.ticket.client.0, picture.ticket.sequence))
            .collect();
        assert_eq!(order[..4], [(0, 0), (1, 0), (0, 1), (1, 1)]);
        assert_eq!((order.len(), left_out), (8, 0));
        let decoded = image::load_from_memory(&pictures[0].jpeg).expect("a picture");
        let decoded = decoded.into_rgb8();
        assert_eq!(decoded.dimensions(), (32, 16));
        assert!(
            decoded
                .get_pixel(5, 5)
                .0
                .iter()
                .all(|value| value.abs_diff(200) < 4)
        );
    }

    #[test]
    fn beyond_their_share_pictures_are_left_out_and_counted() {
        let (pictures, left_out) = encoded(1);
        assert_eq!((pictures.len(), left_out), (1, 7));
    }

    #[test]
    fn a_share_is_saved_for_a_second_and_not_longer() {
        let mut share = Share::of(1_000);
        let now_ns = 50 * SECOND_NS;
        for _ in 0..2 {
            assert!(!share.is_spent(now_ns));
            share.spend(600, now_ns);
        }
        assert!(share.is_spent(now_ns) && share.is_spent(now_ns + SECOND_NS / 10));
        assert!(!share.is_spent(now_ns + SECOND_NS / 5));
    }
}
