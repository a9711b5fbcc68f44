//! Reading a recording, from a file that may have been cut off, damaged, or written by anybody.

use std::borrow::Cow;
use std::panic::{AssertUnwindSafe, catch_unwind};

use mcap::records::Record;
use mcap::sans_io::{LinearReadEvent, LinearReader, LinearReaderOptions};
use mcap::{McapError, parse_record};

use crate::entry::{CHANNEL, Entry, SCHEMA};
use crate::setting::{SETTING, Setting};

/// The longest recording that programs read: hours of a busy daemon.
pub const BYTES_MAX: u64 = 4 << 30;

#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error("this is no MCAP file: {0}")]
    NotMcap(#[source] McapError),
    #[error("it has no channel {CHANNEL}: it is no recording of the scheduler")]
    NoChannel,
    #[error(
        "it has the format `{found}`, this program reads `{SCHEMA}`: use the version that wrote it"
    )]
    OtherFormat { found: String },
    #[error("it has no attachment {SETTING}, which says what the scheduler was made from")]
    NoSetting,
    #[error("its attachment {SETTING} cannot be read: {0}")]
    Setting(#[source] serde_json::Error),
    #[error("message {position} of {CHANNEL} cannot be read: {source}")]
    Message {
        position: u64,
        source: postcard::Error,
    },
}

/// How a file ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// As its writer ended it.
    Whole,
    /// Before that, for this reason: what lies behind is lost.
    Cut { why: String },
}

/// A file in memory, or mapped.
pub struct Recording<'f> {
    bytes: &'f [u8],
    channel: u16,
}

/// The longest record that is read: a picture, or the packages that belong to a recording.
const RECORD_BYTES_MAX: usize = 1 << 28;

/// The records of a file, until the first that cannot be read.
///
/// `mcap` copies each record into a buffer of its own, of the length that the file claims: so no length is taken that the file
/// does not have.
struct Records<'f> {
    rest: &'f [u8],
    reader: LinearReader,
}

impl<'f> Records<'f> {
    /// Checks how it begins.
    fn of(bytes: &'f [u8]) -> Result<Self, McapError> {
        if !bytes.starts_with(mcap::MAGIC) {
            return Err(McapError::BadMagic);
        }
        let options = LinearReaderOptions::default()
            .with_skip_end_magic(true)
            .with_validate_chunk_crcs(true)
            .with_record_length_limit(bytes.len().min(RECORD_BYTES_MAX));
        Ok(Self {
            rest: bytes,
            reader: LinearReader::new_with_options(options),
        })
    }

    fn read(&mut self) -> Option<Result<Record<'static>, McapError>> {
        loop {
            match self.reader.next_event()? {
                Ok(LinearReadEvent::ReadRequest(wanted)) => {
                    let (read, rest) = self.rest.split_at(wanted.min(self.rest.len()));
                    self.reader.insert(read.len()).copy_from_slice(read);
                    self.reader.notify_read(read.len());
                    self.rest = rest;
                }
                Ok(LinearReadEvent::Record { data, opcode }) => {
                    return Some(parse_record(opcode, data).map(Record::into_owned));
                }
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

impl Iterator for Records<'_> {
    type Item = Result<Record<'static>, String>;

    /// A damaged length makes `mcap` 0.26 panic where arithmetic is checked: it is not asked again then.
    fn next(&mut self) -> Option<Self::Item> {
        let next = catch_unwind(AssertUnwindSafe(|| self.read()));
        let next = next.unwrap_or_else(|_| Some(Err(McapError::UnexpectedEoc)))?;
        Some(next.map_err(|error| error.to_string()))
    }
}

impl<'f> Recording<'f> {
    /// Finds the channel.
    ///
    /// # Errors
    /// If this is no recording, or one of another format.
    pub fn of(bytes: &'f [u8]) -> Result<Self, ReadError> {
        let records = Records::of(bytes).map_err(ReadError::NotMcap)?;
        let mut schemas: Vec<(u16, String)> = Vec::new();
        for record in records.map_while(Result::ok) {
            match record {
                Record::Schema { header, .. } => schemas.push((header.id, header.name)),
                Record::Channel(channel) if channel.topic == CHANNEL => {
                    let mut of = schemas.into_iter();
                    let schema = of.find(|(id, _)| *id == channel.schema_id);
                    let found = schema.map_or_else(String::new, |(_, name)| name);
                    return if found == SCHEMA {
                        Ok(Self {
                            bytes,
                            channel: channel.id,
                        })
                    } else {
                        Err(ReadError::OtherFormat { found })
                    };
                }
                _ => {}
            }
        }
        Err(ReadError::NoChannel)
    }

    /// What the scheduler was told and decided, in order.
    #[must_use]
    pub fn entries(&self) -> Entries<'f> {
        Entries {
            records: Records::of(self.bytes).expect("it was begun before"),
            channel: self.channel,
            position: 0,
            end: None,
        }
    }

    /// What its scheduler was made from.
    ///
    /// # Errors
    /// If that is missing or damaged.
    pub fn setting(&self) -> Result<Setting, ReadError> {
        let attached = self.attachment(SETTING).ok_or(ReadError::NoSetting)?;
        serde_json::from_slice(&attached).map_err(ReadError::Setting)
    }

    /// The time of day ahead of the scheduler's clock, in ns; none if there is no step. Simulations have their own time: 0.
    #[must_use]
    pub fn ahead_ns(&self) -> Option<i64> {
        let records = Records::of(self.bytes).ok()?;
        records.map_while(Result::ok).find_map(|record| {
            let Record::Message { header, data } = record else {
                return None;
            };
            match postcard::from_bytes(&data) {
                Ok(Entry::Step(step)) if header.channel_id == self.channel => {
                    Some((header.log_time.wrapping_sub(step.now.as_nanos())) as i64)
                }
                _ => None,
            }
        })
    }

    /// A file that belongs to it.
    #[must_use]
    pub fn attachment(&self, name: &str) -> Option<Cow<'f, [u8]>> {
        let records = Records::of(self.bytes).ok()?;
        let mut of = records.map_while(Result::ok);
        of.find_map(|record| match record {
            Record::Attachment { header, data, .. } if header.name == name => Some(data),
            _ => None,
        })
    }
}

/// See [`Recording::entries`].
pub struct Entries<'f> {
    records: Records<'f>,
    channel: u16,
    position: u64,
    end: Option<End>,
}

impl Entries<'_> {
    /// How the file ends; none before it was read to there.
    #[must_use]
    pub fn end(&self) -> Option<&End> {
        self.end.as_ref()
    }

    fn ends(&mut self, end: End) -> Option<Result<Entry, ReadError>> {
        self.end = Some(end);
        None
    }
}

impl Iterator for Entries<'_> {
    type Item = Result<Entry, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.end.is_some() {
            return None;
        }
        loop {
            match self.records.next() {
                None => {
                    let why = "it has no end".to_owned();
                    return self.ends(End::Cut { why });
                }
                Some(Err(why)) => return self.ends(End::Cut { why }),
                Some(Ok(Record::DataEnd(_))) => return self.ends(End::Whole),
                Some(Ok(Record::Message { header, data })) if header.channel_id == self.channel => {
                    let position = self.position;
                    self.position += 1;
                    let entry = postcard::from_bytes(&data);
                    return Some(entry.map_err(|source| ReadError::Message { position, source }));
                }
                Some(Ok(_)) => {}
            }
        }
    }
}
