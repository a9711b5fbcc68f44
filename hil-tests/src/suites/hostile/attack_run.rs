//! What the cases of this suite have in common: a daemon under attack, two healthy cameras at the same time as the
//! attackers, and a probe that queries the daemon repeatedly and connects as an honest client.

use super::figures::{MEASURES, frames, housekeeping, sample, shares};
use crate::account::Account;
use crate::bed::{Camera, CameraPlan, Daemon, DaemonPlan, End, TestBed};
use crate::case::Case;
use crate::facts::Need;
use crate::manifest::Task;
use crate::outcome::Failure;
use crate::records::{self, AttackCounts, Probe, Sample};
use crate::target::process::Started;

/// How long an attack lasts, unless a case says otherwise.
pub const ATTACK_S: f64 = 3.0;

/// How long the daemon is watched before it: what the healthy load costs.
const CALM_S: f64 = 1.0;

/// How often it is looked at meanwhile.
const CALM_LOOKS: u32 = 5;

/// How long the daemon has to forget an attack: silent connections are closed after two seconds.
const SETTLING_S: u64 = 5;

/// Memory that is no growth: pages of a place that is used for the first time.
const PAGES_KIB: u64 = 256;

/// What a run needs: attackers must not have to share the cameras' only core.
pub const BESIDE: &[Need] = &[Need::Cores(2)];

pub const fn case(
    name: &'static str,
    about: &'static str,
    needs: &'static [Need],
    body: fn(&mut TestBed<'_>) -> Result<(), Failure>,
) -> Case {
    Case {
        suite: "hostile",
        name,
        about,
        needs,
        limit_s: 90,
        measures: MEASURES,
        body,
    }
}

#[derive(Clone, Debug)]
pub struct Attack {
    kind: &'static str,
    task: Task,
    count: usize,
    seconds: f64,
    uid: Option<u32>,
}

impl Attack {
    /// An attacker of this kind who comes for the best-effort task.
    pub fn of(kind: &'static str) -> Self {
        Self {
            kind,
            task: Task::Watch,
            count: 8,
            seconds: ATTACK_S,
            uid: None,
        }
    }

    pub fn on(self, task: Task) -> Self {
        Self { task, ..self }
    }

    /// The same with this number of the things that it is made of.
    pub fn with(self, count: usize) -> Self {
        Self { count, ..self }
    }

    pub fn by_user(self, uid: u32) -> Self {
        Self {
            uid: Some(uid),
            ..self
        }
    }

    pub fn for_seconds(self, seconds: f64) -> Self {
        Self { seconds, ..self }
    }
}

pub struct AttackRun {
    pub daemon: Daemon,
    pub pid: u32,
    cameras: Vec<Camera>,
    prober: Started,
    calm: Sample,
    /// What the daemon and its clients' ports cost before the attack, in cores.
    calm_shares: (f64, f64),
    attackers: Vec<(String, Attack, Started)>,
    under_attack: Option<(Sample, Sample)>,
}

impl AttackRun {
    /// Starts the daemon, the cameras and the probe, and checks that all frames are answered.
    pub fn start(bed: &mut TestBed<'_>, plan: &DaemonPlan<'_>) -> Result<Self, Failure> {
        let daemon = bed.daemon(plan)?;
        Self::with_daemon(bed, daemon)
    }

    /// The same with a daemon that runs already.
    pub fn with_daemon(bed: &mut TestBed<'_>, daemon: Daemon) -> Result<Self, Failure> {
        let pid = bed.pid(&daemon)?;
        let cameras = vec![
            bed.camera(&daemon, &CameraPlan::of(Task::Front))?,
            bed.camera(&daemon, &CameraPlan::of(Task::Fast))?,
        ];
        // As urgent as the cameras, so that what is measured is the daemon's time.
        let mut command = bed.priority(1);
        let (agent, guest) = (bed.stage.agent.clone(), Task::Guest.name());
        let asks = [
            &agent,
            "agent",
            "probe",
            "--socket",
            &daemon.socket,
            "--task",
            guest,
        ];
        command.extend(asks.map(str::to_owned));
        let prober = bed.start("prober", &[], command)?;
        for camera in &cameras {
            bed.answered(camera, 10)?;
        }
        let began = sample(bed, pid)?;
        let mut calm = began;
        for _ in 0..CALM_LOOKS {
            bed.let_pass(CALM_S / f64::from(CALM_LOOKS))?;
            let now = sample(bed, pid)?;
            // Some of the time an honest client is connected, or the probe queries.
            let descriptors = now.descriptors.min(calm.descriptors);
            calm = Sample { descriptors, ..now };
        }
        Ok(Self {
            daemon,
            pid,
            cameras,
            prober,
            calm,
            calm_shares: shares(&began, &calm),
            attackers: Vec::new(),
            under_attack: None,
        })
    }

    pub fn attack(&mut self, bed: &mut TestBed<'_>, attack: &Attack) -> Result<(), Failure> {
        let number = self.attackers.len();
        let name = format!("attacker-{number}");
        let (seed, count) = (bed.seed + number as u64, attack.count);
        let mut command = vec![bed.stage.agent.clone()];
        let fixed = [
            "agent",
            "attack",
            "--kind",
            attack.kind,
            "--task",
            attack.task.name(),
        ];
        command.extend(fixed.map(str::to_owned));
        command.extend(["--socket".to_owned(), self.daemon.socket.clone()]);
        let mut option = |key: &str, value: String| command.extend([key.to_owned(), value]);
        option("--seed", seed.to_string());
        option("--count", count.to_string());
        option("--seconds", attack.seconds.to_string());
        if let Some(uid) = attack.uid {
            option("--uid", uid.to_string());
        }
        let process = bed.start(&name, &[], command)?;
        self.attackers.push((name, attack.clone(), process));
        Ok(())
    }

    /// Waits until the attackers are done; the daemon must still run. Returns the sum of their counts.
    pub fn wait_for_attackers(&mut self, bed: &TestBed<'_>) -> Result<AttackCounts, Failure> {
        let seconds = self.attackers.iter().map(|(_, attack, _)| attack.seconds);
        let seconds = seconds.reduce(f64::max).unwrap_or_default();
        let began = sample(bed, self.pid);
        // Not to their very end: what counts is what they cost while they are there.
        bed.let_pass(seconds * 0.8)?;
        self.serves(bed)?;
        self.under_attack = Some((began?, sample(bed, self.pid)?));
        let mut all = AttackCounts::default();
        for (name, _, process) in std::mem::take(&mut self.attackers) {
            bed.ended(&name, process, seconds as u64 + 10)?;
            let done: Option<AttackCounts> = records::last(&bed.read(&format!("{name}.out"))?);
            let words = bed.read(&format!("{name}.err"))?;
            let done = done.filter(|done| done.finished).ok_or(Failure::Ending {
                who: name,
                found: "its account unfinished".to_owned(),
                wanted: "an attack",
                words: String::from_utf8_lossy(&words).into_owned(),
            })?;
            all.acts += done.acts;
            all.admitted += done.admitted;
            all.ended += done.ended;
            all.descriptors += done.descriptors;
            all.waiters += done.waiters;
            all.changes += done.changes;
            all.outputs += done.outputs;
            all.holes += done.holes;
        }
        self.serves(bed)?;
        Ok(all)
    }

    /// Whether the daemon still runs, as it was not asked to end.
    pub fn serves(&self, bed: &TestBed<'_>) -> Result<(), Failure> {
        match bed.end(&self.daemon)? {
            None => Ok(()),
            end => Err(bed.bad_end(&self.daemon, end, "none, as it was not asked to end")),
        }
    }

    /// Measures what the attack has left, and ends everything.
    pub fn finish(self, bed: &mut TestBed<'_>) -> Result<Account, Failure> {
        let settled = self.settled(bed)?;
        self.growth(bed, &settled);
        self.answers(bed, |run, bed| {
            let asked_ns = bed.strike(run.daemon.service.pid, "TERM")?;
            let ended_ns = bed.ended_well(&run.daemon)?;
            bed.measure("stop_ms", ended_ns.saturating_sub(asked_ns) as f64 / 1e6);
            bed.account(&run.daemon)
        })
    }

    /// Measures the frames and the answers of the run; `end` ends the daemon.
    pub fn answers(
        &self,
        bed: &mut TestBed<'_>,
        end: impl FnOnce(&Self, &mut TestBed<'_>) -> Result<Account, Failure>,
    ) -> Result<Account, Failure> {
        bed.stop("the prober", self.prober)?;
        let probe: Option<Probe> = records::last(&bed.read("prober.out")?);
        let probe = probe.filter(|probe| probe.finished && probe.asked > 0);
        let probe = probe.ok_or(Failure::Missing {
            what: "the probe queried the daemon all the time",
        })?;
        let mut counts = Vec::new();
        for camera in &self.cameras {
            counts.push(bed.stop_camera(camera)?);
        }
        let account = end(self, bed)?;
        frames(bed, &account, &counts);
        housekeeping(bed, &account, &probe);
        Ok(account)
    }

    /// A sample of the daemon after the attack, as soon as it has released its resources or the time is over.
    fn settled(&self, bed: &TestBed<'_>) -> Result<Sample, Failure> {
        let pid = self.pid;
        let calm = self.calm;
        let seen = bed.look_for(SETTLING_S, |bed| {
            let sample = sample(bed, pid)?;
            let forgot = sample.descriptors <= calm.descriptors
                && sample.threads <= calm.threads
                && sample.rss_kib <= calm.rss_kib + PAGES_KIB;
            Ok(forgot.then_some(sample))
        })?;
        seen.map_or_else(|| sample(bed, pid), Ok)
    }

    fn growth(&self, bed: &mut TestBed<'_>, settled: &Sample) {
        let grown = |pick: fn(&Sample) -> u64| pick(settled) as f64 - pick(&self.calm) as f64;
        bed.measure("descriptors_growth", grown(|sample| sample.descriptors));
        bed.measure("threads_growth", grown(|sample| sample.threads));
        bed.measure("rss_growth_kib", grown(|sample| sample.rss_kib));
        if self.under_attack.is_some() {
            bed.measure("attack_cpu_share", self.attack_shares().0);
        }
    }

    /// Ends the attackers that are not done.
    pub fn end_attackers(self, bed: &TestBed<'_>) -> Result<(), Failure> {
        let mut attackers = self.attackers.into_iter();
        attackers.try_for_each(|(name, _, process)| bed.stop(&name, process))
    }

    /// What the attack made the daemon and its clients' ports compute beyond the healthy load.
    pub fn attack_shares(&self) -> (f64, f64) {
        let Some((began, ended)) = &self.under_attack else {
            return (f64::NAN, f64::NAN);
        };
        let (all, ports) = shares(began, ended);
        (all - self.calm_shares.0, ports - self.calm_shares.1)
    }
}

/// What came of the start of a daemon.
pub enum Start {
    Ready(Daemon),
    /// It ended so, with these words.
    Ended(End, String, Daemon),
}

/// Starts a daemon that may refuse to.
pub fn start(bed: &mut TestBed<'_>, plan: &DaemonPlan<'_>) -> Result<Start, Failure> {
    let daemon = bed.launch(plan)?;
    match bed.ready(&daemon, 1) {
        Ok(_) => Ok(Start::Ready(daemon)),
        Err(Failure::NotReady { seconds, words }) => match bed.end(&daemon)? {
            Some(end) => Ok(Start::Ended(end, words, daemon)),
            None => Err(Failure::NotReady { seconds, words }),
        },
        Err(failure) => Err(failure),
    }
}

/// Notes why a daemon did not start.
pub fn refusal(bed: &mut TestBed<'_>, daemon: &Daemon) -> Result<(), Failure> {
    let words = bed.last_words(daemon)?;
    let last = words.trim().lines().last().unwrap_or_default();
    bed.effect(1, format!("start refused: {last}"));
    Ok(())
}

/// A complete run with these attackers, which must have done something; `words` describe that in the report.
pub fn attacked(
    bed: &mut TestBed<'_>,
    attacks: &[Attack],
    words: &str,
) -> Result<Account, Failure> {
    survived(bed, attacks, words)?.0.finish(bed)
}

/// The same for attacks that cost the daemon nothing.
pub fn attacked_idly(
    bed: &mut TestBed<'_>,
    attacks: &[Attack],
    words: &str,
) -> Result<Account, Failure> {
    let (run, _) = survived(bed, attacks, words)?;
    bed.measure("idle_attack_cpu_share", run.attack_shares().0);
    run.finish(bed)
}

/// A run whose attackers have ended, and what they did.
pub fn survived(
    bed: &mut TestBed<'_>,
    attacks: &[Attack],
    words: &str,
) -> Result<(AttackRun, AttackCounts), Failure> {
    let mut run = AttackRun::start(bed, &DaemonPlan::serving(&Task::ATTACKED))?;
    for attack in attacks {
        run.attack(bed, attack)?;
    }
    let done = run.wait_for_attackers(bed)?;
    note(bed, &done, words)?;
    Ok((run, done))
}

/// Notes what attackers did; nothing at all is a failure of the case.
pub fn note(bed: &mut TestBed<'_>, done: &AttackCounts, words: &str) -> Result<(), Failure> {
    if done.acts == 0 {
        return Err(Failure::Missing {
            what: "the attackers came near",
        });
    }
    bed.effect(done.acts, words);
    for (count, what) in [
        (done.admitted, "connections of theirs admitted as clients"),
        (done.ended, "connections of theirs ended by the daemon"),
        (done.descriptors, "descriptors that they sent"),
        (done.waiters, "threads and watches of theirs that waited"),
        (
            done.changes,
            "punches, collapses and other work on shared memory that the kernel did for them",
        ),
    ] {
        if count > 0 {
            bed.effect(count, what);
        }
    }
    Ok(())
}
