//! Files and processes on the target, all marked as this run's, so that none is left over unseen.

use super::{Script, Target, TargetError};

/// Name of the environment variable that marks a run's processes.
pub const MARK: &str = "PUNCTUAL_HIL_RUN";

/// A process that a case started. Its group has the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Started {
    /// Process and process group on the target.
    pub pid: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOver {
    pub pid: u32,
    pub command: String,
}

#[derive(Clone, Debug)]
pub struct Launch<'a> {
    /// Folder on the target to start it in.
    pub folder: &'a str,
    /// It says what it says in `NAME.out` and `NAME.err` there.
    pub name: &'a str,
    pub mark: &'a str,
    /// Further environment, `NAME=value`.
    pub environment: Vec<String>,
    pub command: Vec<String>,
}

impl Target {
    /// Writes a file, all of it or nothing, with this mode in octal.
    pub fn write(
        &self,
        path: &str,
        mode: &str,
        bytes: &[u8],
        until_ns: u64,
    ) -> Result<(), TargetError> {
        let text = "cat > \"$1.part\" && chmod \"$2\" \"$1.part\" && mv -f \"$1.part\" \"$1\"";
        let script = Script::new("write a file", text)
            .with([path, mode])
            .fed(bytes);
        self.run(&script, until_ns).map(drop)
    }

    /// Reads a file; empty if there is none.
    pub fn read(&self, path: &str, until_ns: u64) -> Result<Vec<u8>, TargetError> {
        let script = Script::new("read a file", "[ ! -e \"$1\" ] || cat \"$1\"").with([path]);
        Ok(self.run(&script, until_ns)?.stdout)
    }

    /// Starts a process that outlives this call, in a session of its own.
    pub fn start(&self, launch: &Launch<'_>, until_ns: u64) -> Result<Started, TargetError> {
        // A background job of a shell that is not interactive is no group's leader, so `setsid`
        // does not fork, and `$!` is the process itself. It is not left before it has its mark, or
        // has ended: it could be overlooked.
        let text = "cd \"$1\" || exit; name=$2; mark=$3; shift 3
            setsid env \"$mark\" \"$@\" >\"$name.out\" 2>\"$name.err\" </dev/null &
            until grep -qsxz -- \"$mark\" /proc/$!/environ; do
                case $(sed 's/.*) //' /proc/$!/stat 2>/dev/null) in Z*|X*|'') break;; esac
            done; echo $!";
        let mark = format!("{MARK}={}", launch.mark);
        let script = Script::new("start a process", text)
            .with([launch.folder, launch.name, mark.as_str()])
            .with(launch.environment.iter().cloned())
            .with(launch.command.iter().cloned());
        let output = self.run(&script, until_ns)?;
        let pid = output.text().parse().map_err(|_| TargetError::Failed {
            purpose: script.purpose,
            code: output.code,
            stderr: output.stderr,
        })?;
        Ok(Started { pid })
    }

    /// Whether a process has not ended. One whose parent has not waited for it (a zombie) has ended.
    pub fn lives(&self, process: Started, until_ns: u64) -> Result<bool, TargetError> {
        // The third field, after a name that may contain anything.
        let text = "state=$(sed 's/.*) //' \"/proc/$1/stat\" 2>/dev/null) || state=X
            case $state in Z*|X*|'') echo no;; *) echo yes;; esac";
        let script = Script::new("look at a process", text).with([process.pid.to_string()]);
        Ok(self.run(&script, until_ns)?.text() == "yes")
    }

    /// Sends a signal to a process, or to its whole group. One that is gone is no error.
    pub fn signal(
        &self,
        process: Started,
        name: &str,
        group: bool,
        until_ns: u64,
    ) -> Result<(), TargetError> {
        let recipient = if group {
            format!("-{}", process.pid)
        } else {
            process.pid.to_string()
        };
        let text = "kill -s \"$1\" -- \"$2\" 2>/dev/null || true";
        let script = Script::new("send a signal", text).with([name.to_owned(), recipient]);
        self.run(&script, until_ns).map(drop)
    }

    /// The processes that have this mark.
    pub fn marked(&self, mark: &str, until_ns: u64) -> Result<Vec<LeftOver>, TargetError> {
        // A process may end between being found and being named.
        let text = "for found in $(grep -lsxz -- \"$1\" /proc/[0-9]*/environ); do
                folder=${found%/environ}
                case $(sed 's/.*) //' \"$folder/stat\" 2>/dev/null) in Z*|X*|'') continue;; esac
                echo \"${folder#/proc/} $(tr '\\0' ' ' 2>/dev/null <\"$folder/cmdline\")\"
            done; true";
        let script =
            Script::new("look for left-over processes", text).with([format!("{MARK}={mark}")]);
        let output = self.run(&script, until_ns)?;
        let lines = output.text();
        let found = lines.lines().filter_map(|line| {
            let (pid, command) = line.split_once(' ')?;
            Some(LeftOver {
                pid: pid.parse().ok()?,
                command: command.trim().to_owned(),
            })
        });
        Ok(found.collect())
    }

    /// Kills what is marked and removes a folder, mounts in it included.
    pub fn reset(&self, mark: &str, folder: &str, until_ns: u64) -> Result<(), TargetError> {
        for process in self.marked(mark, until_ns)? {
            self.signal(Started { pid: process.pid }, "KILL", false, until_ns)?;
        }
        let text = "for mount in $(awk -v under=\"$1/\" 'index($2, under) == 1 { print $2 }' /proc/mounts); do
                umount -l \"$mount\"
            done; rm -rf \"$1\" && mkdir -p \"$1\"";
        self.run(&Script::new("reset", text).with([folder]), until_ns)
            .map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::{Place, child::pause};
    use punctual_client::now_ns;

    fn soon() -> u64 {
        now_ns() + 60_000_000_000
    }

    #[test]
    fn what_was_started_is_found_by_its_mark_and_gone_after_a_reset() {
        let target = Target::new(Place::Local);
        let mark = format!("test-{}", std::process::id());
        let folder = format!("{}/punctual-hil-{mark}", std::env::temp_dir().display());
        target
            .reset(&mark, &folder, soon())
            .expect("a fresh folder");
        target
            .write(&format!("{folder}/file"), "600", b"12", soon())
            .expect("written");
        assert_eq!(
            target
                .read(&format!("{folder}/file"), soon())
                .expect("read"),
            b"12"
        );
        assert_eq!(
            target
                .read(&format!("{folder}/none"), soon())
                .expect("read"),
            b""
        );

        let launch = Launch {
            folder: &folder,
            name: "sleeper",
            mark: &mark,
            environment: vec!["WORD=a b".to_owned()],
            // One that hides in a session of its own.
            command: ["sh", "-c", "echo $WORD; setsid sleep 1000 & wait"]
                .map(str::to_owned)
                .to_vec(),
        };
        let started = target.start(&launch, soon()).expect("started");
        assert!(target.lives(started, soon()).expect("looked"));
        while target.marked(&mark, soon()).expect("looked").len() < 2 {
            pause(1);
        }
        assert_eq!(
            target
                .read(&format!("{folder}/sleeper.out"), soon())
                .expect("read"),
            b"a b\n"
        );
        target.reset(&mark, &folder, soon()).expect("reset");
        let until_ns = soon();
        while target.lives(started, soon()).expect("looked") {
            assert!(now_ns() < until_ns, "it was killed");
            pause(1);
        }
        assert_eq!(target.marked(&mark, soon()).expect("looked"), []);
        std::fs::remove_dir(&folder).expect("an empty folder");
    }
}
