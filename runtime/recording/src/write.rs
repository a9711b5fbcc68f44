//! Writing a recording.

use std::io::{Seek, Write};

use mcap::records::MessageHeader;
use mcap::{McapError, WriteOptions};
use punctual_core::Instant;

use crate::entry::{CHANNEL, Entry, SCHEMA, Sent, Step};
use crate::segment::Segment;
use crate::setting::{SETTING, Setting};

#[derive(Debug, thiserror::Error)]
#[error("the recording cannot be written: {}", cause(.0))]
pub struct WriteError(#[from] McapError);

/// What the system says, if it is that.
fn cause(error: &McapError) -> &dyn std::fmt::Display {
    match error {
        McapError::Io(error) => error,
        error => error,
    }
}

/// A recording that is being written.
pub struct Writer<W: Write + Seek> {
    file: mcap::Writer<W>,
    channel: u16,
    sequence: u32,
    /// Where other programs' clocks are, ahead of the scheduler's, in ns.
    ahead_ns: i64,
}

impl<W: Write + Seek> Writer<W> {
    /// Begins a file. Its messages have the scheduler's time and `ahead_ns`: what the clock of the rest of the robot is ahead of it.
    ///
    /// # Errors
    /// If nothing can be written.
    pub fn new(out: W, ahead_ns: i64, setting: &Setting) -> Result<Self, WriteError> {
        // A segment is a chunk, and ends one.
        let options = WriteOptions::new()
            .profile("punctual")
            .library(concat!("punctual ", env!("CARGO_PKG_VERSION")))
            .compression(None)
            .chunk_size(None);
        let mut file = options.create(out)?;
        let schema = file.add_schema(SCHEMA, "postcard", &[])?;
        let channel = file.add_channel(schema, CHANNEL, "postcard", &Default::default())?;
        let mut writer = Self {
            file,
            channel,
            sequence: 0,
            ahead_ns,
        };
        let setting = serde_json::to_vec(setting).expect("plain data always serialises");
        writer.attach(SETTING, "application/json", &setting)?;
        Ok(writer)
    }

    /// Adds a file that belongs to the recording: its plan, its manifest.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn attach(&mut self, name: &str, media_type: &str, data: &[u8]) -> Result<(), WriteError> {
        Ok(self.file.attach(&mcap::Attachment {
            log_time: 0,
            create_time: 0,
            name: name.to_owned(),
            media_type: media_type.to_owned(),
            data: data.into(),
        })?)
    }

    /// Begins the segment of this number since the scheduler was made, with its state between two steps; what was written before
    /// is safe from then on.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn segment(
        &mut self,
        number: u64,
        at: Instant,
        state: Option<Vec<u8>>,
    ) -> Result<(), WriteError> {
        self.file.flush()?;
        self.entry(at, &Entry::Segment { number, state })
    }

    /// Writes a segment, whole: it is safe from then on.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn whole(&mut self, segment: &Segment) -> Result<(), WriteError> {
        self.segment(segment.number, segment.from, segment.state.clone())?;
        let mut now = segment.from;
        for entry in segment.entries() {
            match entry {
                Entry::Step(step) => {
                    now = step.now;
                    self.step(step)?;
                }
                Entry::Sent(sent) => self.sent(sent)?,
                Entry::Lost { steps } => self.lost(now, steps)?,
                Entry::Segment { .. } => {}
            }
        }
        Ok(self.file.flush()?)
    }

    /// # Errors
    /// If it cannot be written.
    pub fn step(&mut self, step: Step) -> Result<(), WriteError> {
        self.entry(step.now, &Entry::Step(step))
    }

    /// # Errors
    /// If it cannot be written.
    pub fn sent(&mut self, sent: Sent) -> Result<(), WriteError> {
        self.entry(sent.ended, &Entry::Sent(sent))
    }

    /// Says that steps are missing here.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn lost(&mut self, at: Instant, steps: u64) -> Result<(), WriteError> {
        self.entry(at, &Entry::Lost { steps })
    }

    /// Ends the file.
    ///
    /// # Errors
    /// If its end cannot be written.
    pub fn finish(mut self) -> Result<W, WriteError> {
        self.file.finish()?;
        Ok(self.file.into_inner())
    }

    fn entry(&mut self, at: Instant, entry: &Entry) -> Result<(), WriteError> {
        let data = postcard::to_allocvec(entry).expect("plain data always serialises");
        let log_time = at.as_nanos().saturating_add_signed(self.ahead_ns);
        let header = MessageHeader {
            channel_id: self.channel,
            sequence: self.sequence,
            log_time,
            publish_time: log_time,
        };
        self.sequence = self.sequence.wrapping_add(1);
        Ok(self.file.write_to_known_channel(&header, &data)?)
    }
}
