//! Which cores take which interrupts.

use crate::host::{Cores, Finding, Gravity, Machine, Subject, remedy, shown};

/// As many are named; the others are counted.
const NAMED_MAX: usize = 4;

/// Devices whose interrupts were seen to starve behind real-time threads, by parts of their names.
const FEEDERS: [&str; 5] = ["xhci", "usb", "ehci", "eth", "host1x"];

/// A line of `/proc/interrupts` that is about a device.
struct Interrupt {
    number: u32,
    name: String,
    /// How often each core took it, in the order of the file's heading.
    counts: Vec<(u16, u64)>,
}

fn interrupts(machine: &Machine) -> Vec<Interrupt> {
    let text = machine.text("/proc/interrupts").unwrap_or_default();
    let mut lines = text.lines();
    let heading = lines.next().unwrap_or_default().split_whitespace();
    let cores: Vec<u16> = heading
        .filter_map(|word| word.strip_prefix("CPU")?.parse().ok())
        .collect();
    let read = |line: &str| {
        let mut words = line.split_whitespace();
        let number = words.next()?.strip_suffix(':')?.parse().ok()?;
        let counts = cores
            .iter()
            .map(|core| Some((*core, words.next()?.parse().ok()?)));
        let counts = counts.collect::<Option<_>>()?;
        let name = words.next_back().unwrap_or("unnamed").to_owned();
        Some(Interrupt {
            number,
            name,
            counts,
        })
    };
    lines.filter_map(read).collect()
}

/// Where one is taken now; none if the kernel does not tell.
fn goes_to(machine: &Machine, interrupt: &Interrupt) -> Option<Vec<u16>> {
    let folder = format!("/proc/irq/{}", interrupt.number);
    let effective = machine.cores(&format!("{folder}/effective_affinity_list"));
    let effective = effective.filter(|cores| !cores.is_empty());
    effective.or_else(|| machine.cores(&format!("{folder}/smp_affinity_list")))
}

pub fn on_partitions(machine: &Machine, cores: &Cores) -> Option<Finding> {
    let all = interrupts(machine);
    if all.is_empty() {
        return None;
    }
    let here = |interrupt: &&Interrupt| {
        let taken = interrupt.counts.iter();
        let taken = taken.filter(|(core, _)| cores.partitions.contains(core));
        let taken: u64 = taken.map(|(_, count)| count).sum();
        let goes = goes_to(machine, interrupt);
        let goes = goes.is_some_and(|goes| goes.iter().any(|c| cores.partitions.contains(c)));
        goes && taken > 0
    };
    let here: Vec<&Interrupt> = all.iter().filter(here).collect();
    if here.is_empty() {
        let found = format!("none on cores {}", shown(&cores.partitions));
        return Some(Finding::good(Subject::Interrupts, found));
    }
    let names = here.iter().take(NAMED_MAX);
    let names: Vec<String> = names
        .map(|i| format!("{} ({})", i.number, i.name))
        .collect();
    let more = match here.len().saturating_sub(NAMED_MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let found = format!(
        "{}{more} on cores {}",
        names.join(", "),
        shown(&cores.partitions)
    );
    let finding = Finding::new(Subject::Interrupts, Gravity::Costly, found);
    let online = machine
        .cores("/sys/devices/system/cpu/online")
        .unwrap_or_default();
    let free: Vec<u16> = online
        .iter()
        .filter(|core| !cores.partitions.contains(core))
        .copied()
        .collect();
    let numbers: Vec<String> = here.iter().map(|i| i.number.to_string()).collect();
    Some(if free.is_empty() {
        finding
    } else {
        finding.mended_by(format!(
            "for i in {}; do echo {} | sudo tee /proc/irq/$i/smp_affinity_list; done",
            numbers.join(" "),
            shown(&free)
        ))
    })
}

/// Seen on a Jetson: camera threads with real-time priority on core 0, where all interrupts of the
/// USB controller were, and its frames came late or not at all.
pub fn starved(machine: &Machine, cores: &Cores) -> Option<Finding> {
    let all = interrupts(machine);
    let online = machine.cores("/sys/devices/system/cpu/online")?;
    let ours = cores.all();
    let behind = |interrupt: &&Interrupt| {
        let feeds = FEEDERS.iter().any(|part| interrupt.name.contains(part));
        let goes = goes_to(machine, interrupt).unwrap_or_default();
        feeds && !goes.is_empty() && goes.iter().all(|core| ours.contains(core))
    };
    let behind: Vec<&Interrupt> = all.iter().filter(behind).collect();
    let first = behind.first()?;
    let goes = goes_to(machine, first).unwrap_or_default();
    let found = format!(
        "{} ({}) is taken on core {} only, which has real-time threads of the plan",
        first.number,
        first.name,
        shown(&goes)
    );
    let free: Vec<u16> = online
        .into_iter()
        .filter(|core| !ours.contains(core))
        .collect();
    let finding = Finding::new(Subject::StarvedInterrupts, Gravity::Notice, found);
    Some(match free.first() {
        Some(free) => finding.mended_by(format!(
            "echo {free} | sudo tee /proc/irq/{}/smp_affinity_list   (or keep core {} out of the manifest)",
            first.number,
            shown(&goes)
        )),
        None => finding.mended_by("leave one core out of the manifest for it"),
    })
}

pub fn balancer(machine: &Machine) -> Option<Finding> {
    let runs = machine.runs("irqbalance");
    Some(if runs {
        Finding::new(Subject::Balancer, Gravity::Costly, "runs").mended_by(remedy::BALANCER)
    } else {
        Finding::good(Subject::Balancer, "does not run")
    })
}
