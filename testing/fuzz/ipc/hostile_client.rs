//! A client that writes what it likes into the memory that it shares with the daemon.

use std::sync::atomic::Ordering;

use punctual_ipc::fuzzed;
use punctual_ipc::internals::{Fields, pair_with_outputs, ring};
use punctual_ipc::{
    Answer, ChannelFault, ClientChannel, Crop, HandedOver, OutputAreas, Outputs, PayloadReader,
    Rejection, ResultRecord, Results, Rows, Submissions, Verdict,
};
use punctual_platform::areas::Area;
use punctual_platform::poll::Poller;

/// Lets `script` say what a hostile client and the daemon do in turn, until the daemon closes the connection
/// or the script ends; then ends the channel as the daemon does. Returns the fault.
///
/// # Panics
/// If the daemon's side is wrong about its slots, or leaks one. (Any other panic is a bug too.)
#[must_use]
pub fn hostile_client(script: &[u8]) -> Option<ChannelFault> {
    // What could come over the socket instead of the handshake.
    fuzzed::handshake(script);
    let (mut server, client) = pair_with_outputs();
    let areas = server.areas().expect("the terms have areas");
    let (submissions, payload, results) = server.split();
    let poller = Poller::new(2).expect("descriptors");
    submissions.watch(&poller, 0).expect("descriptors");
    let mut game = Game {
        poller,
        fields: Fields::of(&client),
        script: Script(script),
        client,
        submissions,
        payload,
        results,
        areas,
        held: Vec::new(),
        kept: Vec::new(),
    };
    let mut fault = None;
    while !game.script.0.is_empty() && fault.is_none() {
        fault = game.turn().err();
        assert_eq!(game.submissions.slots_in_use(), game.held.len());
    }
    while let Some(held) = game.held.pop() {
        let record = game.answer(held);
        let _ = game.results.push(&record);
    }
    assert!(game.areas.are_all_back(), "an area leaked");
    assert_eq!(game.submissions.slots_in_use(), 0, "a slot leaked");
    fault
}

/// Bytes that say what happens; zeros when they have run out.
struct Script<'s>(&'s [u8]);

impl Script<'_> {
    fn byte(&mut self) -> u8 {
        let Some((&byte, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        byte
    }

    /// Small, huge, or anything.
    fn word(&mut self) -> u64 {
        match self.byte() % 4 {
            0 => u64::from(self.byte()),
            1 => u64::from(self.byte()).wrapping_neg(),
            2 => 1 << (self.byte() % 64),
            _ => u64::from_le_bytes(std::array::from_fn(|_| self.byte())),
        }
    }
}

struct Game<'s> {
    script: Script<'s>,
    fields: Fields,
    client: ClientChannel,
    poller: Poller,
    submissions: Submissions,
    payload: PayloadReader,
    results: Results,
    areas: OutputAreas,
    /// What the daemon took in and has not answered.
    held: Vec<Held>,
    /// What the client has not let go of.
    kept: Vec<Outputs>,
}

/// A submission without an answer.
struct Held {
    slot: u16,
    sequence: u64,
    /// Where its outputs go; none if the client held all areas.
    area: Option<u16>,
    /// With an answer before the verdict.
    answered: Option<Answered>,
}

/// An area that is the client's, while a deeper stage still writes to its memory.
struct Answered {
    memory: Area,
    handed: HandedOver,
}

impl Game<'_> {
    fn turn(&mut self) -> Result<(), ChannelFault> {
        match self.script.byte() % 32 {
            0..10 => self.submit(),
            10 => {
                let at = usize::from(self.script.byte()) * 8 % self.fields.words_end;
                self.fields.requests.write_word(at, self.script.word());
            }
            11..14 => self.damage_a_descriptor(),
            14 => ring(&self.client),
            15..17 => self.take(),
            17 => {
                let _ = self.kept.pop();
            }
            18..24 => {
                if self.poller.wait(Some(0)).count() > 0 {
                    self.submissions.rung()?;
                }
                while let Some(taken) = self.submissions.poll()? {
                    let area = self.areas.reserve();
                    let in_use = |held: &Held| area.is_some() && held.area == area;
                    assert!(
                        !self.held.iter().any(in_use),
                        "an area was given away twice"
                    );
                    self.held.push(Held {
                        slot: taken.slot,
                        sequence: taken.sequence,
                        area,
                        answered: None,
                    });
                }
            }
            24..26 => self.read(),
            26 => self.answer_before_the_verdict()?,
            _ if self.held.is_empty() => {}
            _ => {
                let at = usize::from(self.script.byte()) % self.held.len();
                let held = self.held.swap_remove(at);
                let record = self.answer(held);
                self.results.push(&record)?;
            }
        }
        Ok(())
    }

    fn submit(&mut self) {
        let byte = self.script.byte();
        if let Some(mut slot) = self.client.slot() {
            slot.pixels().fill(byte);
            // Whatever is there may be damaged afterwards.
            let _ = slot.set_vector("speed", &[f32::from(byte), -0.0]);
            let (x, y) = (u32::from(byte % 5), u32::from(byte % 3));
            // Refused when results wait to be read.
            let _ = slot.submit(1, None, Crop { x, y });
        }
    }

    fn take(&mut self) {
        let Ok(Some(record)) = self.client.take() else {
            return;
        };
        let outputs = self.client.outputs(&record);
        for tensor in outputs.iter().flat_map(Outputs::iter) {
            assert_eq!(tensor.bytes().len(), 32);
            let _ = tensor.is_finite();
        }
        self.kept.extend(outputs);
    }

    /// Of one of the submissions, if it has an area and had no answer.
    fn answer_before_the_verdict(&mut self) -> Result<(), ChannelFault> {
        let at = usize::from(self.script.byte());
        let fresh = |held: &&mut Held| held.area.is_some() && held.answered.is_none();
        let Some(held) = self.held.iter_mut().filter(fresh).nth(at % 4) else {
            return Ok(());
        };
        let area = held.area.expect("it is fresh");
        let memory = self.areas.lend(area).expect("it was reserved");
        let handed = self.areas.hand_over(area);
        held.answered = Some(Answered { memory, handed });
        let answer = record(held.slot, held.sequence, Verdict::OnTime, Some(handed));
        self.results.push(&ResultRecord {
            is_final: false,
            ..answer
        })
    }

    /// What a worker and the scheduler do in turn.
    fn answer(&mut self, held: Held) -> ResultRecord {
        let Held {
            slot,
            sequence,
            area,
            answered,
        } = held;
        let Some(area) = area else {
            return record(slot, sequence, Verdict::Rejected(Rejection::NoArea), None);
        };
        if let Some(Answered { memory, handed }) = answered {
            self.areas.put_back(area, memory);
            return record(slot, sequence, Verdict::OnTime, Some(handed));
        }
        if sequence.is_multiple_of(3) {
            self.areas.cancel(area);
            return record(slot, sequence, Verdict::Late, None);
        }
        let mut memory = self.areas.lend(area).expect("it was reserved");
        memory.as_mut_slice().fill(sequence as u8);
        self.areas.put_back(area, memory);
        let outputs = Some(self.areas.hand_over(area));
        record(slot, sequence, Verdict::OnTime, outputs)
    }

    /// In a cell that was perhaps submitted and not read yet: half a word, by a little or by much.
    fn damage_a_descriptor(&mut self) {
        let half = usize::from(self.script.byte() % 64);
        let at = self.fields.cells + half * size_of::<u32>();
        let word = self.fields.requests.word32(at);
        let value = match self.script.byte() {
            small @ 0..128 => word.load(Ordering::Relaxed) ^ u32::from(small % 8),
            _ => self.script.word() as u32,
        };
        word.store(value, Ordering::Relaxed);
    }

    fn read(&mut self) {
        let byte = usize::from(self.script.byte());
        let (slot, sequence) = match self.held.get(byte % 5) {
            Some(held) => (held.slot, held.sequence),
            None => (byte as u16, self.script.word()),
        };
        let rows = Rows {
            offset: self.script.word() as usize,
            bytes: usize::from(self.script.byte() % 32),
            stride: self.script.word() as usize,
            rows: usize::from(self.script.byte() % 6),
        };
        let mut copy = vec![0; rows.bytes * rows.rows];
        // Rows outside of the slot are errors.
        let _ = self.payload.read(slot, sequence, rows, &mut copy);
        let mut numbers = [0.0; 2];
        let _ = self.payload.read_vectors(slot, sequence, &mut numbers);
    }
}

fn record(slot: u16, sequence: u64, verdict: Verdict, outputs: Option<HandedOver>) -> ResultRecord {
    ResultRecord {
        sequence,
        slot,
        verdict,
        answer: outputs.map(|_| Answer {
            exit: 0,
            class: None,
            confidence: None,
            outputs,
            not_finite: false,
        }),
        part: None,
        left_out: 0,
        captured_ns: 0,
        deadline_ns: 0,
        finished_ns: 0,
        sent_ns: 0,
        is_final: true,
    }
}
