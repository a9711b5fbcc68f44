//! What the kernel says about a machine, in its files: about this one, one under another root, or one
//! that was recorded. Nothing here writes to it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};

use punctual_platform::affinity::cores_in;
use punctual_platform::read;
use punctual_platform::rivals::{self, Files, Sighting};

/// Before the path of each file in a record.
const HEADING: &str = "==> ";

/// A longer file is not one that is looked at here.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// A record of all of them.
const RECORD_BYTES_MAX: u64 = 64 << 20;

/// A machine's `/proc` and `/sys`.
#[derive(Debug)]
pub struct Machine {
    source: Source,
    /// Every file that was read, to be recorded.
    seen: RefCell<BTreeMap<String, String>>,
}

#[derive(Debug)]
enum Source {
    Root(PathBuf),
    Record(BTreeMap<String, String>),
}

impl Machine {
    /// The one whose files lie under `root` (`/`: this one); or, if `root` is a file, the one that
    /// [`record`](Self::record) wrote there.
    pub fn at(root: &Path) -> io::Result<Self> {
        if std::fs::metadata(root)?.is_dir() {
            return Ok(Self::of(Source::Root(root.to_owned())));
        }
        Ok(Self::recorded(&read::text(root, RECORD_BYTES_MAX)?))
    }

    /// The one that a record describes.
    pub fn recorded(text: &str) -> Self {
        let mut files = BTreeMap::new();
        for part in text.split(HEADING).skip(1) {
            let (path, content) = part.split_once('\n').unwrap_or((part, ""));
            files.insert(path.trim().to_owned(), content.to_owned());
        }
        Self::of(Source::Record(files))
    }

    fn of(source: Source) -> Self {
        Self {
            source,
            seen: RefCell::default(),
        }
    }

    /// What was read of it so far, for [`recorded`](Self::recorded).
    pub fn record(&self) -> String {
        let mut text = String::new();
        for (path, content) in &*self.seen.borrow() {
            let _ = writeln!(text, "{HEADING}{path}\n{}", content.trim_end());
        }
        text
    }

    /// A file's text, without the white space (and the zero of device trees) at its end; none if it
    /// cannot be read. `path` is absolute.
    pub fn text(&self, path: &str) -> Option<String> {
        let text = self.content(path)?;
        let text = text.trim_end_matches(|c: char| c.is_whitespace() || c == '\0');
        self.saw(path, text);
        Some(text.to_owned())
    }

    /// The lines of a file that are `wanted`: a record has no others, which may be private.
    pub fn lines(&self, path: &str, wanted: impl Fn(&str) -> bool) -> Option<String> {
        let text = self.content(path)?;
        let lines: Vec<&str> = text.lines().filter(|line| wanted(line)).collect();
        let text = lines.join("\n");
        self.saw(path, &text);
        Some(text)
    }

    fn content(&self, path: &str) -> Option<String> {
        match &self.source {
            Source::Root(root) => {
                let bytes = read::bytes(&below(root, path), FILE_BYTES_MAX).ok()?;
                Some(String::from_utf8_lossy(&bytes).into_owned())
            }
            Source::Record(files) => files.get(path).cloned(),
        }
    }

    /// A file that holds one whole number.
    pub fn number(&self, path: &str) -> Option<i64> {
        self.text(path)?.parse().ok()
    }

    /// A file that holds a list of cores, as `0-3,6`; none if there is no such file.
    pub fn cores(&self, path: &str) -> Option<Vec<u16>> {
        cores_in(&self.text(path)?)
    }

    /// The names in a folder, sorted; none of them if it is not there.
    pub fn names(&self, folder: &str) -> Vec<String> {
        let mut names: Vec<String> = match &self.source {
            Source::Root(root) => std::fs::read_dir(below(root, folder))
                .into_iter()
                .flatten()
                .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
                .collect(),
            Source::Record(files) => {
                let inside = |path: &String| {
                    let rest = path.strip_prefix(folder)?.strip_prefix('/')?;
                    rest.split('/').next().map(str::to_owned)
                };
                files.keys().filter_map(inside).collect()
            }
        };
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Whether a process of that name runs.
    pub fn runs(&self, name: &str) -> bool {
        let is_number = |folder: &String| folder.bytes().all(|byte| byte.is_ascii_digit());
        let processes = self.names("/proc").into_iter().filter(is_number);
        let mut paths = processes.map(|process| format!("/proc/{process}/comm"));
        // Only the one that is found is recorded: the others are private.
        let found = paths.find(|path| match &self.source {
            Source::Root(root) => {
                let text = read::text(&below(root, path), FILE_BYTES_MAX);
                text.is_ok_and(|text| text.trim_end() == name)
            }
            Source::Record(files) => files.get(path).is_some_and(|text| text.trim_end() == name),
        });
        if let Some(path) = &found {
            self.saw(path, name);
        }
        found.is_some()
    }

    /// The real-time threads and daemons of its processes, without those of this one.
    pub fn rivals(&self) -> Sighting {
        let own = match &self.source {
            Source::Root(root) if root == Path::new("/") => Some(std::process::id()),
            _ => None,
        };
        let sighting = rivals::among(self, own);
        // Only those that were found are recorded, and who says whether all could be seen: the others are private.
        self.text(rivals::KERNEL_STAT);
        for rival in &sighting.rivals {
            let of = |tid: u32| format!("/proc/{}/task/{tid}", rival.pid);
            self.text(&format!("{}/stat", of(rival.pid)));
            self.text(&format!("{}/stat", of(rival.tid)));
            let status = format!("{}/status", of(rival.tid));
            self.lines(&status, |line| line.starts_with(rivals::CORES_LINE));
        }
        for daemon in &sighting.daemons {
            let of = format!("/proc/{}", daemon.pid);
            self.text(&format!("{of}/comm"));
            for thread in self.names(&format!("{of}/task")) {
                let status = format!("{of}/task/{thread}/status");
                self.lines(&status, |line| line.starts_with(rivals::CORES_LINE));
            }
        }
        sighting
    }

    fn saw(&self, path: &str, text: &str) {
        let mut seen = self.seen.borrow_mut();
        seen.insert(path.to_owned(), text.to_owned());
    }
}

/// Without recording anything.
impl Files for Machine {
    fn names(&self, folder: &str) -> Vec<String> {
        Self::names(self, folder)
    }

    fn text(&self, path: &str) -> Option<String> {
        self.content(path)
    }
}

/// Where the absolute `path` lies below `root`.
fn below(root: &Path, path: &str) -> PathBuf {
    root.join(path.trim_start_matches('/'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_platform::affinity::shown;

    #[test]
    fn lists_of_cores_are_shown_as_the_kernel_writes_them() {
        assert_eq!(shown(&[0, 1, 2, 3, 6]), "0-3,6");
        assert_eq!(shown(&[]), "");
    }

    #[test]
    fn a_record_gives_back_what_was_read_and_nothing_else() {
        let machine = Machine::recorded("==> /a/b\n1\n==> /a/c\ntwo\nlines\n==> /proc/7/comm\nx\n");
        assert_eq!(machine.number("/a/b"), Some(1));
        assert_eq!(machine.names("/a"), ["b", "c"]);
        assert!(machine.runs("x") && !machine.runs("y"));
        let again = Machine::recorded(&machine.record());
        assert_eq!(again.number("/a/b"), Some(1));
        assert_eq!(again.text("/a/c"), None, "nobody asked");
        assert!(again.runs("x"));
    }

    #[test]
    fn a_record_has_the_real_time_threads_and_no_other() {
        let stat = |name: &str, priority: u8, policy: u8| {
            let (before, between) = ("0 ".repeat(6), "0 ".repeat(30));
            format!("1 ({name}) S {before}{between}{priority} {policy} 0 0\n")
        };
        let file = |path: &str, text: &str| format!("==> /proc/{path}\n{text}\n");
        let status = "Name:\tsecret\nCpus_allowed_list:\t2-3";
        let record = [
            file("7/task/7/stat", &stat("camera", 0, 0)),
            file("7/task/8/stat", &stat("grabber", 50, 1)),
            file("7/task/8/status", status),
            file("9/task/9/stat", &stat("private", 0, 0)),
            file("11/comm", "punctuald"),
            file("11/task/12/status", "Name:\tsecret\nCpus_allowed_list:\t3"),
        ];
        let machine = Machine::recorded(&record.concat());
        let rivals = machine.rivals();
        assert_eq!(rivals.rivals.len(), 1);
        assert_eq!(rivals.daemons.len(), 1);
        assert!(rivals.unseen.is_some(), "nothing of the kernel's is there");
        let again = machine.record();
        assert!(
            !again.contains("secret") && !again.contains("private"),
            "{again}"
        );
        assert_eq!(Machine::recorded(&again).rivals(), rivals);
    }
}
