//! Arguments of a launch: its kernel's parameters.

use core::ffi::c_void;

pub use crate::params::Arguments;

impl Arguments {
    /// Where the structure lies, as a launch wants it.
    #[must_use]
    pub fn as_ptr(&self) -> *const c_void {
        core::ptr::from_ref(self.structure()).cast()
    }

    /// Bytes of the structure.
    #[must_use]
    pub fn bytes(&self) -> usize {
        size_of_val(self.structure())
    }

    /// Images that the launch computes; 1 where it has nothing to do with a batch.
    #[must_use]
    pub fn images(&self) -> u32 {
        self.structure().images().unwrap_or(1)
    }

    /// Lets the launch compute `images` images.
    pub fn set_images(&mut self, images: u32) {
        if let Some(own) = self.structure_mut().images_mut() {
            *own = images;
        }
    }

    /// Calls `change` with every address that the launch may use, those of members beyond its images not included.
    pub fn for_each_address(&mut self, change: &mut dyn FnMut(&mut u64)) {
        self.structure_mut().for_each_address(change);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::params::{Elementwise, Gather, Hold, Members, Pool, SOURCES_MAX};

    #[test]
    fn a_launch_is_given_the_structure_and_no_tag() {
        let arguments = Arguments::Hold(Hold {
            stay_ns: 7,
            check_ns: 1,
        });
        let Arguments::Hold(inner) = &arguments else {
            unreachable!()
        };
        assert_eq!(arguments.as_ptr(), core::ptr::from_ref(inner).cast());
        assert_eq!(arguments.bytes(), 8);
    }

    #[test]
    fn every_address_is_changed_but_those_of_members_that_are_not_there() {
        let mut arguments = Arguments::Members(Members {
            batch: 1,
            bytes: 16,
            members: [1; crate::IMAGES_MAX],
            images: 3,
            gap: 0,
        });
        arguments.for_each_address(&mut |address| *address += 1);
        let Arguments::Members(members) = arguments else {
            unreachable!()
        };
        assert_eq!((members.batch, members.bytes), (2, 16));
        assert_eq!(members.members[..4], [2, 2, 2, 1]);
    }

    #[test]
    fn addresses_in_views_operands_and_lists_are_changed() {
        let seen = |mut arguments: Arguments| {
            let mut seen = Vec::new();
            arguments.for_each_address(&mut |address| seen.push(*address));
            seen
        };
        let mut sum = Elementwise::default();
        sum.output.address = 1;
        sum.first.address = 2;
        sum.second.address = 3;
        assert_eq!(seen(Arguments::Elementwise(sum)), [1, 2, 3]);
        let mut gather = Gather::default();
        gather.sources[SOURCES_MAX - 1] = 4;
        assert_eq!(seen(Arguments::Gather(gather))[SOURCES_MAX + 1], 4);
    }

    #[test]
    fn images_are_those_of_the_structure() {
        let mut arguments = Arguments::Pool(Pool::default());
        arguments.set_images(5);
        assert_eq!(arguments.images(), 5);
        let Arguments::Pool(pool) = arguments else {
            unreachable!()
        };
        assert_eq!(pool.images, 5);
    }
}
