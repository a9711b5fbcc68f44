//! What was found, for people.

use punctual_plan::Difference;
use punctual_report::Table;

use super::found::{Clock, Found, Gpu, Ours, Partitions};

pub fn of(found: &Found) -> Table {
    let mut table = Table::list();
    if let Some(model) = &found.model {
        table.row(["board", model]);
    }
    of_ours(&mut table, found.ours.as_ref());
    table.row(["processor", &found.processor]);
    if let Some(cores) = found.cores {
        table.row(["cores", &cores.to_string()]);
    }
    if let Some(bytes) = found.memory_bytes {
        table.row(["memory", &format!("{} GiB", gib(bytes))]);
    }
    table.row(["clocks", &found.processor_clocks]);
    for clock in &found.clocks {
        table.row(["", &shown(clock)]);
    }
    if let Some(mode) = &found.power_mode {
        let modes: Vec<&str> = found
            .power_modes
            .iter()
            .map(|mode| &mode.name[..])
            .collect();
        let modes = modes.join(", ");
        table.row(["power mode", &format!("{mode} (of {modes})")]);
    }
    match &found.gpu {
        Some(gpu) => of_gpu(&mut table, gpu),
        None => table.row(["GPU", "none"]),
    }
    table
}

fn of_ours(table: &mut Table, ours: Option<&Ours>) {
    let Some(ours) = ours else {
        table.row([
            "of ours",
            "none: no board file of Punctual is of this machine",
        ]);
        return;
    };
    let differs = if ours.differences.is_empty() {
        "as its file says"
    } else {
        "but for:"
    };
    table.row(["of ours", &format!("{}, {differs}", ours.board)]);
    for difference in &ours.differences {
        let Difference {
            figure,
            listed,
            found,
        } = difference;
        table.row(["", &format!("{figure}: {listed} in the file, {found} here")]);
    }
}

fn of_gpu(table: &mut Table, gpu: &Gpu) {
    let capability = &gpu.compute_capability;
    table.row(["GPU", &gpu.name]);
    table.row([
        "",
        &format!(
            "{}, compute capability {capability}, {} multiprocessors in {} TPCs",
            gpu.architecture, gpu.multiprocessors, gpu.tpcs
        ),
    ]);
    let whose = if gpu.integrated {
        "the processor's"
    } else {
        "its own"
    };
    let bandwidth = gpu
        .bandwidth_gb_s
        .map_or_else(String::new, |gb_s| format!(", {gb_s} GB/s"));
    let memory = gib(gpu.memory_bytes);
    table.row(["  memory", &format!("{memory} GiB, {whose}{bandwidth}")]);
    let mhz = |khz| khz / 1000;
    table.row([
        "  clocks",
        &format!(
            "to {} MHz, memory to {} MHz",
            mhz(gpu.clock_khz),
            mhz(gpu.memory_clock_khz)
        ),
    ]);
    let build = gpu.driver_build.as_deref().unwrap_or("build unknown");
    table.row(["  driver", &format!("CUDA {} ({build})", gpu.cuda)]);
    for unmet in &gpu.unmet_settings {
        table.row(["", unmet]);
    }
    of_partitions(table, &gpu.partitions);
}

fn of_partitions(table: &mut Table, partitions: &Partitions) {
    let kept = if partitions.enforced {
        ""
    } else {
        "; nothing keeps partitions apart, so there is one"
    };
    table.row([
        "partitions",
        &format!(
            "by {}: {} TPCs in multiples of {}{kept}",
            partitions.mechanism, partitions.tpcs, partitions.granularity
        ),
    ]);
    for refused in &partitions.refused {
        table.row([
            "",
            &format!("not by {}: {}", refused.mechanism, refused.reason),
        ]);
    }
    for search in &partitions.searched {
        let of = format!("  search for {}", search.mechanism);
        table.row([&of, &search.ended]);
    }
    for found in &partitions.found {
        table.row(["  masks", &found.to_string()]);
    }
    let masks = &partitions.stream_masks;
    if let (Some(offset), Some(source)) = (masks.offset, masks.source) {
        let known_by = &masks.known_by;
        table.row([
            "  stream masks",
            &format!("at {offset:#x} in a stream: {known_by} ({source})"),
        ]);
    }
    if partitions.enforced {
        for (place, unit) in partitions.units.iter().enumerate() {
            let sms: Vec<String> = unit.multiprocessors.iter().map(u32::to_string).collect();
            let sms = sms.join(", ");
            let name = format!("  unit {place}");
            table.row([&name, &format!("bit {}: multiprocessors {sms}", unit.bit)]);
        }
    }
}

fn gib(bytes: u64) -> String {
    format!("{:.1}", bytes as f64 / f64::from(1 << 30))
}

fn shown(clock: &Clock) -> String {
    let mhz = |khz: u64| khz / 1000;
    let now = clock
        .now_khz
        .map_or_else(|| "unknown".to_owned(), |khz| format!("{} MHz", mhz(khz)));
    match clock.range_khz {
        Some((least, most)) => format!("{}: {now} ({} to {})", clock.name, mhz(least), mhz(most)),
        None => format!("{}: {now}", clock.name),
    }
}
