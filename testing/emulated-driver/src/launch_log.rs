//! A file with a line for each launch: where its blocks ran, and when. For tests of programs that are other processes.
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::Path;

/// A launch all of whose blocks ran.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoggedLaunch {
    pub process: u32,
    pub stream: u64,
    pub kernel: String,
    /// When its first and its last block began, in nanoseconds of the monotonic clock. What comes behind it may begin
    /// as soon as the last block has written its results: that it ended is noted later than it was seen.
    pub began_ns: u64,
    pub last_began_ns: u64,
    /// Multiprocessors that ran a block, rising.
    pub sms: Vec<u32>,
}

impl LoggedLaunch {
    /// Whether both had blocks at work at one time on one multiprocessor.
    #[must_use]
    pub fn meets(&self, other: &Self) -> bool {
        self.process == other.process
            && self.began_ns < other.last_began_ns
            && other.began_ns < self.last_began_ns
            && self.sms.iter().any(|sm| other.sms.contains(sm))
    }

    /// Appends it to the file; a file that cannot be written has no lines, which tests notice.
    pub(crate) fn append(&self, file: &str) {
        let sms: Vec<String> = self.sms.iter().map(ToString::to_string).collect();
        let line = format!(
            "{} {} {} {} {} {}\n",
            self.process,
            self.stream,
            self.kernel,
            self.began_ns,
            self.last_began_ns,
            sms.join(",")
        );
        let opened = OpenOptions::new().create(true).append(true).open(file);
        let _ = opened.and_then(|mut file| file.write_all(line.as_bytes()));
    }

    fn parse(line: &str) -> Option<Self> {
        let mut words = line.split(' ');
        Some(Self {
            process: words.next()?.parse().ok()?,
            stream: words.next()?.parse().ok()?,
            kernel: words.next()?.to_owned(),
            began_ns: words.next()?.parse().ok()?,
            last_began_ns: words.next()?.parse().ok()?,
            sms: words
                .next()?
                .split(',')
                .map(str::parse)
                .collect::<Result<_, _>>()
                .ok()?,
        })
    }
}

/// The launches of such a file, in the order of their beginning.
///
/// # Panics
/// If the file cannot be read, or a line of it is none of these.
#[must_use]
pub fn read_launch_log(file: &Path) -> Vec<LoggedLaunch> {
    let text = std::fs::read_to_string(file).expect("a log of launches");
    let parsed = text
        .lines()
        .map(|line| LoggedLaunch::parse(line).unwrap_or_else(|| panic!("{line:?}")));
    let mut launches: Vec<LoggedLaunch> = parsed.collect();
    launches.sort_by_key(|launch| launch.began_ns);
    launches
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_everything() {
        let launch = LoggedLaunch {
            process: 7,
            stream: 3,
            kernel: "copy".into(),
            began_ns: 10,
            last_began_ns: 20,
            sms: vec![0, 5],
        };
        let folder = std::env::temp_dir().join(format!("launch-log-{}", std::process::id()));
        launch.append(folder.to_str().expect("a name"));
        assert_eq!(read_launch_log(&folder), std::slice::from_ref(&launch));
        std::fs::remove_file(folder).expect("it was there");
        let later = LoggedLaunch {
            began_ns: 20,
            last_began_ns: 30,
            ..launch.clone()
        };
        let within = LoggedLaunch {
            began_ns: 15,
            ..later.clone()
        };
        assert!(!launch.meets(&later) && launch.meets(&within));
    }
}
