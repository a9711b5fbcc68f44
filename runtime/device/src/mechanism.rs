//! By which mechanism stages are stopped. How long a stage keeps its partition was measured with one, so the name of a machine
//! in a profile's key says which: a profile of another is refused, and measured again.

/// Its number, raised with each change of a device after which a stage may be stopped later than before. A test of the house compares the
/// sources of each mechanism with those that its number was given for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mechanism(pub u32);

impl Mechanism {
    /// The machine's name, with this mechanism. The first is not named: profiles of before there were numbers have it.
    #[must_use]
    pub fn of_machine(self, machine: String) -> String {
        match self {
            Self(1) => machine,
            Self(number) => format!("{machine}, preemption {number}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_mechanism_is_another_machine_to_profiles() {
        let named = |number| Mechanism(number).of_machine("processor, avx2".to_owned());
        assert_eq!(named(1), "processor, avx2");
        assert_eq!(named(2), "processor, avx2, preemption 2");
    }
}
