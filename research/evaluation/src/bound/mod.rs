//! An upper bound on what any scheduler could have achieved on a run, knowing everything before it happens.
//!
//! Comparing schedulers says which is better, not how much is left. This bound does: the requests
//! of a run, each with its window and with what each of its answers is worth and costs, are given
//! to an ideal machine that is all compute units as one, preempts at no cost, may stop in the middle
//! of a stage for the same part of its worth, and knows every answer beforehand. No real schedule
//! does better, as each of these only removes restrictions; in general none does as well.
//!
//! `trace` makes the requests from a run: the cheapest ways of running their stages that can still be on
//! time (`frontier`), in batches of no more requests than there are at once (`company`).
//!
//! # The problem
//! Worth as a function of work is, for each request, the upper concave hull of its answers: a few
//! *segments* of falling worth per work. Sought are amounts of all segments, of the largest total
//! worth, such that for all a < z the work whose windows lie inside [a, z] is at most z − a. The
//! amounts that fit form a polymatroid, so a greedy choice is exact (`demand` has the structure).
//!
//! # The algorithm
//! Segments come by falling release. Then only intervals that begin at the newcomer's own release can get too
//! full, and these are one for each deadline. A newcomer takes the room there is; beyond it, it replaces the
//! least worthy work that the first full interval holds, as long as that is worth less than the newcomer.
//! What was replaced never comes back: a subset that is best for some requests, less what further ones push
//! out, is best for all. O(log n) for each segment and each replacement, in whole nanoseconds.
//!
//! Greedy for polymatroids: Edmonds (1970); intervals of a preemptive schedule: the processor demand criterion.

mod company;
mod demand;
mod frontier;
mod hull;
#[cfg(test)]
mod tests;
mod trace;

use punctual_core::{Instant, Nanos};

use demand::Demand;

pub use trace::{Knowledge, of_run};

/// A request as a clairvoyant sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// When work on it can begin.
    pub release: Instant,
    /// When an answer must be there.
    pub deadline: Instant,
    /// The answers that count, one for each exit from the mandatory one on, in any order.
    pub answers: Vec<Answer>,
}

/// An answer that a request could get.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Answer {
    /// All work up to it, in time of the whole device.
    pub work: Nanos,
    /// What it is worth: 1 for a right one and 0 for a wrong one, or the probability that it is
    /// right. What is negative or not a number is worth nothing.
    pub value: f64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bound {
    /// The total worth of all answers.
    pub value: f64,
    pub jobs: usize,
    /// The work that the ideal schedule does, in time of the whole device.
    pub work: Nanos,
}

impl Bound {
    /// The worth for each request: the bound on `accuracy_all`. `None` without requests.
    #[must_use]
    pub fn accuracy(&self) -> Option<f64> {
        (self.jobs > 0).then(|| self.value / self.jobs as f64)
    }
}

/// The bound for `jobs`. A request whose deadline is before its release is worth nothing; answers
/// that take no work are always had.
#[must_use]
pub fn bound(jobs: &[Job]) -> Bound {
    let amounts = amounts(jobs);
    // An amount of all of a segment has exactly its worth: no rounding unless it was cut.
    let value = |(piece, amount): &(Piece, u64)| {
        if *amount == piece.work {
            piece.value
        } else {
            piece.value * (*amount as f64 / piece.work as f64)
        }
    };
    Bound {
        value: amounts.iter().map(value).sum(),
        jobs: jobs.len(),
        work: Nanos::new(amounts.iter().map(|(_, amount)| amount).sum()),
    }
}

/// A segment of a request's hull, in the request's window.
#[derive(Clone, Copy, Debug)]
struct Piece {
    release: u64,
    deadline: u64,
    work: u64,
    value: f64,
}

impl Piece {
    /// Worth per nanosecond.
    fn worth(&self) -> f64 {
        self.value / self.work as f64
    }
}

/// Every segment with the amount of it that the ideal schedule does, by rising deadline.
fn amounts(jobs: &[Job]) -> Vec<(Piece, u64)> {
    let mut pieces: Vec<Piece> = jobs.iter().flat_map(pieces).collect();
    pieces.sort_by_key(|piece| piece.deadline);
    let mut newest_first: Vec<usize> = (0..pieces.len()).collect();
    newest_first.sort_by_key(|&index| std::cmp::Reverse(pieces[index].release));
    let mut demand = Demand::new(pieces.iter().map(|piece| (piece.deadline, piece.worth())));
    for index in newest_first {
        admit(&pieces[index], index, &mut demand);
    }
    let amount = |index| demand.work(index);
    let amounts: Vec<u64> = (0..pieces.len()).map(amount).collect();
    pieces.into_iter().zip(amounts).collect()
}

fn pieces(job: &Job) -> impl Iterator<Item = Piece> + use<> {
    let (release, deadline) = (job.release.as_nanos(), job.deadline.as_nanos());
    let segments = if release <= deadline {
        hull::segments(&job.answers)
    } else {
        Vec::new()
    };
    segments.into_iter().map(move |(work, value)| Piece {
        release,
        deadline,
        work,
        value,
    })
}

/// Gives the piece at `index` as much as it is worth; all others released before it are not there yet.
fn admit(piece: &Piece, index: usize, demand: &mut Demand) {
    let mut rest = piece.work;
    while rest > 0 {
        let room = demand.least_slack(index, None) - piece.release;
        let step = rest.min(room);
        demand.add(index, step);
        rest -= step;
        if rest == 0 {
            return;
        }
        let full = demand.first_full(index, piece.release);
        let cheapest = demand.cheapest(full);
        if demand.worth(cheapest) >= piece.worth() {
            return;
        }
        let mut swap = rest.min(demand.work(cheapest));
        if cheapest > index {
            // Room appears from the replaced one's deadline on; before it there is only the slack that was left.
            swap = swap.min(demand.least_slack(index, Some(cheapest)) - piece.release);
        }
        demand.remove(cheapest, swap);
        demand.add(index, swap);
        rest -= swap;
    }
}
