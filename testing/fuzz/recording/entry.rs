//! What the fuzzer and the test without one have in common: bytes that claim to be a recording.

use std::io::Cursor;

use mcap::WriteOptions;
use mcap::records::MessageHeader;
use punctual_core::PunctualConfig;
use punctual_recording::replay::{Replayed, replay};
use punctual_recording::{CHANNEL, Entry, Recording, SCHEMA, SETTING};

/// What was made of some bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// An error said why they are no recording, or what is wrong with its plan.
    Refused,
    /// A scheduler could be made, and differed, or broke, at a step that is named.
    Begun,
    Replayed(Replayed),
}

/// Does with some bytes all that is done with a recording.
///
/// # Panics
/// On an error in the reader or in the scheduler.
pub fn recording(file: &[u8]) -> Outcome {
    let Ok(recording) = Recording::of(file) else {
        return Outcome::Refused;
    };
    let mut read = recording.entries();
    let steps = read.by_ref().map_while(Result::ok);
    let steps = steps.filter(|entry| matches!(entry, Entry::Step(_)));
    let steps = steps.count() as u64;
    assert!(steps <= file.len() as u64, "each has a byte at least");
    let _ = recording.attachment("plan.json");
    let Ok(setting) = recording.setting() else {
        return Outcome::Refused;
    };
    let parameters = setting.policy.get("punctual").cloned();
    let parameters = parameters.and_then(|value| serde_json::from_value(value).ok());
    let policy: PunctualConfig = parameters.unwrap_or_default();
    match replay(recording.entries(), &setting.config, &policy) {
        Ok(done) => {
            assert!(done.steps + done.skipped <= steps, "{done:?} of {steps}");
            Outcome::Replayed(done)
        }
        Err(error) => {
            assert!(!error.to_string().is_empty(), "refused without a reason");
            if punctual_core::Scheduler::new(&setting.config, &policy).is_ok() {
                Outcome::Begun
            } else {
                Outcome::Refused
            }
        }
    }
}

/// A part of a file: its kind, and its content.
#[derive(Clone, Debug)]
pub enum Part {
    Setting(Vec<u8>),
    Entry(Vec<u8>),
    /// What follows begins a chunk.
    Chunk,
    /// A message of a channel that is not ours.
    Foreign(Vec<u8>),
}

/// The file of some parts. Its lengths and checksums are right, whatever the parts say.
pub fn file(parts: &[Part]) -> Vec<u8> {
    let options = WriteOptions::new().compression(None).chunk_size(None);
    let mut file = options.create(Cursor::new(Vec::new())).expect("memory");
    let schema = file.add_schema(SCHEMA, "postcard", &[]).expect("memory");
    let none = Default::default();
    let channel = |file: &mut mcap::Writer<_>, topic| {
        file.add_channel(schema, topic, "postcard", &none)
            .expect("memory")
    };
    let (own, foreign) = (channel(&mut file, CHANNEL), channel(&mut file, "/foreign"));
    for part in parts {
        match part {
            Part::Setting(json) => file.attach(&mcap::Attachment {
                log_time: 0,
                create_time: 0,
                name: SETTING.to_owned(),
                media_type: "application/json".to_owned(),
                data: json.into(),
            }),
            Part::Entry(data) => file.write_to_known_channel(&header(own), data),
            Part::Foreign(data) => file.write_to_known_channel(&header(foreign), data),
            Part::Chunk => file.flush(),
        }
        .expect("memory");
    }
    file.finish().expect("memory");
    file.into_inner().into_inner()
}

fn header(channel_id: u16) -> MessageHeader {
    MessageHeader {
        channel_id,
        sequence: 0,
        log_time: 0,
        publish_time: 0,
    }
}

/// As [`recording`], for bytes that choose parts rather than being a file: a byte for the kind, two for the length, the content;
/// again and again.
#[allow(dead_code)]
pub fn script(script: &[u8]) -> Outcome {
    let mut parts = Vec::new();
    let mut rest = script;
    while let [kind, low, high, content @ ..] = rest {
        let length = usize::from(u16::from_le_bytes([*low, *high])).min(content.len());
        let (content, after) = content.split_at(length);
        parts.push(match kind % 8 {
            0 => Part::Setting(content.to_vec()),
            1 => Part::Chunk,
            2 => Part::Foreign(content.to_vec()),
            _ => Part::Entry(content.to_vec()),
        });
        rest = after;
    }
    recording(&file(&parts))
}
