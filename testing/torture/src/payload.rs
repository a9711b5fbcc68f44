//! Frames and outputs that prove themselves: whose they are, which submission's, and that every byte arrived.

use punctual_ipc::{
    Answer, AnswerKind, Description, Element, ExitDescription, Failure, OutputDescription,
    OutputTerms, Outputs, Rejection, Verdict,
};

use punctual_types::mix;

/// Bytes of the three words that name a frame: its client's nonce, the stream, the sequence.
const NAME_BYTES: usize = 3 * size_of::<u64>();

/// Of a frame.
const CHANNELS: usize = 3;

/// Records of a submission at most: answers before the verdict, and the verdict.
pub const RECORDS: u8 = 3;

/// Numbers of an answer's outputs.
const VALUES: u32 = 64;
/// Where they begin in an area.
const VALUES_AT: u32 = 64;

/// Areas for the outputs of answers, as many as slots, and what is in them.
#[must_use]
pub fn outputs(slots: u16) -> (OutputTerms, Description) {
    let values = OutputDescription {
        name: "values".to_owned(),
        element: Element::I32,
        shape: vec![VALUES],
        offset: VALUES_AT,
        bytes: 4 * VALUES,
    };
    let exit = ExitDescription {
        outputs: vec![values],
    };
    let description = Description {
        tasks: None,
        answer: AnswerKind::Classes,
        // An answer may come from any.
        exits: vec![exit; 256],
        ..Description::default()
    };
    let terms = OutputTerms {
        areas: slots,
        area_bytes: VALUES_AT + 4 * VALUES,
        description_bytes: 0,
    };
    (terms, description)
}

/// Writes the outputs of the answer to the frame of this name.
pub fn write_outputs(name: &Name, area: &mut [u8]) {
    let values = area[VALUES_AT as usize..].chunks_exact_mut(4);
    for (at, to) in values.enumerate() {
        to.copy_from_slice(&value(name, at).to_ne_bytes());
    }
}

/// Whether each number is that of the answer to the frame of this name.
#[must_use]
pub fn are_outputs_of(name: &Name, outputs: &Outputs) -> bool {
    let values = outputs
        .get("values")
        .and_then(|values| values.as_i32().ok());
    values.is_some_and(|values| {
        let mut values = values.iter().enumerate();
        values.all(|(at, &found)| found == value(name, at))
    })
}

/// Whether each number is that of a pixel of the frame of this name, channel by channel, of 0 to 1: what a network
/// answers that gives its input.
#[must_use]
pub fn are_pixels_of(name: &Name, outputs: &Outputs) -> bool {
    let output = outputs.get("output");
    let Some(values) = output.and_then(|values| values.as_f32().ok()) else {
        return false;
    };
    let mut pixels = vec![0; values.len()];
    if pixels.len() < NAME_BYTES {
        return false;
    }
    write(name, &mut pixels);
    let channels = values.chunks_exact(values.len() / CHANNELS);
    let pixel = |at: usize, channel: usize| f32::from(pixels[at * CHANNELS + channel]) / 255.0;
    channels.enumerate().all(|(channel, values)| {
        let mut values = values.iter().enumerate();
        values.all(|(at, &found)| (found - pixel(at, channel)).abs() < 0.1 / 255.0)
    })
}

fn value(name: &Name, at: usize) -> i32 {
    word(name.seed() ^ 1, at) as i32
}

/// What a frame says about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Name {
    /// The client's, drawn at its start.
    pub nonce: u64,
    /// The stream's number, of the terms.
    pub stream: u32,
    /// The submission's.
    pub sequence: u64,
}

impl Name {
    fn seed(&self) -> u64 {
        mix(self.nonce ^ mix(self.sequence ^ u64::from(self.stream) << 48))
    }

    /// What the daemon's side answers to this frame, and only to this one: a stale, mixed or
    /// foreign payload gives another answer.
    #[must_use]
    pub fn outcome(&self) -> (Verdict, Option<Answer>) {
        let seed = mix(self.seed());
        let [kind, exit, c0, c1, p0, p1, ..] = seed.to_le_bytes();
        let (class, confidence) = (u16::from_le_bytes([c0, c1]), u16::from_le_bytes([p0, p1]));
        let answer = Answer::of_class(exit, class, confidence);
        match kind % 8 {
            0 => (Verdict::Rejected(Rejection::NoSlack), None),
            1 => (Verdict::Failed(Failure::Shed), None),
            2 => (Verdict::Late, Some(answer)),
            _ => (Verdict::OnTime, Some(answer)),
        }
    }

    /// What it answers before that, in order; nothing to a frame that gets no answer.
    pub fn answers_before(&self) -> impl Iterator<Item = Answer> + use<> {
        let seed = mix(self.seed() ^ 2);
        let has_answer = self.outcome().1.is_some();
        let count = has_answer.then_some(seed as u8 % RECORDS);
        (0..count.unwrap_or(0)).map(move |exit| {
            let [_, _, c0, c1, p0, p1, ..] = mix(seed ^ u64::from(exit)).to_le_bytes();
            let (class, confidence) = (u16::from_le_bytes([c0, c1]), u16::from_le_bytes([p0, p1]));
            Answer::of_class(exit, class, confidence)
        })
    }
}

/// Writes the frame of this name.
pub fn write(name: &Name, pixels: &mut [u8]) {
    let (head, body) = pixels.split_at_mut(NAME_BYTES);
    let words = [name.nonce, u64::from(name.stream), name.sequence];
    for (to, word) in head.chunks_exact_mut(8).zip(words) {
        to.copy_from_slice(&word.to_le_bytes());
    }
    let seed = name.seed();
    for (at, to) in body.chunks_mut(8).enumerate() {
        let word = word(seed, at).to_le_bytes();
        to.copy_from_slice(&word[..to.len()]);
    }
}

/// The frame's name, if each of its bytes is that frame's; else none.
#[must_use]
pub fn read(pixels: &[u8]) -> Option<Name> {
    let (head, body) = pixels.split_at_checked(NAME_BYTES)?;
    let mut words = head.chunks_exact(8).map(|word| {
        let bytes = word.try_into().expect("eight of them");
        u64::from_le_bytes(bytes)
    });
    let name = Name {
        nonce: words.next()?,
        stream: u32::try_from(words.next()?).ok()?,
        sequence: words.next()?,
    };
    let seed = name.seed();
    let whole = body
        .chunks(8)
        .enumerate()
        .all(|(at, found)| *found == word(seed, at).to_le_bytes()[..found.len()]);
    whole.then_some(name)
}

/// One step of a Weyl sequence and a multiplication: different for every place, and fast.
fn word(seed: u64, at: usize) -> u64 {
    let step = (at as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    seed.wrapping_add(step).wrapping_mul(0xD6E8_FEB8_6659_FD93)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: Name = Name {
        nonce: 7,
        stream: 3,
        sequence: 99,
    };

    #[test]
    fn a_frame_says_whose_it_is_and_any_changed_byte_is_noticed() {
        let mut pixels = [0; 101];
        write(&NAME, &mut pixels);
        assert_eq!(read(&pixels), Some(NAME));
        for at in 0..pixels.len() {
            pixels[at] ^= 0x10;
            assert_ne!(read(&pixels), Some(NAME), "byte {at}");
            pixels[at] ^= 0x10;
        }
        assert_eq!(read(&pixels[..20]), None);
    }

    #[test]
    fn another_frame_has_another_outcome() {
        let other = Name {
            sequence: 100,
            ..NAME
        };
        assert_ne!(NAME.outcome(), other.outcome());
    }
}
