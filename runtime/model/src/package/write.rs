//! Writing a package, section after section.

use std::io::{self, Write};

use super::hash::each_block;
use super::{ContentHash, Package, SectionKind, place, table};
use crate::Profile;

impl Package {
    /// Writes the bytes of the package's file. The hashes of weights and images are those that the
    /// package has, not those of what is written: a damaged package is not made good by copying.
    pub(super) fn write_to(&self, out: &mut impl Write) -> io::Result<()> {
        let mut sections = self.hashed_sections();
        let profiles = self.encoded_profiles();
        if !profiles.is_empty() {
            let (length, hash) = (profiles.len() as u64, ContentHash::of(&profiles));
            sections.push((SectionKind::Profiles, length, hash));
        }
        let sections = place(&sections);
        let head = table::encode(&sections);
        out.write_all(&head)?;
        let mut end = head.len() as u64;
        for section in &sections {
            let gap = section.offset - end;
            io::copy(&mut io::Read::take(io::repeat(0), gap), out)?;
            match section.kind {
                SectionKind::Description => out.write_all(&self.description.encode())?,
                SectionKind::Origin => out.write_all(&self.origin.encode())?,
                SectionKind::Weights => write_floats(&self.network().weights, out)?,
                SectionKind::Image(lanes) => {
                    let image = self.image(lanes).expect("listed from the images");
                    write_floats(&image.floats, out)?;
                }
                SectionKind::Profiles => out.write_all(&profiles)?,
            }
            end = section.end();
        }
        Ok(())
    }

    /// Nothing, if there are none.
    fn encoded_profiles(&self) -> Vec<u8> {
        match self.profiles() {
            [] => Vec::new(),
            profiles => Profile::list_to_json(profiles).into_bytes(),
        }
    }
}

fn write_floats(floats: &[f32], out: &mut impl Write) -> io::Result<()> {
    let mut result = Ok(());
    each_block(floats, |bytes| {
        if result.is_ok() {
            result = out.write_all(bytes);
        }
    });
    result
}
