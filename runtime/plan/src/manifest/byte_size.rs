use punctual_diagnostics::{DeValue, FromToml, Invalid};

/// A number of bytes as a manifest writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ByteSize(pub(crate) u64);

impl FromToml for ByteSize {
    const EXPECTED: &'static str = "a whole number and KiB, MiB or GiB, as in \"256 MiB\"";

    fn from_toml(value: &DeValue<'_>) -> Result<Self, Invalid> {
        let DeValue::String(text) = value else {
            return Err(Invalid::wrong_type(Self::EXPECTED, value));
        };
        size(text).map(Self).ok_or(Invalid::WrongType {
            expected: Self::EXPECTED,
            found: "another text",
        })
    }
}

fn size(text: &str) -> Option<u64> {
    let (number, unit) = text.split_once(' ')?;
    let unit: u64 = match unit {
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return None,
    };
    let digits = number.bytes().all(|byte| byte.is_ascii_digit());
    let number: u64 = number.parse().ok().filter(|_| digits)?;
    number.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_a_whole_number_and_a_binary_unit() {
        assert_eq!(size("256 MiB"), Some(256 << 20));
        assert_eq!(size("1 KiB"), Some(1024));
        assert_eq!(size("3 GiB"), Some(3 << 30));
        for text in [
            "",
            "256",
            "MiB",
            " MiB",
            "256MiB",
            "256 MB",
            "256  MiB",
            "+1 MiB",
            "-1 MiB",
            "1.5 MiB",
            "99999999999999 GiB",
            "256 mib",
            "256 MiB ",
        ] {
            assert_eq!(size(text), None, "{text:?}");
        }
    }
}
