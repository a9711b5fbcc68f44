//! Clocks and idle states.

use crate::host::remedy::{self, IDLE_EXIT_US_MAX};
use crate::host::{Cores, Finding, Gravity, Machine, Subject, shown};

/// How near a trip point costs speed, in thousandths of a degree.
const HEAT_MARGIN: i64 = 5_000;

pub fn idle_states(machine: &Machine, cores: &Cores) -> Option<Finding> {
    let mut deepest: Option<(i64, String, Vec<u16>)> = None;
    for core in cores.all() {
        let folder = format!("/sys/devices/system/cpu/cpu{core}/cpuidle");
        for state in machine.names(&folder) {
            let path = |file: &str| format!("{folder}/{state}/{file}");
            let off = machine.number(&path("disable")) == Some(1);
            let Some(latency) = machine.number(&path("latency")).filter(|_| !off) else {
                continue;
            };
            let name = machine.text(&path("name")).unwrap_or(state);
            match &mut deepest {
                Some((most, _, on)) if *most == latency => on.push(core),
                Some((most, ..)) if *most > latency => {}
                other => *other = Some((latency, name, vec![core])),
            }
        }
    }
    let (latency, name, mut on) = deepest?;
    on.dedup();
    let found = format!(
        "{name} takes {latency} us to leave, on cores {}",
        shown(&on)
    );
    if latency <= IDLE_EXIT_US_MAX {
        return Some(Finding::good(Subject::IdleStates, found));
    }
    let finding = Finding::new(Subject::IdleStates, Gravity::Costly, found);
    Some(finding.mended_by(remedy::idle_states(&on)))
}

pub fn governor(machine: &Machine, cores: &Cores) -> Option<Finding> {
    let mut others: Vec<(u16, String)> = Vec::new();
    let mut any = false;
    for core in cores.all() {
        let path = format!("/sys/devices/system/cpu/cpu{core}/cpufreq/scaling_governor");
        let Some(governor) = machine.text(&path) else {
            continue;
        };
        any = true;
        if governor != "performance" && !is_held(machine, core) {
            others.push((core, governor));
        }
    }
    let Some((_, first)) = others.first().filter(|_| any) else {
        return any
            .then(|| Finding::good(Subject::Governor, "performance, or a clock that is held"));
    };
    let on: Vec<u16> = others.iter().map(|(core, _)| *core).collect();
    let found = format!("{first} on cores {}", shown(&on));
    let remedy = if is_jetson(machine) {
        remedy::JETSON_CLOCKS.to_owned()
    } else {
        remedy::governor(&on)
    };
    Some(Finding::new(Subject::Governor, Gravity::Costly, found).mended_by(remedy))
}

/// Whether a core's least and greatest frequency are one, as `jetson_clocks` makes them.
fn is_held(machine: &Machine, core: u16) -> bool {
    let of = |file: &str| {
        machine.number(&format!(
            "/sys/devices/system/cpu/cpu{core}/cpufreq/scaling_{file}_freq"
        ))
    };
    of("min").is_some_and(|min| of("max") == Some(min))
}

pub fn boost(machine: &Machine) -> Option<Finding> {
    const NO_TURBO: &str = "/sys/devices/system/cpu/intel_pstate/no_turbo";
    const BOOST: &str = "/sys/devices/system/cpu/cpufreq/boost";
    let (on, off) = match machine.number(NO_TURBO) {
        Some(no_turbo) => (no_turbo == 0, format!("echo 1 | sudo tee {NO_TURBO}")),
        None => (
            machine.number(BOOST)? == 1,
            format!("echo 0 | sudo tee {BOOST}"),
        ),
    };
    Some(if on {
        Finding::new(Subject::Boost, Gravity::Notice, "on").mended_by(format!(
            "{off}   (then profile again; or keep it, and give [daemon] budget_factor more room)"
        ))
    } else {
        Finding::good(Subject::Boost, "off")
    })
}

fn is_jetson(machine: &Machine) -> bool {
    let model = machine.text("/proc/device-tree/model");
    model.is_some_and(|model| model.contains("Jetson"))
}

/// The GPU's clock on a Jetson: `jetson_clocks` holds it and the memory's too.
pub fn jetson_clocks(machine: &Machine) -> Option<Finding> {
    if !is_jetson(machine) {
        return None;
    }
    let mode = machine.text("/var/lib/nvpmodel/status");
    let mode = mode.unwrap_or_else(|| "power mode not to be read".to_owned());
    let gpu = machine.names("/sys/class/devfreq").into_iter();
    let gpu = gpu.filter(|name| {
        ["gpu", "ga10b", "gv11b"]
            .iter()
            .any(|part| name.contains(part))
    });
    let free = gpu.filter_map(|name| {
        let of = |file: &str| machine.number(&format!("/sys/class/devfreq/{name}/{file}_freq"));
        let (min, max) = (of("min")?, of("max")?);
        (min < max).then(|| format!("{name} from {} to {} MHz", min / 1_000_000, max / 1_000_000))
    });
    let free: Vec<String> = free.collect();
    if free.is_empty() {
        return Some(Finding::good(Subject::PowerMode, mode));
    }
    let found = format!("{mode}; clocks follow the load: {}", free.join(", "));
    let finding = Finding::new(Subject::PowerMode, Gravity::Costly, found);
    Some(finding.mended_by(
        "sudo nvpmodel -m NUMBER (of the manifest's [daemon] power_mode: grep '^< POWER_MODEL' /etc/nvpmodel.conf), then: sudo jetson_clocks",
    ))
}

pub fn heat(machine: &Machine, cores: &Cores) -> Option<Finding> {
    let throttled = cores.all().into_iter().filter(|core| {
        let folder = format!("/sys/devices/system/cpu/cpu{core}/thermal_throttle");
        machine
            .number(&format!("{folder}/core_throttle_count"))
            .is_some_and(|n| n > 0)
    });
    let throttled: Vec<u16> = throttled.collect();
    let zones = machine.names("/sys/class/thermal").into_iter();
    let zones: Vec<String> = zones
        .filter(|name| name.starts_with("thermal_zone"))
        .collect();
    let hot: Vec<String> = zones
        .iter()
        .filter_map(|zone| near_its_trip(machine, zone))
        .collect();
    let remedy = "more cooling, or a lower power mode, then profile again";
    if !hot.is_empty() {
        let found = hot.join("; ");
        return Some(Finding::new(Subject::Throttled, Gravity::Costly, found).mended_by(remedy));
    }
    if !throttled.is_empty() {
        let found = format!("cores {} were throttled since the start", shown(&throttled));
        return Some(Finding::new(Subject::Throttled, Gravity::Costly, found).mended_by(remedy));
    }
    (!zones.is_empty()).then(|| Finding::good(Subject::Throttled, "no zone near its trip point"))
}

/// A zone within [`HEAT_MARGIN`] of the first of its trip points that slows something down.
fn near_its_trip(machine: &Machine, zone: &str) -> Option<String> {
    let folder = format!("/sys/class/thermal/{zone}");
    let now = machine.number(&format!("{folder}/temp"))?;
    let slows = |point: &u32| {
        let kind = machine.text(&format!("{folder}/trip_point_{point}_type"));
        kind.is_some_and(|kind| kind == "passive" || kind == "active")
    };
    let points = (0..12).filter(slows);
    let trips =
        points.filter_map(|point| machine.number(&format!("{folder}/trip_point_{point}_temp")));
    // A fan's points come early and slow nothing down; the highest is what throttles.
    let trip = trips.filter(|trip| *trip > 0).max()?;
    let name = machine
        .text(&format!("{folder}/type"))
        .unwrap_or_else(|| zone.to_owned());
    let degrees = |thousandths: i64| thousandths as f64 / 1_000.0;
    (now + HEAT_MARGIN >= trip).then(|| {
        format!(
            "{name} is at {:.1} C, slowed down at {:.1} C",
            degrees(now),
            degrees(trip)
        )
    })
}
