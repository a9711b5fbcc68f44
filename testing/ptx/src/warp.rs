//! A warp: the registers of its lanes, and where each lane is.
//!
//! Lanes that are at the same instruction run together. When a branch divides them, the group that is less far in the text goes
//! first, so that groups meet again where compilers place the end of a branch.

use crate::fault::Violation;
use crate::instruction::{Condition, Pointer, Reg};
use crate::module::Kernel;
use crate::registers::{File, Special};

pub(crate) const LANES: u32 = 32;

/// A register of words, and one of longs, of all lanes.
pub(crate) type Words = [u32; LANES as usize];
pub(crate) type Longs = [u64; LANES as usize];

/// Lanes that are at one instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Group {
    pub(crate) at: u32,
    pub(crate) lanes: u32,
    /// They wait for the other lanes of the warp.
    pub(crate) waits: bool,
}

/// Where a warp is in its grid.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Position {
    pub(crate) block: [u32; 3],
    pub(crate) grid: [u32; 3],
    pub(crate) block_size: [u32; 3],
    pub(crate) warp: u32,
    pub(crate) multiprocessor: u32,
}

/// An asynchronous copy that has not arrived.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pending {
    pub(crate) lane: u8,
    pub(crate) valid: u8,
    /// How many groups the lane had committed before the copy's.
    pub(crate) group: u32,
    pub(crate) to: u64,
    pub(crate) from: u64,
}

#[derive(Default)]
pub(crate) struct Warp {
    pub(crate) words: Vec<Words>,
    pub(crate) longs: Vec<Longs>,
    /// A bit for each lane.
    pub(crate) predicates: Vec<u32>,
    words_defined: Vec<u32>,
    longs_defined: Vec<u32>,
    predicates_defined: Vec<u32>,
    /// Of the constants that are filled in: another kernel's must be filled in again.
    filled: Option<u64>,
    /// The lanes that run.
    pub(crate) at: u32,
    pub(crate) lanes: u32,
    /// The others that have not ended.
    pub(crate) others: Vec<Group>,
    /// The lowest instruction of those that do not wait.
    pub(crate) meet: u32,
    /// Lanes that the block has here, and those of them that have not ended.
    pub(crate) present: u32,
    pub(crate) alive: u32,
    pub(crate) pending: Vec<Pending>,
    pub(crate) committed: Words,
    pub(crate) first_thread: u16,
}

impl Warp {
    /// Makes it the warp of a block that begins.
    pub(crate) fn begin(&mut self, kernel: &Kernel, identity: u64, position: Position) {
        let files = &kernel.files;
        if self.filled != Some(identity) {
            self.words.clear();
            self.words.resize(files.words as usize, [0; 32]);
            self.longs.clear();
            self.longs.resize(files.longs as usize, [0; 32]);
            self.predicates.clear();
            self.predicates.resize(files.predicates as usize, 0);
            for &(register, value) in &files.constant_words {
                self.words[usize::from(register)] = [value; 32];
            }
            for &(register, value) in &files.constant_longs {
                self.longs[usize::from(register)] = [value; 32];
            }
            self.filled = Some(identity);
        }
        for (defined, count) in [
            (&mut self.words_defined, files.words),
            (&mut self.longs_defined, files.longs),
            (&mut self.predicates_defined, files.predicates),
        ] {
            defined.clear();
            defined.resize(count as usize, 0);
        }
        for &(register, _) in &files.constant_words {
            self.words_defined[usize::from(register)] = u32::MAX;
        }
        for &(register, _) in &files.constant_longs {
            self.longs_defined[usize::from(register)] = u32::MAX;
        }
        let threads: u32 = position.block_size.iter().product();
        let here = (threads - position.warp * LANES).min(LANES);
        self.present = u32::MAX >> (LANES - here);
        for &(register, special) in &files.specials {
            self.words[usize::from(register)] = special_values(special, position);
            self.words_defined[usize::from(register)] = u32::MAX;
        }
        self.at = 0;
        self.lanes = self.present;
        self.alive = self.present;
        self.others.clear();
        self.meet = u32::MAX;
        self.pending.clear();
        self.committed = [0; 32];
        self.first_thread = (position.warp * LANES) as u16;
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.alive == 0
    }

    fn undefined(kernel: &Kernel, file: File, register: Reg) -> Violation {
        let names = match file {
            File::Word => &kernel.files.word_names,
            File::Long => &kernel.files.long_names,
            File::Predicate => &kernel.files.predicate_names,
        };
        Violation::UninitialisedRegister {
            name: names[usize::from(register)].to_string(),
        }
    }

    #[inline(always)]
    pub(crate) fn word(&self, kernel: &Kernel, register: Reg) -> Result<&Words, Violation> {
        let at = usize::from(register);
        if self.words_defined[at] & self.lanes != self.lanes {
            return Err(Self::undefined(kernel, File::Word, register));
        }
        Ok(&self.words[at])
    }

    #[inline(always)]
    pub(crate) fn long(&self, kernel: &Kernel, register: Reg) -> Result<&Longs, Violation> {
        let at = usize::from(register);
        if self.longs_defined[at] & self.lanes != self.lanes {
            return Err(Self::undefined(kernel, File::Long, register));
        }
        Ok(&self.longs[at])
    }

    /// The lanes for which it holds.
    #[inline(always)]
    pub(crate) fn condition(&self, kernel: &Kernel, of: Condition) -> Result<u32, Violation> {
        let at = usize::from(of.register);
        if self.predicates_defined[at] & self.lanes != self.lanes {
            return Err(Self::undefined(kernel, File::Predicate, of.register));
        }
        let holds = self.predicates[at];
        Ok(if of.negated { !holds } else { holds })
    }

    #[inline(always)]
    pub(crate) fn set_word(&mut self, register: Reg, values: &Words) {
        let at = usize::from(register);
        self.words_defined[at] |= self.lanes;
        match self.lanes {
            u32::MAX => self.words[at] = *values,
            lanes => blend(&mut self.words[at], values, lanes),
        }
    }

    #[inline(always)]
    pub(crate) fn set_long(&mut self, register: Reg, values: &Longs) {
        let at = usize::from(register);
        self.longs_defined[at] |= self.lanes;
        match self.lanes {
            u32::MAX => self.longs[at] = *values,
            lanes => blend(&mut self.longs[at], values, lanes),
        }
    }

    #[inline(always)]
    pub(crate) fn set_predicate(&mut self, register: Reg, holds: u32) {
        let at = usize::from(register);
        self.predicates_defined[at] |= self.lanes;
        let to = &mut self.predicates[at];
        *to = *to & !self.lanes | holds & self.lanes;
    }

    /// The address of each lane.
    #[inline(always)]
    pub(crate) fn addresses(&self, kernel: &Kernel, pointer: Pointer) -> Result<Longs, Violation> {
        let mut addresses = [0; 32];
        match pointer {
            Pointer::Absolute(address) => addresses = [u64::from(address); 32],
            Pointer::Word(register, offset) => {
                let words = self.word(kernel, register)?;
                for lane in 0..32 {
                    addresses[lane] = u64::from(words[lane].wrapping_add_signed(offset));
                }
            }
            Pointer::Long(register, offset) => {
                let longs = self.long(kernel, register)?;
                for lane in 0..32 {
                    addresses[lane] = longs[lane].wrapping_add_signed(i64::from(offset));
                }
            }
        }
        Ok(addresses)
    }

    /// The lanes that run, by number.
    #[inline(always)]
    pub(crate) fn each_lane(&self) -> impl Iterator<Item = usize> + use<> {
        let mut left = self.lanes;
        std::iter::from_fn(move || {
            let lane = left.trailing_zeros();
            left &= left.wrapping_sub(1);
            (lane < LANES).then_some(lane as usize)
        })
    }

    /// Puts the lanes that run aside.
    pub(crate) fn put_aside(&mut self, at: u32, lanes: u32, waits: bool) {
        let known = self.others.iter_mut().find(|group| group.at == at);
        match known {
            Some(group) => {
                group.lanes |= lanes;
                group.waits &= waits;
            }
            None => self.others.push(Group { at, lanes, waits }),
        }
        self.measure();
    }

    fn measure(&mut self) {
        let able = self.others.iter().filter(|group| !group.waits);
        self.meet = able.map(|group| group.at).min().unwrap_or(u32::MAX);
    }

    /// The lanes that run have reached or passed others: joins them, or lets those that are less far go first.
    pub(crate) fn join(&mut self) {
        if self.lanes != 0 {
            self.put_aside(self.at, self.lanes, false);
        }
        self.next_group();
    }

    /// Takes the group that is least far. False: all that are left wait.
    pub(crate) fn next_group(&mut self) -> bool {
        let able = self
            .others
            .iter()
            .enumerate()
            .filter(|(_, group)| !group.waits);
        let first = able.min_by_key(|(_, group)| group.at).map(|(i, _)| i);
        let Some(first) = first else {
            self.lanes = 0;
            return false;
        };
        let group = self.others.swap_remove(first);
        self.at = group.at;
        self.lanes = group.lanes;
        self.measure();
        true
    }

    /// Whether the lanes that run are all that have not ended; otherwise they wait for the others, and those run.
    /// `wanted`: lanes that must be there.
    pub(crate) fn gather(&mut self, wanted: u32, lines: &[u32]) -> Result<bool, Violation> {
        let missing = wanted & self.present & !self.alive;
        if missing != 0 {
            return Err(Violation::EndedLanes { missing });
        }
        if self.lanes & wanted == self.alive & wanted {
            return Ok(true);
        }
        let (at, here) = (self.at, self.lanes);
        self.put_aside(at, here, true);
        if self.next_group() {
            return Ok(false);
        }
        // Everyone waits: at one place, or for each other for ever.
        if let [group] = self.others[..] {
            self.others.clear();
            self.measure();
            self.lanes = group.lanes;
            self.at = group.at;
            return Ok(true);
        }
        let other = self.others.iter().find(|group| group.at != at);
        let other = other.copied().unwrap_or(Group {
            at,
            lanes: 0,
            waits: true,
        });
        self.at = at;
        self.lanes = here;
        Err(Violation::Divergent {
            here,
            elsewhere: other.lanes,
            line: lines[other.at as usize],
        })
    }
}

/// Values of some lanes: not in the loop's code, as most instructions are executed for all.
#[inline(never)]
fn blend<T: Copy>(to: &mut [T; 32], values: &[T; 32], lanes: u32) {
    for lane in 0..32 {
        if lanes >> lane & 1 == 1 {
            to[lane] = values[lane];
        }
    }
}

fn special_values(special: Special, position: Position) -> Words {
    let [x, y, _] = position.block_size;
    let thread = |lane: u32| position.warp * LANES + lane;
    std::array::from_fn(|lane| {
        let lane = lane as u32;
        match special {
            Special::Thread(0) => thread(lane) % x,
            Special::Thread(1) => thread(lane) / x % y,
            Special::Thread(_) => thread(lane) / (x * y),
            Special::BlockSize(axis) => position.block_size[usize::from(axis)],
            Special::Block(axis) => position.block[usize::from(axis)],
            Special::GridSize(axis) => position.grid[usize::from(axis)],
            Special::Lane => lane,
            Special::Warp => position.warp,
            Special::Multiprocessor => position.multiprocessor,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn divided() -> Warp {
        Warp {
            at: 10,
            lanes: 0x0f,
            present: 0xff,
            alive: 0xff,
            meet: u32::MAX,
            ..Warp::default()
        }
    }

    #[test]
    fn the_group_that_is_least_far_goes_first_and_groups_join_where_they_meet() {
        let mut warp = divided();
        warp.put_aside(20, 0xf0, false);
        assert_eq!(warp.meet, 20);
        warp.at = 25;
        warp.join();
        assert_eq!((warp.at, warp.lanes, warp.meet), (20, 0xf0, 25));
        warp.at = 25;
        warp.join();
        assert_eq!((warp.at, warp.lanes, warp.meet), (25, 0xff, u32::MAX));
    }

    #[test]
    fn lanes_wait_for_each_other_at_one_instruction_only() {
        let lines: Vec<u32> = (0..30).collect();
        let mut warp = divided();
        warp.put_aside(20, 0xf0, false);
        assert_eq!(warp.gather(u32::MAX, &lines), Ok(false), "the others first");
        assert_eq!((warp.at, warp.lanes), (20, 0xf0));
        warp.at = 10;
        assert_eq!(warp.gather(u32::MAX, &lines), Ok(true));
        assert_eq!(warp.lanes, 0xff);

        let mut warp = divided();
        warp.put_aside(20, 0xf0, false);
        assert_eq!(warp.gather(u32::MAX, &lines), Ok(false));
        let elsewhere = Violation::Divergent {
            here: 0xf0,
            elsewhere: 0x0f,
            line: 10,
        };
        assert_eq!(warp.gather(u32::MAX, &lines), Err(elsewhere));
    }

    #[test]
    fn a_lane_that_has_ended_is_missed() {
        let mut warp = divided();
        warp.alive = 0x0f;
        let missing = Violation::EndedLanes { missing: 0xf0 };
        assert_eq!(warp.gather(u32::MAX, &[]), Err(missing));
        assert_eq!(warp.gather(0x0f, &[]), Ok(true));
    }
}
