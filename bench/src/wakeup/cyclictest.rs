//! cyclictest of rt-tests: what others measure a machine with.

use std::process::{Command, Stdio};

use hdrhistogram::Histogram;

use super::ways::{PERIOD_NS, ThreadPlacement, histogram};

/// Its histogram's range, in us; what is longer it only counts, and gives the maximum.
const RANGE_US: u64 = 100_000;

/// Why there are no figures of it.
#[derive(Debug, thiserror::Error)]
pub enum CyclictestError {
    #[error("cyclictest cannot be started: {0}; install rt-tests")]
    Start(std::io::Error),
    #[error("cyclictest ended with {code:?}: {said}")]
    Ended { code: Option<i32>, said: String },
    /// Its output was not as expected.
    #[error("cyclictest printed no histogram: is it of rt-tests 1.0 or later?")]
    Output,
}

/// Whether it can be started.
pub fn is_installed() -> bool {
    let mut command = Command::new("cyclictest");
    command
        .arg("--help")
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.status().is_ok()
}

/// Latencies of `wakes` wake-ups in ns, at the placement' core and priority, without its tuning of the
/// machine: power management stays as it is for everybody.
pub fn measure(placement: ThreadPlacement, wakes: u64) -> Result<Histogram<u64>, CyclictestError> {
    let output = Command::new("cyclictest")
        .args(["--default-system", "--quiet", "--mlockall", "--threads=1"])
        .arg(format!("--affinity={}", placement.core))
        .arg(format!("--priority={}", placement.priority))
        .arg(format!("--interval={}", PERIOD_NS / 1_000))
        .arg(format!("--loops={wakes}"))
        .arg(format!("--histogram={RANGE_US}"))
        .stdin(Stdio::null())
        .output()
        .map_err(CyclictestError::Start)?;
    if !output.status.success() {
        return Err(CyclictestError::Ended {
            code: output.status.code(),
            said: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        });
    }
    read(&String::from_utf8_lossy(&output.stdout)).ok_or(CyclictestError::Output)
}

/// Lines of `000018 000006`: microseconds (rounded down) and how often; then comments, among them the
/// overflows and the maximum.
fn read(text: &str) -> Option<Histogram<u64>> {
    let mut latencies = histogram();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let mut words = line.split_whitespace();
        let (Some(us), Some(count)) = (words.next(), words.next()) else {
            continue;
        };
        let (us, count): (u64, u64) = (us.parse().ok()?, count.parse().ok()?);
        // Recording nothing would still raise the maximum.
        if count > 0 {
            latencies.saturating_record_n(us * 1_000, count);
        }
    }
    let comment = |name: &str| -> Option<u64> {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim_start_matches(':')
            .split_whitespace()
            .next()?
            .parse()
            .ok()
    };
    let beyond = comment("# Histogram Overflows").unwrap_or(0);
    if beyond > 0 {
        let most = comment("# Max Latencies").unwrap_or(RANGE_US);
        latencies.saturating_record_n(most * 1_000, beyond);
    }
    (!latencies.is_empty()).then_some(latencies)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_histogram_is_read_with_what_it_only_counts() {
        let text = "# /dev/cpu_dma_latency set to 0us\n# Histogram\n000018 000006\n000020 000004\n\
                    # Total: 000000011\n# Min Latencies: 00018\n# Avg Latencies: 00019\n\
                    # Max Latencies: 250000\n# Histogram Overflows: 00001\n";
        let latencies = read(text).expect("a histogram");
        assert_eq!(latencies.len(), 11);
        assert_eq!(latencies.min() / 1_000, 18);
        assert!(latencies.max() >= 250_000_000);
    }

    #[test]
    fn what_never_happened_is_not_the_maximum() {
        let text = "000018 000006\n000020 000001\n099999 000000\n# Histogram Overflows: 00000\n";
        let latencies = read(text).expect("a histogram");
        assert_eq!((latencies.len(), latencies.max() / 1_000), (7, 20));
    }

    #[test]
    fn an_output_without_figures_is_none() {
        assert!(read("# Histogram\n# Total: 0\n").is_none());
        assert!(read("WARN: Running on unknown kernel version\n").is_none());
    }
}
