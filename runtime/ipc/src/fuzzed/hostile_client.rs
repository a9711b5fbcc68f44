//! A client that writes what it likes into the memory that it shares with the daemon.

use std::sync::atomic::Ordering;

use punctual_platform::poll::Poller;

use crate::client::ClientChannel;
use crate::descriptor::Crop;
use crate::handshake::{decode_answer, decode_opening};
use crate::internals::{Fields, pair, ring, small_terms};
use crate::result::{ResultRecord, Verdict};
use crate::server::{ChannelFault, PayloadReader, Results, Rows, Submissions};

/// Lets `script` say what a hostile client and the daemon do in turn, until the daemon closes the connection
/// or the script ends; then ends the channel as the daemon does. Returns the fault.
///
/// # Panics
/// If the daemon's side is wrong about its slots, or leaks one. (Any other panic is a bug too.)
#[must_use]
pub fn hostile_client(script: &[u8]) -> Option<ChannelFault> {
    // What could come over the socket instead of the handshake.
    let _ = decode_opening(script);
    let _ = decode_answer(script);
    let (server, client) = pair(small_terms());
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
        held: Vec::new(),
    };
    let mut fault = None;
    while !game.script.0.is_empty() && fault.is_none() {
        fault = game.turn().err();
        assert_eq!(game.submissions.slots_in_use(), game.held.len());
    }
    while let Some((slot, sequence)) = game.held.pop() {
        let _ = game.results.push(&record(slot, sequence));
    }
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
    /// What the daemon took in and has not answered.
    held: Vec<(u16, u64)>,
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
            15..18 => {
                let _ = self.client.take();
            }
            18..24 => {
                if self.poller.wait(Some(0)).count() > 0 {
                    self.submissions.rung()?;
                }
                while let Some(taken) = self.submissions.poll()? {
                    self.held.push((taken.slot, taken.sequence));
                }
            }
            24..26 => self.read(),
            _ if self.held.is_empty() => {}
            _ => {
                let at = usize::from(self.script.byte()) % self.held.len();
                let (slot, sequence) = self.held.swap_remove(at);
                self.results.push(&record(slot, sequence))?;
            }
        }
        Ok(())
    }

    fn submit(&mut self) {
        let byte = self.script.byte();
        if let Some(mut slot) = self.client.slot() {
            slot.pixels().fill(byte);
            let (x, y) = (u32::from(byte % 5), u32::from(byte % 3));
            // Refused when results wait to be read.
            let _ = slot.submit(1, None, Crop { x, y });
        }
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
            Some(&held) => held,
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
    }
}

fn record(slot: u16, sequence: u64) -> ResultRecord {
    ResultRecord {
        sequence,
        slot,
        verdict: Verdict::OnTime,
        answer: None,
        captured_ns: 0,
        deadline_ns: 0,
        finished_ns: 0,
    }
}
