//! `explain`: why was a frame late, why was one rejected, where does the time go?
//!
//! Each frame that is asked for gets a [`Story`]: its parts from the capture until its client has the answer, each against what
//! the plan allows for it, and the first part that broke its bound. A rejected frame gets the arithmetic of its admission
//! ([`Rejected`]). Entries may come from a file or from a daemon's memory: [`explain`] takes them one by one, in bounded memory.

use std::collections::VecDeque;

use punctual_core::{Action, Instant, Ticket, Verdict};
use punctual_recording::frames::{Follower, Frame, Item};
use punctual_recording::{Entry, Names, ReadError, Setting, Step};
use serde::Serialize;

mod ask;
mod bounds;
mod history;
mod rejection;
mod share;
mod story;
mod summary;
mod text;

pub use ask::{Ask, FrameName, FrameNameError};
pub use history::Occupant;
pub use rejection::{Open, Rejected, Reserved, Running};
pub use story::{Part, Story};
pub use summary::{Slowest, Summary, Task};

use bounds::Bounds;
use history::History;
use rejection::{Holders, Reservations};
use share::Shares;
use story::Teller;
use summary::Counting;

/// Stories that are kept; of more, the number is said.
const STORIES_MAX: usize = 10_000;
/// Rejections whose frames a follower has not given back yet.
const REJECTIONS_MAX: usize = 1024;

/// What was found.
#[derive(Clone, Debug, Serialize)]
pub struct Explained {
    pub summary: Summary,
    /// Of the frames that were asked for: in the order of their verdicts, or the slowest first.
    pub stories: Vec<Story>,
    /// Frames that were asked for, too, and are not told here.
    pub omitted: u64,
    /// Frames that were asked for and have no verdict in the recording.
    pub open: Vec<String>,
}

/// Follows the entries of a recording and tells what is asked.
///
/// # Errors
/// The first entry that cannot be read.
pub fn explain(
    entries: impl IntoIterator<Item = Result<Entry, ReadError>>,
    setting: &Setting,
    ask: &Ask,
) -> Result<Explained, ReadError> {
    let mut explainer = Explainer::new(setting, ask);
    for entry in entries {
        explainer.entry(&entry?);
    }
    Ok(explainer.finish())
}

struct Explainer<'s> {
    names: &'s Names,
    bounds: Bounds<'s>,
    ask: &'s Ask,
    follower: Follower,
    history: History,
    reservations: Reservations,
    shares: Shares,
    counting: Counting,
    /// The arithmetic of rejections, until their frames come.
    rejections: VecDeque<Rejection>,
    stories: Vec<Story>,
    omitted: u64,
    open: Vec<String>,
}

struct Rejection {
    ticket: Ticket,
    decided: Instant,
    arithmetic: Rejected,
}

impl<'s> Explainer<'s> {
    fn new(setting: &'s Setting, ask: &'s Ask) -> Self {
        Self {
            names: &setting.names,
            bounds: Bounds {
                config: &setting.config,
            },
            ask,
            follower: Follower::new(&setting.config),
            history: History::default(),
            reservations: Reservations::of(setting.config.tasks.len()),
            shares: Shares::of(&setting.config),
            counting: Counting::default(),
            rejections: VecDeque::new(),
            stories: Vec::new(),
            omitted: 0,
            open: Vec::new(),
        }
    }

    fn entry(&mut self, entry: &Entry) {
        if let Entry::Step(step) = entry {
            self.counting.step(step.now);
            self.rejections(step);
            self.reservations.step(step, self.bounds.config);
        }
        let mut items = Vec::new();
        self.follower.entry(entry, &mut |item| items.push(item));
        items.into_iter().for_each(|item| self.item(item));
    }

    /// Computes the arithmetic of a step's rejections, from the state before it.
    fn rejections(&mut self, step: &Step) {
        let holders = Holders {
            names: self.names,
            bounds: self.bounds,
            follower: &self.follower,
            reservations: &self.reservations,
            shares: &self.shares,
        };
        let (now, ask, names) = (step.now, self.ask, self.names);
        let replies = step.actions.iter().filter_map(|action| match action {
            Action::Reply(reply) => Some(reply),
            _ => None,
        });
        let asked = replies.filter(|reply| ask.asks_for(reply, names));
        let rejections = asked.filter_map(|reply| {
            Some(Rejection {
                ticket: reply.ticket,
                decided: now,
                arithmetic: holders.of(reply, now)?,
            })
        });
        self.rejections.extend(rejections);
        let many = self.rejections.len().saturating_sub(REJECTIONS_MAX);
        self.rejections.drain(..many);
    }

    fn item(&mut self, item: Item) {
        match item {
            Item::Run(run) => {
                self.shares.run(&run, self.bounds);
                self.history.add(run, self.follower.now());
            }
            Item::Frame(frame) => self.frame(&frame),
            Item::Open(submission) => {
                self.counting.open(&submission);
                if self.ask.names(submission.id, self.names) && self.open.len() < STORIES_MAX {
                    self.open.push(self.names.frame(submission.id));
                }
            }
            Item::Note(note) => self.counting.note(&note),
            Item::Transfer(_) => {}
        }
    }

    fn frame(&mut self, frame: &Frame) {
        self.counting.frame(frame, self.names);
        let rejection = self.rejection_of(frame);
        let is_late = frame.reply.verdict == Verdict::Late;
        let is_asked = self.ask.asks_for(&frame.reply, self.names) && self.is_slow_enough(frame);
        if !is_late && !is_asked {
            return;
        }
        let teller = Teller {
            names: self.names,
            bounds: self.bounds,
            history: is_asked.then_some(&self.history),
            follower: &self.follower,
        };
        let story = teller.tell(frame, rejection);
        if is_late {
            self.counting.late(&story);
        }
        if is_asked {
            self.keep(story);
        }
    }

    fn rejection_of(&mut self, frame: &Frame) -> Option<Rejected> {
        let (ticket, decided) = (frame.submission.id.ticket, frame.decided);
        let is_of =
            |rejection: &Rejection| rejection.ticket == ticket && rejection.decided == decided;
        let at = self.rejections.iter().position(is_of)?;
        let found = self.rejections.remove(at);
        found.map(|rejection| rejection.arithmetic)
    }

    /// Whether it is among the slowest so far, if those are asked for.
    fn is_slow_enough(&self, frame: &Frame) -> bool {
        let Ask::Slowest(count) = self.ask else {
            return true;
        };
        let has_room = self.stories.len() < (*count).min(STORIES_MAX);
        let fastest = self.stories.last().map(|story| story.latency_ns);
        has_room || fastest.is_some_and(|fastest| fastest < frame.latency())
    }

    fn keep(&mut self, story: Story) {
        if let Ask::Slowest(count) = self.ask {
            let count = (*count).min(STORIES_MAX);
            let slower = |other: &Story| other.latency_ns >= story.latency_ns;
            let at = self.stories.partition_point(slower);
            if at < count {
                self.stories.insert(at, story);
                self.stories.truncate(count);
            }
            return;
        }
        if self.stories.len() < STORIES_MAX {
            self.stories.push(story);
        } else {
            self.omitted += 1;
        }
    }

    fn finish(mut self) -> Explained {
        let mut items = Vec::new();
        // What still runs is asked for while the last frames are told.
        let follower = self.follower.clone();
        follower.finish(&mut |item| items.push(item));
        items.into_iter().for_each(|item| self.item(item));
        Explained {
            summary: self.counting.finish(),
            stories: self.stories,
            omitted: self.omitted,
            open: self.open,
        }
    }
}
