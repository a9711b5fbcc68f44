//! The folder of recordings: names by date, and no more than a budget.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use punctual_platform::clock;

/// How names begin and end.
const PREFIX: &str = "punctual-";
const SUFFIX: &str = ".mcap";

pub struct Directory {
    path: PathBuf,
    budget_bytes: u64,
}

/// A recording that is there.
struct Found {
    path: PathBuf,
    bytes: u64,
    modified: SystemTime,
}

impl Directory {
    pub const fn new(path: PathBuf, budget_bytes: u64) -> Self {
        Self { path, budget_bytes }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub const fn budget_bytes(&self) -> u64 {
        self.budget_bytes
    }

    /// Makes it, if it is not there. Pictures and habits of a place are in recordings: they are their owner's alone.
    pub fn make(&self) -> io::Result<()> {
        let mut builder = DirBuilder::new();
        builder.recursive(true).mode(0o700).create(&self.path)
    }

    /// A new file, by now and by why.
    pub fn create(&self, reason: &str) -> io::Result<(PathBuf, File)> {
        self.make()?;
        let date = clock::date_of(clock::unix_seconds());
        let date = date.trim_end_matches(" UTC").replace(' ', "T");
        let date = date.replace(':', "-");
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(0o600);
        // Another daemon may write here in the same second.
        for number in 0..100 {
            let again = match number {
                0 => String::new(),
                number => format!("-{number}"),
            };
            let name = format!("{PREFIX}{date}-{reason}{again}{SUFFIX}");
            let path = self.path.join(name);
            match options.open(&path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                opened => return opened.map(|file| (path, file)),
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    /// Removes the oldest recordings until all fit into the budget. `newest` stays.
    pub fn make_room(&self, newest: &Path) -> io::Result<()> {
        let mut found = self.recordings()?;
        found.sort_unstable_by_key(|found| found.modified);
        let mut bytes: u64 = found.iter().map(|found| found.bytes).sum();
        for oldest in found.iter().filter(|found| found.path != newest) {
            if bytes <= self.budget_bytes {
                break;
            }
            fs::remove_file(&oldest.path)?;
            bytes -= oldest.bytes;
        }
        Ok(())
    }

    fn recordings(&self) -> io::Result<Vec<Found>> {
        let mut recordings = Vec::new();
        for entry in fs::read_dir(&self.path)? {
            let entry = entry?;
            let about = entry.metadata()?;
            if about.is_file() && is_ours(&entry.path()) {
                recordings.push(Found {
                    path: entry.path(),
                    bytes: about.len(),
                    modified: about.modified()?,
                });
            }
        }
        Ok(recordings)
    }
}

/// Whether a file is named as ours are: nothing else is removed here.
fn is_ours(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    name.is_some_and(|name| name.starts_with(PREFIX) && name.ends_with(SUFFIX))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn folder(name: &str) -> PathBuf {
        let name = format!("punctual-recordings-{name}-{}", std::process::id());
        std::env::temp_dir().join(name)
    }

    #[test]
    fn recordings_are_their_owners_alone_and_have_names_of_their_own() {
        let path = folder("names");
        let directory = Directory::new(path.join("deeper"), 1);
        let made: Vec<(PathBuf, File)> = (0..3)
            .map(|_| directory.create("late").expect("a folder of ours"))
            .collect();
        for (file, open) in &made {
            assert!(is_ours(file), "{}", file.display());
            assert!(file.display().to_string().contains("-late"));
            let mode = open.metadata().expect("it is open").permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
        assert!(made[0].0 != made[1].0 && made[1].0 != made[2].0);
        fs::remove_dir_all(path).expect("it is there");
    }

    #[test]
    fn the_oldest_recordings_make_room_and_nothing_else_does() {
        let path = folder("room");
        let directory = Directory::new(path.clone(), 250);
        directory.make().expect("a folder of ours");
        fs::write(path.join("notes.mcap"), [0; 1_000]).expect("writable");
        let made: Vec<PathBuf> = (0..4)
            .map(|age| {
                let (file, mut open) = directory.create("late").expect("writable");
                open.write_all(&[0; 100]).expect("writable");
                let seconds = std::time::Duration::from_secs(1_000 + age);
                open.set_modified(std::time::UNIX_EPOCH + seconds)
                    .expect("its own");
                file
            })
            .collect();
        directory.make_room(&made[3]).expect("readable");
        assert!(path.join("notes.mcap").exists());
        let there: Vec<bool> = made.iter().map(|file| file.exists()).collect();
        assert_eq!(there, [false, false, true, true]);
        let small = Directory::new(path.clone(), 50);
        small.make_room(&made[3]).expect("readable");
        assert!(!made[2].exists() && made[3].exists(), "the newest stays");
        fs::remove_dir_all(path).expect("it is there");
    }
}
