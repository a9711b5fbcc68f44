//! The thread that writes recordings. A disk may be slow or full: nothing waits for it but this thread.

use std::fs::File;
use std::io::BufWriter;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use crossbeam_channel::{Receiver, Sender};
use punctual_core::Instant;
use punctual_events::{DaemonEvent, say};
use punctual_platform::clock;
use punctual_recording::{Segment, WriteError, Writer};

use super::about::{About, Attached};
use super::counts::Counts;
use super::directory::Directory;
use super::triggers::Trigger;

/// In memory, a segment is this much shorter than in a file, which has it in words, too.
const FILE_TIMES: u64 = 4;

/// After a failure, the disk is left alone for this long.
const PAUSE_NS: u64 = 10_000_000_000;

/// A file of everything that happens is followed by the next one after this part of the budget.
const FILES_IN_BUDGET: u64 = 4;

/// The name of a file of everything that happens.
const ALL: &str = "all";

#[derive(Debug, thiserror::Error)]
enum DiskError {
    #[error("no recording could be written: {0}")]
    File(#[from] std::io::Error),
    #[error(transparent)]
    Recording(#[from] WriteError),
}

/// Orders of the collector.
pub enum Work {
    /// A black box, and who waits for it.
    Dump {
        trigger: Trigger,
        segments: Vec<Arc<Segment>>,
        done: Option<Sender<()>>,
    },
    /// The next part of a file of everything.
    Segment(Arc<Segment>),
    /// That file is complete.
    Close,
}

pub struct Disk {
    directory: Directory,
    about: About,
    counts: Arc<Counts>,
    /// The file of everything, while there is one.
    open: Option<Open>,
    /// Nothing is tried before.
    not_before_ns: u64,
}

struct Open {
    path: PathBuf,
    reason: &'static str,
    writer: Writer<BufWriter<File>>,
    /// About as much as it has in the file.
    bytes: u64,
    /// From the begin of its first segment to the last step.
    time: Option<(Instant, Instant)>,
}

impl Open {
    fn covers(&mut self, segment: &Segment) {
        let from = self.time.map_or(segment.from, |(from, _)| from);
        self.time = Some((from, segment.to()));
    }
}

/// A file that is complete.
struct Written {
    path: PathBuf,
    reason: &'static str,
    seconds: u64,
    bytes: u64,
}

impl Disk {
    pub const fn new(directory: Directory, about: About, counts: Arc<Counts>) -> Self {
        Self {
            directory,
            about,
            counts,
            open: None,
            not_before_ns: 0,
        }
    }

    /// Works until all who could want something are gone.
    pub fn serve(mut self, work: Receiver<Work>) {
        for work in work {
            match work {
                Work::Dump {
                    trigger,
                    segments,
                    done,
                } => {
                    let written = self.dump(trigger, &segments);
                    self.tell(written.map(Some));
                    // Who waited may have given up.
                    drop(done);
                }
                Work::Segment(segment) if clock::now_ns() >= self.not_before_ns => {
                    let written = self.append(&segment);
                    self.tell(written);
                }
                Work::Segment(_) => {
                    self.counts.unwritten.fetch_add(1, Relaxed);
                }
                Work::Close => {
                    let closed = self.close();
                    self.tell(closed);
                }
            }
        }
        let closed = self.close();
        self.tell(closed);
    }

    /// Counts and says which file is complete, or why none is.
    fn tell(&mut self, written: Result<Option<Written>, DiskError>) {
        match written {
            Ok(None) => {}
            Ok(Some(written)) => {
                let event = DaemonEvent::RecordingWritten {
                    path: written.path.display().to_string(),
                    reason: written.reason,
                    seconds: written.seconds,
                    bytes: written.bytes,
                };
                say(&event);
                self.counts.wrote(written.path);
            }
            Err(error) => {
                say(&DaemonEvent::RecordingFailed {
                    path: self.directory.path().display().to_string(),
                    error: error.to_string(),
                });
                self.counts.failed.fetch_add(1, Relaxed);
                // What is in it can be read.
                self.open = None;
                self.not_before_ns = clock::now_ns() + PAUSE_NS;
            }
        }
    }

    fn dump(&self, trigger: Trigger, segments: &[Arc<Segment>]) -> Result<Written, DiskError> {
        let mut open = self.create(trigger.name())?;
        let budget = self.directory.budget_bytes() / FILE_TIMES;
        for segment in newest_within(segments, budget) {
            open.writer.whole(segment)?;
            open.covers(segment);
        }
        self.finish(open)
    }

    fn append(&mut self, segment: &Segment) -> Result<Option<Written>, DiskError> {
        let mut open = match self.open.take() {
            Some(open) => open,
            None => self.create(ALL)?,
        };
        open.writer.whole(segment)?;
        open.covers(segment);
        open.bytes += segment.bytes() as u64 * FILE_TIMES;
        if open.bytes >= self.directory.budget_bytes() / FILES_IN_BUDGET {
            return self.finish(open).map(Some);
        }
        self.open = Some(open);
        Ok(None)
    }

    fn close(&mut self) -> Result<Option<Written>, DiskError> {
        self.open.take().map(|open| self.finish(open)).transpose()
    }

    fn create(&self, reason: &'static str) -> Result<Open, DiskError> {
        let (path, file) = self.directory.create(reason)?;
        let mut writer = Writer::new(
            BufWriter::new(file),
            clock::unix_ahead_ns(),
            &self.about.setting,
        )?
        .with_notes(&punctual_events::schema())?;
        if let Some(labels) = &self.about.labels {
            writer = writer.with_pictures(&self.about.setting.names, labels)?;
        }
        for Attached {
            name,
            media_type,
            content,
        } in &self.about.files
        {
            writer.attach(name, media_type, content)?;
        }
        Ok(Open {
            path,
            reason,
            writer,
            bytes: 0,
            time: None,
        })
    }

    /// Ends a file: it is on the disk after a loss of power. Then the oldest ones make room.
    fn finish(&self, open: Open) -> Result<Written, DiskError> {
        let file = open.writer.finish()?;
        let file = file
            .into_inner()
            .map_err(std::io::IntoInnerError::into_error)?;
        file.sync_all()?;
        self.directory.make_room(&open.path)?;
        let time = open.time.map_or(0, |(from, to)| {
            to.as_nanos().saturating_sub(from.as_nanos())
        });
        Ok(Written {
            path: open.path,
            reason: open.reason,
            seconds: time / 1_000_000_000,
            bytes: file.metadata()?.len(),
        })
    }
}

/// Those of the newest segments that fit, the oldest first; the newest does in any case.
fn newest_within(segments: &[Arc<Segment>], bytes_max: u64) -> &[Arc<Segment>] {
    let mut bytes = 0;
    let newest = segments.iter().rev().take_while(|segment| {
        let is_first = bytes == 0;
        bytes += segment.bytes().max(1) as u64;
        is_first || bytes <= bytes_max
    });
    let count = newest.count();
    &segments[segments.len() - count..]
}

#[cfg(test)]
mod tests {
    use punctual_core::{Event, Nanos};
    use punctual_recording::{Entry, Step};

    use super::*;

    #[test]
    fn of_a_black_box_that_is_larger_than_the_budget_the_newest_segments_are_written() {
        let segment = |number| {
            let mut segment = Segment::new(number, Instant::ZERO, None);
            segment.push(&Entry::Step(Step {
                now: Instant::ZERO,
                took: Nanos::ZERO,
                event: Event::Tick,
                actions: Vec::new(),
            }));
            Arc::new(segment)
        };
        let segments: Vec<_> = (0..5).map(segment).collect();
        let one = segments[0].bytes() as u64;
        let numbers = |bytes_max| -> Vec<u64> {
            let newest = newest_within(&segments, bytes_max);
            newest.iter().map(|segment| segment.number).collect()
        };
        assert_eq!(numbers(0), [4]);
        assert_eq!(numbers(2 * one), [3, 4]);
        assert_eq!(numbers(9 * one), [0, 1, 2, 3, 4]);
        assert!(newest_within(&[], 7).is_empty());
    }
}
