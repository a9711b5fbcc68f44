//! Regions that one holder at a time may use.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use std::cell::UnsafeCell;
use std::ptr::NonNull;

use punctual_core::STAGES_MAX;
use punctual_platform::areas::Area;
use punctual_types::AREA_HEAD_BYTES;

use super::region::Region;

const _: () = assert!(
    4 * STAGES_MAX <= AREA_HEAD_BYTES as usize,
    "a word for each exit"
);

/// Regions of one length, each usable by one holder at a time.
pub struct ClaimedRegions {
    regions: Box<[Region]>,
    claimed: Box<[AtomicBool]>,
    /// Those that a device may still write to after their claims.
    withheld: Box<[AtomicBool]>,
    /// How often each was claimed; written by its holder only.
    turns: Box<[AtomicU32]>,
    /// Where the outputs of the request in each go, if it has any; its holder's only.
    areas: Box<[UnsafeCell<Option<Area>>]>,
    /// What the head of each one's area said when its outputs were last written; see [`ClaimedRegions::not_finite`].
    not_finite: Box<[[AtomicU32; STAGES_MAX]]>,
}

// SAFETY: `areas` is the only part that is not shared freely; an entry is reached through the claim of its region only,
// which is exclusive, and the release and acquire of claims (label CLAIM) order what holders do.
unsafe impl Sync for ClaimedRegions {}

impl ClaimedRegions {
    pub fn new(count: usize, floats: usize) -> Self {
        let regions = Self::awaited(count, floats);
        (0..count).for_each(|index| regions.bring(index));
        regions
    }

    /// The same, whose memory is still to be [brought](Self::bring), one region after the other, before anybody claims any.
    pub fn awaited(count: usize, floats: usize) -> Self {
        Self {
            regions: (0..count).map(|_| Region::awaited(floats)).collect(),
            claimed: (0..count).map(|_| AtomicBool::new(false)).collect(),
            withheld: (0..count).map(|_| AtomicBool::new(false)).collect(),
            turns: (0..count).map(|_| AtomicU32::new(0)).collect(),
            areas: (0..count).map(|_| UnsafeCell::new(None)).collect(),
            not_finite: (0..count).map(|_| Default::default()).collect(),
        }
    }

    pub fn count(&self) -> usize {
        self.regions.len()
    }

    /// Where the regions lie, for devices that read them in place. They stay there.
    pub fn places(&self) -> impl Iterator<Item = NonNull<[f32]>> {
        self.regions.iter().map(Region::place)
    }

    /// How many values of the outputs in that part of the region's area are not finite, as its holder noted last. For
    /// threads that cannot claim the region, as a deeper stage runs, and that have heard of the end of the stage which
    /// wrote that part.
    ///
    /// # Panics
    /// If there is no such region or part.
    pub fn not_finite(&self, index: usize, part: u8) -> u32 {
        // Relaxed: published by the event that reports the stage.
        self.not_finite[index][usize::from(part)].load(Ordering::Relaxed)
    }

    /// Has all of a region's memory come. One that is claimed is left to its holder.
    ///
    /// # Panics
    /// If there is no such region.
    pub fn bring(&self, index: usize) {
        let claimed = &self.claimed[index];
        // Acquire, and release below: as for a claim (label CLAIM), of which there is none yet to count.
        let is_free = claimed
            .compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed)
            .is_ok();
        if is_free {
            // SAFETY: the flag that was set above makes this the only use of it.
            unsafe { self.regions[index].bring() };
            claimed.store(false, Ordering::Release);
        }
    }

    /// A region whose claim is lent.
    pub fn region(&self, index: usize) -> &Region {
        &self.regions[index]
    }

    /// Whether it was [withheld](BufferGuard::withhold) and not given back since.
    ///
    /// # Panics
    /// If there is no such region.
    pub fn is_withheld(&self, index: usize) -> bool {
        // Acquire: pairs with the release in `give_back_withheld` (label WITHHELD). Who claims a region sees that it is withheld,
        // since its holder said so before (label CLAIM).
        self.withheld[index].load(Ordering::Acquire)
    }

    /// Nothing writes any more to what was withheld so far.
    pub fn give_back_withheld(&self) {
        for withheld in &self.withheld {
            // Release: what the device wrote comes before the next claim (label WITHHELD).
            withheld.store(false, Ordering::Release);
        }
    }

    /// The region `index`, until the claim is dropped; none if it is claimed or withheld.
    ///
    /// # Panics
    /// If there is no such region.
    pub fn claim(&self, index: usize) -> Option<BufferGuard<'_>> {
        // Acquire: pairs with the release in `BufferGuard::drop` (label CLAIM), so that this holder
        // sees everything the last one wrote. Relaxed on failure: nothing is read then.
        self.claimed[index]
            .compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed)
            .ok()?;
        if self.is_withheld(index) {
            // Release: as in `BufferGuard::drop` (label CLAIM).
            self.claimed[index].store(false, Ordering::Release);
            return None;
        }
        // Relaxed: ordered by the claims (label CLAIM).
        let turn = self.turns[index].load(Ordering::Relaxed).wrapping_add(1);
        self.turns[index].store(turn, Ordering::Relaxed);
        Some(BufferGuard {
            regions: self,
            index,
            turn,
            flag: &self.claimed[index],
        })
    }
}

/// The right to use one request buffer until it is dropped.
pub struct BufferGuard<'a> {
    regions: &'a ClaimedRegions,
    index: usize,
    turn: u32,
    flag: &'a AtomicBool,
}

impl BufferGuard<'_> {
    /// Which request buffer it is.
    #[must_use]
    pub fn index(&self) -> usize {
        self.index
    }

    /// The sequence number of this claim of the buffer, modulo 2^32: if it is the one after a claim that was
    /// held before, the buffer was not claimed in between.
    #[must_use]
    pub fn turn(&self) -> u32 {
        self.turn
    }

    /// Keeps the region unclaimed after this claim, until [`ClaimedRegions::give_back_withheld`]: a device may still write to it.
    pub fn withhold(&self) {
        // Relaxed: published by the end of this claim (label CLAIM).
        self.regions.withheld[self.index].store(true, Ordering::Relaxed);
    }

    /// Whether it is one of these regions' claims.
    pub fn is_of(&self, regions: &ClaimedRegions) -> bool {
        std::ptr::eq(self.regions, regions)
    }

    /// All of the buffer.
    pub fn floats(&mut self) -> &mut [f32] {
        let region = &self.regions.regions[self.index];
        // SAFETY: the claim is exclusive, and `&mut self` makes this the only view made from it;
        // a team uses the region only while it borrows the claim.
        unsafe { region.write(0..region.floats()) }
    }
}

impl BufferGuard<'_> {
    /// Where the outputs of its request go; none if they are not wanted.
    pub fn area(&mut self) -> Option<&mut Area> {
        // SAFETY: the claim is exclusive, and `&mut self` makes this the only view made from it.
        unsafe { &mut *self.regions.areas[self.index].get() }.as_mut()
    }

    /// Notes what the head of the area says, for [`ClaimedRegions::not_finite`].
    pub fn note_not_finite(&mut self, area: &[u8]) {
        let noted = &self.regions.not_finite[self.index];
        for (noted, word) in noted.iter().zip(area.chunks_exact(4)) {
            let word = u32::from_ne_bytes([word[0], word[1], word[2], word[3]]);
            // Relaxed: as in `not_finite`.
            noted.store(word, Ordering::Relaxed);
        }
    }

    /// Gives the request another area; the one that it had.
    pub fn replace_area(&mut self, area: Option<Area>) -> Option<Area> {
        // SAFETY: as above.
        std::mem::replace(unsafe { &mut *self.regions.areas[self.index].get() }, area)
    }
}

impl Drop for BufferGuard<'_> {
    fn drop(&mut self) {
        // Release: pairs with the acquire in `ClaimedRegions::claim` (label CLAIM).
        self.flag.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claimed_region_is_refused_until_its_claim_is_dropped() {
        let regions = ClaimedRegions::new(2, 16);
        let mut first = regions.claim(0).expect("free");
        assert_eq!(first.turn(), 1);
        assert!(regions.claim(0).is_none());
        assert!(regions.claim(1).is_some());
        first.floats()[3] = 7.0;
        drop(first);
        let mut second = regions.claim(0).expect("free again");
        assert_eq!(second.turn(), 2);
        assert_eq!(second.floats()[3], 7.0);
    }

    #[test]
    fn a_withheld_region_is_refused_until_it_is_given_back_and_its_claim_is_dropped() {
        let regions = ClaimedRegions::new(2, 16);
        let first = regions.claim(0).expect("free");
        first.withhold();
        regions.give_back_withheld();
        assert!(regions.claim(0).is_none(), "still claimed");
        first.withhold();
        drop(first);
        assert!(regions.is_withheld(0) && regions.claim(0).is_none());
        assert!(regions.claim(1).is_some());
        regions.give_back_withheld();
        assert_eq!(regions.claim(0).expect("free again").turn(), 2);
    }

    #[test]
    fn an_area_stays_with_its_region_until_it_is_taken_back() {
        let regions = ClaimedRegions::new(2, 16);
        let mut first = regions.claim(0).expect("free");
        assert!(first.area().is_none());
        assert!(first.replace_area(Some(Area::private(64))).is_none());
        drop(first);
        let mut again = regions.claim(0).expect("free again");
        again.area().expect("it is there").as_mut_slice()[0] = 1;
        let area = again.replace_area(None).expect("it is there");
        assert_eq!(area.as_slice()[0], 1);
        assert!(regions.claim(1).expect("free").area().is_none());
    }
}
