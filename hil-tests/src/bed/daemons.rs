//! Daemons of a case: started, struck, asked, stopped.

use crate::account::Account;
use crate::manifest::Task;
use crate::outcome::Failure;
use crate::records::{self, Moment, ServiceEvent};
use crate::target::TargetError;
use crate::target::process::Started;

use super::test_bed::TestBed;

/// How long a daemon may take to end: its drain is a second.
const END_S: u64 = 15;

#[derive(Clone, Debug)]
pub struct DaemonPlan<'a> {
    pub name: &'a str,
    pub tasks: &'a [Task],
    /// Started again when it ends.
    pub restart: bool,
    /// Killed when it has been silent to its service manager for so long.
    pub watchdog_ms: Option<u64>,
    /// Its program; none: the one under test.
    pub program: Option<&'a str>,
    /// What starts its program: a command that becomes the one that follows it, such as
    /// `sh -c '...; exec "$@"' sh`.
    pub starter: Vec<String>,
    /// Further lines for the table `[daemon]` of its manifest.
    pub keys: &'a str,
    /// Where clients connect; none: in the case's folder.
    pub socket: Option<String>,
    /// Where it writes its report; none: in the case's folder.
    pub report: Option<String>,
    pub environment: Vec<String>,
}

impl<'a> DaemonPlan<'a> {
    /// The daemon under test, for these tasks.
    #[must_use]
    pub fn serving(tasks: &'a [Task]) -> Self {
        Self {
            name: "daemon",
            tasks,
            restart: false,
            watchdog_ms: None,
            program: None,
            starter: Vec::new(),
            keys: "",
            socket: None,
            report: None,
            environment: Vec::new(),
        }
    }

    /// The same, whose process is this shell's before it is the daemon's.
    #[must_use]
    pub fn after(self, script: &str) -> Self {
        let starter = ["sh", "-c", &format!("{script}\nexec \"$@\""), "sh"].map(str::to_owned);
        Self {
            starter: starter.into(),
            ..self
        }
    }

    /// The same, started again when it ends.
    #[must_use]
    pub fn restarted(self) -> Self {
        Self {
            restart: true,
            ..self
        }
    }
}

/// A daemon that said it is ready.
#[derive(Clone, Debug)]
pub struct Daemon {
    pub name: String,
    /// The agent that looks after it.
    pub service: Started,
    pub socket: String,
    pub report: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// With this code, unless by a signal.
    pub code: Option<i32>,
    /// By this signal, unless with a code.
    pub signal: Option<i32>,
    /// When, monotonic.
    pub at_ns: u64,
}

impl TestBed<'_> {
    /// Starts a daemon and waits until it is ready.
    pub fn daemon(&mut self, plan: &DaemonPlan<'_>) -> Result<Daemon, Failure> {
        let daemon = self.launch(plan)?;
        self.ready(&daemon, 1)?;
        Ok(daemon)
    }

    /// Starts a daemon, whatever comes of it.
    pub fn launch(&mut self, plan: &DaemonPlan<'_>) -> Result<Daemon, Failure> {
        let name = plan.name;
        let manifest = self.stage.manifest(plan.tasks, plan.keys);
        self.write(&format!("{name}.toml"), &manifest)?;
        let socket = plan.socket.clone().unwrap_or_else(|| self.path("socket"));
        let report = plan
            .report
            .clone()
            .unwrap_or_else(|| self.path(&format!("{name}.json")));
        let mut command = vec![
            self.stage.agent.clone(),
            "agent".to_owned(),
            "service".to_owned(),
        ];
        let path = |suffix: &str| format!("{name}.{suffix}");
        command.extend([
            "--notify".to_owned(),
            path("notify"),
            "--log".to_owned(),
            path("log"),
        ]);
        command.extend(plan.restart.then(|| "--restart".to_owned()));
        let watchdog = plan
            .watchdog_ms
            .map(|ms| ["--watchdog-ms".to_owned(), ms.to_string()]);
        command.extend(watchdog.into_iter().flatten());
        let program = plan.program.unwrap_or(&self.stage.daemon);
        command.push("--".to_owned());
        command.extend(plan.starter.iter().cloned());
        command.extend([program.to_owned(), path("toml")]);
        command.extend([
            "--socket".to_owned(),
            socket.clone(),
            "--report".to_owned(),
            report.clone(),
        ]);
        let service = self.start(name, &plan.environment, command)?;
        Ok(Daemon {
            name: name.to_owned(),
            service,
            socket,
            report,
        })
    }

    /// Waits until a daemon has been ready for the `times`th time.
    pub fn ready(&self, daemon: &Daemon, times: usize) -> Result<u64, Failure> {
        let ready = self.look_for(self.patience_s, |bed| {
            // Looked at before its words are read, so that its last ones are not missed.
            let lives = bed.target.lives(daemon.service, bed.until_ns())?;
            let ready = bed
                .events(daemon)?
                .into_iter()
                .filter_map(|event| match event {
                    ServiceEvent::Ready { at_ns } => Some(at_ns),
                    _ => None,
                });
            let found = { ready }.nth(times - 1);
            Ok(if found.is_none() && !lives {
                Some(None)
            } else {
                found.map(Some)
            })
        })?;
        match ready.flatten() {
            Some(at_ns) => Ok(at_ns),
            None => Err(Failure::NotReady {
                seconds: self.patience_s,
                words: self.last_words(daemon)?,
            }),
        }
    }

    /// What the agent noted about a daemon.
    pub fn events(&self, daemon: &Daemon) -> Result<Vec<ServiceEvent>, Failure> {
        Ok(records::all(&self.read(&format!("{}.out", daemon.name))?))
    }

    /// The end of what a daemon, and the agent that looks after it, said on standard error.
    pub fn last_words(&self, daemon: &Daemon) -> Result<String, Failure> {
        let mut words = self.read(&format!("{}.log", daemon.name))?;
        words.extend(self.read(&format!("{}.err", daemon.name))?);
        Ok(String::from_utf8_lossy(&words).into_owned())
    }

    /// The daemon's process, of its latest start.
    pub fn pid(&self, daemon: &Daemon) -> Result<u32, Failure> {
        let started = self
            .events(daemon)?
            .into_iter()
            .rev()
            .find_map(|event| match event {
                ServiceEvent::Started { pid, .. } => Some(pid),
                _ => None,
            });
        started.ok_or(Failure::Missing {
            what: "the daemon was started",
        })
    }

    /// Sends a signal to a process and says when, on the target's monotonic clock.
    pub fn strike(&self, pid: u32, signal: &str) -> Result<u64, Failure> {
        let pid = pid.to_string();
        let output = self.agent(
            "send a signal",
            &["signal", "--pid", &pid, "--signal", signal],
        )?;
        self.form::<Moment>("the agent", &output)
            .map(|moment| moment.at_ns)
    }

    /// Plays a short role of the agent to its end, and returns what it said.
    pub fn agent(&self, purpose: &'static str, arguments: &[&str]) -> Result<Vec<u8>, Failure> {
        self.agent_for(purpose, 30, arguments)
    }

    /// As [`agent`](Self::agent), for a role of `seconds` seconds.
    pub fn agent_for(
        &self,
        purpose: &'static str,
        seconds: u64,
        arguments: &[&str],
    ) -> Result<Vec<u8>, Failure> {
        let mut command = vec![self.stage.agent.as_str(), "agent"];
        command.extend(arguments);
        let output = self.try_command(purpose, seconds, &command)?;
        match output.code {
            Some(0) => Ok(output.stdout),
            code => Err(TargetError::Failed {
                purpose,
                code,
                stderr: output.stderr,
            }
            .into()),
        }
    }

    /// What a daemon reports about itself now.
    pub fn live(&self, daemon: &Daemon) -> Result<Account, Failure> {
        let said = self.agent("read the metrics", &["metrics", "--socket", &daemon.socket])?;
        self.form("the metrics socket", &said)
    }

    fn form<T: for<'a> serde::Deserialize<'a>>(
        &self,
        who: &str,
        said: &[u8],
    ) -> Result<T, Failure> {
        serde_json::from_slice(said).map_err(|_| Failure::Form {
            who: who.to_owned(),
            said: String::from_utf8_lossy(said).chars().take(200).collect(),
        })
    }

    /// Asks a daemon to end; it must end well, and its account add up.
    pub fn stop_daemon(&self, daemon: &Daemon) -> Result<Account, Failure> {
        self.end_daemon(daemon)?;
        self.account(daemon)
    }

    /// What a daemon that has ended wrote; it must add up.
    pub fn account(&self, daemon: &Daemon) -> Result<Account, Failure> {
        let text = self.target.read(&daemon.report, self.until_ns())?;
        let account: Account = self.form("the daemon's report", &text)?;
        account.adds_up()?;
        Ok(account)
    }

    /// Asks a daemon to end; it must end with code 0.
    pub fn end_daemon(&self, daemon: &Daemon) -> Result<(), Failure> {
        self.target
            .signal(daemon.service, "TERM", false, self.until_ns())?;
        self.ended_well(daemon).map(drop)
    }

    /// Waits for the end of a daemon that was asked to end, which must be with code 0; says when.
    pub fn ended_well(&self, daemon: &Daemon) -> Result<u64, Failure> {
        self.ended(&daemon.name, daemon.service, END_S)?;
        match self.end(daemon)? {
            Some(End {
                code: Some(0),
                at_ns,
                ..
            }) => Ok(at_ns),
            end => Err(self.bad_end(daemon, end, "code 0")),
        }
    }

    /// How a daemon has ended for good; none if it has not.
    pub fn end(&self, daemon: &Daemon) -> Result<Option<End>, Failure> {
        Ok(match self.events(daemon)?.pop() {
            Some(ServiceEvent::Ended {
                code,
                signal,
                at_ns,
            }) => Some(End {
                code,
                signal,
                at_ns,
            }),
            _ => None,
        })
    }

    /// An unexpected end, with the daemon's last messages.
    #[must_use]
    pub fn bad_end(&self, daemon: &Daemon, end: Option<End>, wanted: &'static str) -> Failure {
        let found = match end {
            Some(End {
                code: Some(code), ..
            }) => format!("code {code}"),
            Some(End {
                signal: Some(signal),
                ..
            }) => format!("signal {signal}"),
            _ => "nothing noted".to_owned(),
        };
        match self.last_words(daemon) {
            Ok(words) => Failure::Ending {
                who: daemon.name.clone(),
                found,
                wanted,
                words,
            },
            Err(failure) => failure,
        }
    }
}
