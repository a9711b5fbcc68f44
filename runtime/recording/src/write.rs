//! Writing a recording.

use std::collections::BTreeMap;
use std::io::{Seek, Write};

use mcap::records::MessageHeader;
use mcap::{McapError, WriteOptions};
use punctual_core::{Action, ClientId, Instant, TaskId};

use crate::entry::{CHANNEL, Entry, NOTES, Note, SCHEMA, Sent, Step};
use crate::messages::{Message, Messages, Topic};
use crate::pictures::{Boxes, Labels, Picture, PictureTopic, Time, annotation};
use crate::segment::Segment;
use crate::setting::{Names, SETTING, Setting};

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
    plots: Option<Plots>,
    /// The channel of notes, if it has one.
    notes: Option<u16>,
    pictures: Option<Pictures>,
    sequence: u32,
    /// Where other programs' clocks are, ahead of the scheduler's, in ns.
    ahead_ns: i64,
}

/// The messages for plots, and the channels that they go to.
struct Plots {
    messages: Messages,
    channels: Vec<u16>,
}

/// What channels of pictures and their annotations are made from, once there is something for them.
struct Pictures {
    names: Names,
    /// By task.
    labels: Vec<Labels>,
    image: u16,
    annotations: u16,
}

impl Pictures {
    const fn schema(&self, topic: PictureTopic) -> u16 {
        match topic {
            PictureTopic::Image => self.image,
            PictureTopic::Annotations => self.annotations,
        }
    }
}

impl<W: Write + Seek> Writer<W> {
    /// Begins a file, with the channels for plots ([`Topic`]). Its messages have the scheduler's time and `ahead_ns`: what the clock
    /// of the rest of the robot is ahead of it.
    ///
    /// # Errors
    /// If nothing can be written.
    pub fn new(out: W, ahead_ns: i64, setting: &Setting) -> Result<Self, WriteError> {
        let mut writer = Self::bare(out, ahead_ns, setting)?;
        writer.plots = Some(Plots::begin(&mut writer.file, setting)?);
        Ok(writer)
    }

    /// As [`Writer::new`], without the channels for plots: they are most of a file.
    ///
    /// # Errors
    /// If nothing can be written.
    pub fn bare(out: W, ahead_ns: i64, setting: &Setting) -> Result<Self, WriteError> {
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
            plots: None,
            notes: None,
            pictures: None,
            sequence: 0,
            ahead_ns,
        };
        let setting = serde_json::to_vec(setting).expect("plain data always serialises");
        writer.attach(SETTING, "application/json", &setting)?;
        Ok(writer)
    }

    /// Adds the channel of notes, which are as this JSON Schema says. Without it, they are left out.
    ///
    /// # Errors
    /// If nothing can be written.
    pub fn with_notes(mut self, schema: &str) -> Result<Self, WriteError> {
        let schema = self
            .file
            .add_schema("punctual.note", "jsonschema", schema.as_bytes())?;
        let channel = self
            .file
            .add_channel(schema, NOTES, "json", &Default::default())?;
        self.notes = Some(channel);
        Ok(self)
    }

    /// Adds pictures, and what verdicts say about them, of tasks of these names and labels. Without it, they are left out.
    ///
    /// # Errors
    /// If nothing can be written.
    pub fn with_pictures(mut self, names: &Names, labels: &[Labels]) -> Result<Self, WriteError> {
        let mut schema = |topic: PictureTopic| {
            let encoding = topic.encodings().schema;
            self.file
                .add_schema(topic.schema_name(), encoding, &topic.schema())
        };
        self.pictures = Some(Pictures {
            names: names.clone(),
            labels: labels.to_vec(),
            image: schema(PictureTopic::Image)?,
            annotations: schema(PictureTopic::Annotations)?,
        });
        Ok(self)
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

    /// Writes entries in their order; what has no time of its own has that of the step before it, at first `now`.
    ///
    /// # Errors
    /// If one cannot be written.
    pub fn append(
        &mut self,
        mut now: Instant,
        entries: impl IntoIterator<Item = Entry>,
    ) -> Result<(), WriteError> {
        for entry in entries {
            match entry {
                Entry::Segment { number, state } => self.segment(number, now, state)?,
                Entry::Step(step) => {
                    now = step.now;
                    self.step(step)?;
                }
                Entry::Sent(sent) => self.sent(sent)?,
                Entry::Lost { steps } => self.lost(now, steps)?,
            }
        }
        Ok(())
    }

    /// Writes a segment, whole: it is safe from then on.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn whole(&mut self, segment: &Segment) -> Result<(), WriteError> {
        self.segment(segment.number, segment.from, segment.state.clone())?;
        self.append(segment.from, segment.entries())?;
        for note in segment.notes() {
            self.note(note)?;
        }
        for picture in segment.pictures() {
            self.picture(picture)?;
        }
        for seen in segment.seen() {
            self.boxes(seen)?;
        }
        Ok(self.file.flush()?)
    }

    /// # Errors
    /// If it cannot be written.
    pub fn step(&mut self, step: Step) -> Result<(), WriteError> {
        self.annotations(&step)?;
        self.entry(step.now, &Entry::Step(step))
    }

    /// # Errors
    /// If it cannot be written.
    pub fn sent(&mut self, sent: Sent) -> Result<(), WriteError> {
        self.entry(sent.ended, &Entry::Sent(sent))
    }

    /// # Errors
    /// If it cannot be written.
    pub fn note(&mut self, note: &Note) -> Result<(), WriteError> {
        match self.notes {
            Some(channel) => self.write(channel, note.at, note.json.as_bytes()),
            None => Ok(()),
        }
    }

    /// # Errors
    /// If it cannot be written.
    pub fn picture(&mut self, picture: &Picture) -> Result<(), WriteError> {
        let Some(pictures) = &self.pictures else {
            return Ok(());
        };
        let message = picture.message(&pictures.names, self.time_of_day(picture.captured));
        let (task, client) = (picture.task, picture.ticket.client);
        self.on_picture(
            PictureTopic::Image,
            task,
            client,
            picture.captured,
            &message,
        )
    }

    /// # Errors
    /// If it cannot be written.
    pub fn boxes(&mut self, seen: &Boxes) -> Result<(), WriteError> {
        let Some(pictures) = &self.pictures else {
            return Ok(());
        };
        let at = self.time_of_day(seen.captured);
        let message = seen.message(&pictures.names, &pictures.labels, at);
        let (task, client) = (seen.task, seen.ticket.client);
        let topic = PictureTopic::Annotations;
        self.on_picture(topic, task, client, seen.captured, &message)
    }

    /// What the verdicts of a step say about their pictures.
    fn annotations(&mut self, step: &Step) -> Result<(), WriteError> {
        for action in &step.actions {
            let (Action::Reply(reply), Some(pictures)) = (action, &self.pictures) else {
                continue;
            };
            let at = self.time_of_day(reply.captured);
            if let Some(message) = annotation(&pictures.names, &pictures.labels, reply, at) {
                let (task, client) = (reply.task, reply.ticket.client);
                let topic = PictureTopic::Annotations;
                self.on_picture(topic, task, client, reply.captured, &message)?;
            }
        }
        Ok(())
    }

    fn on_picture(
        &mut self,
        topic: PictureTopic,
        task: TaskId,
        client: ClientId,
        at: Instant,
        message: &[u8],
    ) -> Result<(), WriteError> {
        let Some(pictures) = &self.pictures else {
            return Ok(());
        };
        let name = topic.name(&pictures.names, task, client);
        let schema = pictures.schema(topic);
        // That of the first time, if it was added before.
        let encoding = topic.encodings().message;
        let channel = self
            .file
            .add_channel(schema, &name, encoding, &BTreeMap::new())?;
        self.write(channel, at, message)
    }

    fn time_of_day(&self, at: Instant) -> Time {
        Time::from_nanos(at.as_nanos().saturating_add_signed(self.ahead_ns))
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
        if let Some(Plots { messages, channels }) = self.plots.take() {
            self.messages(&channels, &messages.finish())?;
        }
        self.file.finish()?;
        Ok(self.file.into_inner())
    }

    fn entry(&mut self, at: Instant, entry: &Entry) -> Result<(), WriteError> {
        let data = postcard::to_allocvec(entry).expect("plain data always serialises");
        self.write(self.channel, at, &data)?;
        let Some(mut plots) = self.plots.take() else {
            return Ok(());
        };
        let messages = plots.messages.entry(entry);
        let written = self.messages(&plots.channels, &messages);
        self.plots = Some(plots);
        written
    }

    fn messages(&mut self, channels: &[u16], messages: &[Message]) -> Result<(), WriteError> {
        messages.iter().try_for_each(|message| {
            self.write(channels[message.topic as usize], message.at, &message.data)
        })
    }

    fn write(&mut self, channel: u16, at: Instant, data: &[u8]) -> Result<(), WriteError> {
        let log_time = at.as_nanos().saturating_add_signed(self.ahead_ns);
        let header = MessageHeader {
            channel_id: channel,
            sequence: self.sequence,
            log_time,
            publish_time: log_time,
        };
        self.sequence = self.sequence.wrapping_add(1);
        Ok(self.file.write_to_known_channel(&header, data)?)
    }
}

impl Plots {
    fn begin<W: Write + Seek>(
        file: &mut mcap::Writer<W>,
        setting: &Setting,
    ) -> Result<Self, WriteError> {
        let none = BTreeMap::new();
        let channels = Topic::ALL.iter().map(|topic| {
            let schema = topic.schema().to_string();
            let schema = file.add_schema(topic.schema_name(), "jsonschema", schema.as_bytes())?;
            file.add_channel(schema, topic.name(), "json", &none)
        });
        Ok(Self {
            channels: channels.collect::<Result<_, _>>()?,
            messages: Messages::of(setting),
        })
    }
}
