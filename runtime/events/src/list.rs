//! The list of events. A name and an id are for ever: operators and programs search for them.

use std::sync::LazyLock;

use log::Level;
use punctual_core::{ActionId, ClientId, Demotion, ModelId, PartitionId};
use punctual_platform::logging;

use crate::declaration::{Declaration, Declared, FieldDeclaration, Writer, events};
use crate::field::{Field, Names, Thousandths, Value};

events! {
    /// What real-time threads write, for an ordinary thread to say. Without anything on the heap.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum RtEvent {
        /// A client broke the protocol, or made the daemon wait for it.
        ClientFault { client: ClientId, fault: &'static str }
            is "client-fault", Warn from Port, counted in "channel_faults", id "edb91d82256c4ddea11fbe2ed991ed05",
            says "{client}: disconnected for {fault}";

        /// The first frame of a client that ended for this reason. `frames-unanswered` counts the others.
        FrameUnanswered { client: ClientId, sequence: u64, reason: &'static str }
            is "frame-unanswered", Info from Scheduler,
            says "{client}: frame {sequence} has no answer: {reason}";

        PayloadFault { client: ClientId, slot: u16 }
            is "payload-fault", Warn from Intake, counted in "tasks[].failed.payload",
            says "{client}: the payload in slot {slot} could not be read";

        ActionFailed { partition: PartitionId, action: ActionId }
            is "action-failed", Warn from Scheduler, counted in "partitions[].failed",
            says "partition {partition:?}: action {action} failed";

        /// The scheduler and the device disagree about the plan.
        ActionRefused { partition: PartitionId, action: ActionId }
            is "action-refused", Error from Scheduler,
            says "partition {partition:?}: the device refused action {action}, which is a defect of Punctual";

        LoadFailed { model: ModelId, action: ActionId }
            is "load-failed", Warn from Scheduler, counted in "paging.failed",
            says "model {model:?}: load {action}: the weights could not be read, or their hash differs from the package's";

        WeightsRefused { model: ModelId }
            is "weights-refused", Error from Scheduler,
            says "model {model:?}: the device refused to move its weights, which is a defect of Punctual";

        /// A model broke its profile. `worst` is the longest of its stages.
        Demoted { partition: PartitionId, model: ModelId, overran: u8, of: u8, worst: Thousandths }
            is "demoted", Error from Scheduler, counted in "tasks[].demotions", id "1d1b49d13c3948918eff78e1bf9d8492",
            says "partition {partition:?}: model {model:?} demoted: overran {overran} of {of}, worst {worst} times its budget; \
                  its tasks have no promises until it keeps its profile again";

        Reinstated { partition: PartitionId, model: ModelId }
            is "reinstated", Info from Scheduler, id "90bb7eebb466464abf57f41acb33efab",
            says "partition {partition:?}: model {model:?} keeps its profile again; its tasks have their promises again";

        WeightsLoaded { model: ModelId, took_us: u64 }
            is "weights-loaded", Debug from Scheduler, counted in "paging.load_us.count",
            says "model {model:?}: its weights were loaded in {took_us} us";

        /// Their pages are another model's to take.
        WeightsEvicted { model: ModelId }
            is "weights-evicted", Debug from Scheduler, counted in "paging.evictions",
            says "model {model:?}: its weights were evicted";
    }
}

impl From<Demotion> for RtEvent {
    fn from(demotion: Demotion) -> Self {
        let Demotion {
            partition,
            model,
            overran,
            of,
            worst,
        } = demotion;
        let worst = Thousandths(worst);
        Self::Demoted {
            partition,
            model,
            overran,
            of,
            worst,
        }
    }
}

/// The ring of real-time threads is a static of a thousand of them.
const _: () = assert!(size_of::<RtEvent>() <= 32);

events! {
    /// What ordinary threads say.
    #[derive(Clone, Debug, PartialEq)]
    pub enum DaemonEvent {
        /// The exit code says the kind of error.
        NotStarted { error: String }
            is "not-started", Error from Startup, id "2f35a347eb124ffa8cdc15df8fd53444",
            says "{error}";

        /// The cause, and the remedy. The last good configuration is tried.
        ConfigurationRefused { error: String }
            is "configuration-refused", Error from Startup, id "4b0f6d2c8a7e4f19b5d3c1e09a62f784",
            says "{error}";

        LastGoodServed { folder: String }
            is "last-good-served", Warn from Startup, id "7db7918d45c542d8ad48daef3847a21b",
            says "the configuration above cannot be served: serving the last one that could, which is kept in {folder}. \
                  Correct it, and start the daemon again";

        LastGoodRefused { error: String }
            is "last-good-refused", Warn from Startup,
            says "nor can the last good configuration be served: {error}";

        PlanMade { plan: String, manifest: String, models: u64, tasks: u64, clients: u64, memory_bytes: u64 }
            is "plan-made", Debug from Startup,
            says "plan {plan} of {manifest}: {models} models, {tasks} tasks, {clients} clients at most, {memory_bytes} bytes of memory";

        ModelPlanned { model: String, package: String, stages: u64 }
            is "model-planned", Debug from Startup,
            says "model {model:?} of {package}: {stages} stages";

        ThreadPlanned { role: String, core: u16, priority: String }
            is "thread-planned", Debug from Startup,
            says "thread {role} on core {core}, priority {priority}";

        /// What `punctual check` warns of, too.
        PlanWarning { warning: String }
            is "plan-warning", Warn from Startup,
            says "warning: {warning}";

        RivalsSeen { threads: String }
            is "rivals-seen", Warn from Startup,
            says "threads of others may keep the plan's cores from the daemon's threads: {threads}";

        RivalsUnseen { reason: String }
            is "rivals-unseen", Info from Startup,
            says "real-time threads of others may run on the plan's cores: {reason}";

        NotGranted { facility: String, remedy: String }
            is "not-granted", Warn from Startup, counted in "missing",
            says "the system does not grant {facility}: continuing without it. To grant it: {remedy}";

        GpuFound { gpu: String, partitions: &'static str }
            is "gpu-found", Info from Startup,
            says "GPU: {gpu}; partitions {partitions}";

        TpcsGranted { kind: &'static str, partition: String, tpcs: u64, core: u16 }
            is "tpcs-granted", Info from Startup,
            says "{kind} {partition:?} has {tpcs} TPCs, led by core {core}";

        /// The GPU's driver was initialised without a setting of its environment.
        GpuEnvironment { unmet: String }
            is "gpu-environment", Warn from Startup,
            says "{unmet}";

        PartitionServed { partition: String, units: String, leader: String }
            is "partition-served", Info from Startup,
            says "partition {partition}: {units}, {leader}";

        /// `promise` is what holds as long as the machine keeps its bounds.
        TaskServed { task: String, model: String, partition: String, terms: String, promise: String }
            is "task-served", Info from Startup,
            says "task {task}: model {model} on partition {partition}, {terms}: {promise}";

        /// `metrics` is where `punctual top`, `status` and `metrics` connect.
        Listening { socket: String, metrics: String, policy: String }
            is "listening", Info from Startup,
            says "clients connect at {socket}; metrics at {metrics}; policy {policy}";

        /// Frames of the task are answered from now on. `ms` is counted from the beginning of the process.
        TaskReady { task: String, ms: u64, ready: u64, all: u64 }
            is "task-ready", Info from Housekeeping, counted in "start.tasks_ready",
            says "task {task} is ready after {ms} ms: {ready} of {all} tasks";

        /// All networks run as they were measured.
        AllLoaded { ms: u64 }
            is "all-loaded", Info from Housekeeping, counted in "start.whole_ms",
            says "all networks are loaded after {ms} ms";

        /// The daemon serves without it. Before any task is ready, it ends instead.
        ModelNotLoaded { model: String, served_without: String, reason: String }
            is "model-not-loaded", Error from Housekeeping, counted in "start.failures",
            says "model {model:?} cannot be loaded, and tasks {served_without} are served without it or not at all: {reason}";

        /// The first task is ready. The line is that of `systemctl status`.
        Started { status: String }
            is "started", Info from Startup, id "903dce8004174b71a0ea92518f93e667",
            says "{status}";

        /// Three of a user and a task within a minute; `clients-came` counts the others.
        ClientAdmitted { client: ClientId }
            is "client-admitted", Info from Housekeeping, counted in "clients.accepted",
            says "{client}: connected";

        /// Of a client that `client-admitted` named.
        ClientGone { client: ClientId, served: String }
            is "client-gone", Info from Housekeeping, counted in "clients.gone",
            says "{client}: disconnected after {served}";

        /// The first client of the task that this happened to. Cores prepare such frames without a copy.
        FramesCopied { task: String, reason: String }
            is "frames-copied", Warn from Housekeeping, counted in "tasks[].copied_bytes",
            says "task {task}: frames are copied before the GPU prepares them: {reason}; \
                  with prepare = \"cores\" nothing is copied";

        ClientsCame { uid: u32, task: String, count: u32, within_s: u64 }
            is "clients-came", Info from Housekeeping,
            says "task {task}: {count} more clients of user {uid} connected within {within_s} s";

        /// Counted since the last of these, or since the first frame of each reason.
        FramesUnanswered { client: ClientId, count: u64, of: u64, reasons: String }
            is "frames-unanswered", Info from Housekeeping, counted in "tasks[].rejected",
            says "{client}: {count} of {of} frames have no answer: {reasons}";

        ClientRefused { client_pid: i32, uid: u32, task: String, reason: String }
            is "client-refused", Warn from Housekeeping, counted in "clients.refused",
            says "task {task}: pid {client_pid} of user {uid} was refused: {reason}";

        /// `asked` is the client's choice, so it is no `task`.
        StrangerRefused { client_pid: i32, uid: u32, asked: String, reason: String }
            is "stranger-refused", Warn from Housekeeping, counted in "clients.refused",
            says "pid {client_pid} of user {uid}, for task {asked:?}, was refused: {reason}";

        /// What it sent to introduce itself could not be read.
        OpeningRefused { client_pid: i32, uid: u32, reason: String }
            is "opening-refused", Warn from Housekeeping, counted in "clients.refused",
            says "pid {client_pid} of user {uid} was refused: {reason}";

        ClientsRefused { uid: u32, task: String, count: u32, within_s: u64 }
            is "clients-refused", Warn from Housekeeping,
            says "task {task}: clients of user {uid} were refused {count} more times within {within_s} s";

        StrangersRefused { uid: u32, count: u32, within_s: u64 }
            is "strangers-refused", Warn from Housekeeping,
            says "clients of user {uid}, without a task of the manifest, were refused {count} more times within {within_s} s";

        /// The client was let in, and its channel could not be made.
        ClientNotAdmitted { client_pid: i32, error: String }
            is "client-not-admitted", Info from Housekeeping, counted in "clients.refused",
            says "pid {client_pid} could not be admitted: {error}";

        AcceptingFailed { error: String }
            is "accepting-failed", Info from Housekeeping,
            says "no client can be accepted at present: {error}";

        AcceptingAgain
            is "accepting-again", Info from Housekeeping,
            says "clients are accepted again";

        LinesDropped { count: u32 }
            is "lines-dropped", Info from Housekeeping,
            says "{count} more lines of this kind were dropped";

        /// The reason for `load-failed`.
        WeightsNotLoaded { model: String, reason: String }
            is "weights-not-loaded", Info from Housekeeping,
            says "weights of model {model:?} were not loaded: {reason}";

        GpuFault { fault: String }
            is "gpu-fault", Info from Housekeeping, counted in "gpu.faults",
            says "a fault of the GPU: {fault}";

        /// It got no processor; `who` may have had its core.
        ThreadStarved { thread: String, starved_ms: u64, ends_ms: u64, who: String }
            is "thread-starved", Warn from Housekeeping, counted in "watchdog.starved_episodes",
            says "thread {thread} is starved: it is ready to run, and the machine has not run it for {starved_ms} ms; the \
                  daemon ends at {ends_ms} ms: {who}";

        ThreadSilent { thread: String, doing: &'static str, silent_ms: u64, ends_ms: u64 }
            is "thread-silent", Warn from Housekeeping, counted in "watchdog.episodes",
            says "thread {thread} is silent: it {doing} for {silent_ms} ms; the daemon ends at {ends_ms} ms";

        ThreadRuns { thread: String, unseen_ms: u64 }
            is "thread-runs", Warn from Housekeeping,
            says "thread {thread} runs again after at least {unseen_ms} ms";

        ClientAwaited { thread: String, silent_ms: u64 }
            is "client-awaited", Warn from Housekeeping,
            says "thread {thread} has waited for its client for {silent_ms} ms: the client is disconnected";

        /// The bound is over; `state` says what the thread did.
        Stuck { thread: String, state: String }
            is "stuck", Error from Housekeeping, id "009aeaad361d464f90ec5a68f43e5e6d",
            says "{state}";

        /// It comes after `stuck`, with exit code 8.
        StuckEnding
            is "stuck-ending", Error from Housekeeping,
            says "a real-time thread is stuck: terminating, so that the service manager restarts the daemon";

        ShedBegun
            is "shed-begun", Info from Housekeeping,
            says "best-effort work is rejected until all threads are healthy";

        ShedEnded
            is "shed-ended", Info from Housekeeping,
            says "all threads are healthy: best-effort work is accepted again";

        ReportWritten { path: String }
            is "report-written", Info from Housekeeping,
            says "SIGUSR1: wrote {path}";

        ReportUnwanted
            is "report-unwanted", Warn from Housekeeping,
            says "SIGUSR1: there is no report without --report; the metrics socket has the same";

        /// The report could not be written.
        ReportFailed { error: String }
            is "report-failed", Error from Housekeeping,
            says "{error}";

        RecordingWritten { path: String, reason: &'static str, seconds: u64, bytes: u64 }
            is "recording-written", Info from Recorder, counted in "recorder.written",
            says "recorded: {path} ({seconds} s in {bytes} bytes; reason: {reason})";

        /// The files' folder, and why. The disk is left alone for ten seconds.
        RecordingFailed { path: String, error: String }
            is "recording-failed", Warn from Recorder, counted in "recorder.failed",
            says "{path}: {error}";

        /// The ring was full. Said when a loss begins; replay goes on at the next segment.
        RecordsLost { count: u64 }
            is "records-lost", Warn from Recorder, counted in "recorder.steps_lost",
            says "the recorder does not keep up: {count} steps are lost so far";

        RecorderOff
            is "recorder-off", Info from Startup,
            says "nothing is recorded: `[recorder] directory` is not given, and there is no state directory";

        RecordingUnwanted
            is "recording-unwanted", Warn from Housekeeping,
            says "SIGUSR2: nothing is recorded";

        /// A signal asked for it. What was accepted is answered.
        Stopping
            is "stopping", Info from Housekeeping, id "146c6094993043e4bf831d03d3d6f18a",
            says "asked to terminate";

        ParentGone
            is "parent-gone", Info from Housekeeping,
            says "the process that started this one is gone: terminating";

        ThreadEnded
            is "thread-ended", Error from Housekeeping,
            says "a thread ended by itself, see above: terminating";

        GpuLost { reason: String }
            is "gpu-lost", Error from Housekeeping, id "5d7c0b3e0a9f4d0c8b1f6a2e94c7d3b8",
            says "this process can no longer use the GPU: {reason}; terminating, as a new process can";

        RequestsLost { count: u64 }
            is "requests-lost", Error from Housekeeping, counted in "tasks[].lost",
            says "{count} requests were open at the end and are lost";

        /// Of a task, at the end.
        TaskSummary { task: String, submitted: u64, on_time: u64, late: u64, rejected: u64, failed: u64, more: String }
            is "task-summary", Info from Housekeeping,
            says "task {task}: {submitted} frames: {on_time} on time, {late} late, {rejected} rejected, {failed} failed{more}";

        /// All that was accepted has its verdict, or was said to be lost.
        Stopped { status: String }
            is "stopped", Info from Housekeeping, id "14c2dbf764294204903e6aaea931c546",
            says "{status}";

        /// A GPU that was lost needs a new process.
        NotRestarted
            is "not-restarted", Error from Housekeeping,
            says "nothing is known to start this daemon again, as no service manager started it: start it again \
                  (systemd does so by itself, see docs/deploying.md)";
    }
}

/// All of them.
pub fn declarations() -> impl Iterator<Item = &'static Declaration> + Clone {
    RtEvent::DECLARATIONS
        .iter()
        .chain(DaemonEvent::DECLARATIONS)
}

/// Those with an id, as the log's backend adds it to entries of the journal.
#[must_use]
pub fn message_ids() -> &'static [logging::Event] {
    static IDS: LazyLock<Vec<logging::Event>> = LazyLock::new(|| {
        let of = |declaration: &'static Declaration| {
            let name = declaration.name;
            let message_id = declaration.message_id?;
            Some(logging::Event { name, message_id })
        };
        declarations().filter_map(of).collect()
    });
    &IDS
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_and_ids_are_unique_and_well_formed() {
        let mut names = BTreeSet::new();
        for declaration in declarations() {
            let name = declaration.name;
            let is_kebab = |c: char| c.is_ascii_lowercase() || c == '-';
            assert!(name.chars().all(is_kebab), "{name}");
            assert!(names.insert(name), "{name} twice");
        }
        let ids: BTreeSet<&str> = message_ids().iter().map(|event| event.message_id).collect();
        assert_eq!(ids.len(), message_ids().len());
        let is_hex = |c: char| c.is_ascii_hexdigit() && !c.is_ascii_uppercase();
        for id in ids {
            assert!(id.len() == 32 && id.chars().all(is_hex), "{id}");
        }
    }

    /// A message of a recording has all fields of all events side by side.
    #[test]
    fn fields_of_the_same_name_are_of_the_same_kind() {
        let mut kinds = std::collections::BTreeMap::new();
        for field in declarations().flat_map(|declaration| declaration.fields) {
            for (name, kind) in field.kind.fields(field.name) {
                let kind = kind.json_type();
                assert_eq!(*kinds.entry(name).or_insert(kind), kind, "{name}");
                assert!(
                    !["at_ns", "event", "level", "text"].contains(&name),
                    "{name}"
                );
            }
        }
    }

    #[test]
    fn a_value_finds_its_own_declaration() {
        let first = RtEvent::ClientFault {
            client: ClientId(3),
            fault: "slow memory",
        };
        let last = DaemonEvent::NotRestarted;
        assert_eq!(first.declaration().name, "client-fault");
        assert_eq!(last.declaration().name, "not-restarted");
    }

    #[test]
    fn ids_have_the_plans_names_in_sentences_and_fields_and_numbers_without_a_plan() {
        struct Plan;
        impl Names for Plan {
            fn partition(&self, id: PartitionId) -> Option<&str> {
                (id == PartitionId(1)).then_some("main")
            }
            fn task_of(&self, _: ClientId) -> Option<&str> {
                Some("front")
            }
            fn pid_of(&self, _: ClientId) -> Option<i32> {
                Some(17)
            }
        }
        let demoted = RtEvent::from(Demotion {
            partition: PartitionId(1),
            model: ModelId(2),
            overran: 3,
            of: 8,
            worst: 1_050,
        });
        let said = "partition \"main\": model \"2\" demoted: overran 3 of 8, worst 1.050 times its budget; \
                    its tasks have no promises until it keeps its profile again";
        assert_eq!(demoted.text(&Plan), said);
        let fault = RtEvent::ClientFault {
            client: ClientId(3),
            fault: "slow memory",
        };
        let fields = [
            ("client", Value::Whole(3)),
            ("task", Value::Text("front".into())),
            ("client_pid", Value::Whole(17)),
            ("fault", Value::Text("slow memory".into())),
        ];
        assert_eq!(fault.fields(&Plan), fields);
        assert_eq!(fault.fields(&()).len(), 2, "a client that is not known");
    }
}
