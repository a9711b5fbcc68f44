use std::fmt;

/// A number of bytes as messages and tables show it: in KiB below one MiB, else in MiB.
pub struct Bytes(pub u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.0 as f64;
        if self.0 < 1 << 20 {
            write!(f, "{:.1} KiB", bytes / f64::from(1 << 10))
        } else {
            write!(f, "{:.1} MiB", bytes / f64::from(1 << 20))
        }
    }
}
