//! What a page of weights contains: packed when it is first needed, so that a device may serve before the weights of its
//! last model were read.

use std::fmt;
use std::sync::{Mutex, OnceLock};

use crate::lower::PackError;

/// The bytes of a page, packed once.
pub struct Content {
    bytes: OnceLock<Box<[u8]>>,
    /// What packs them; nothing afterwards, so that what it holds is freed.
    pack: Mutex<Option<Pack>>,
}

type Pack = Box<dyn Fn() -> Result<Box<[u8]>, PackError> + Send>;

impl Content {
    /// Bytes that `pack` gives, the same each time.
    pub fn packed_by(pack: impl Fn() -> Result<Box<[u8]>, PackError> + Send + 'static) -> Self {
        Self {
            bytes: OnceLock::new(),
            pack: Mutex::new(Some(Box::new(pack))),
        }
    }

    /// The bytes. Who needs them first packs them; others wait for that.
    pub fn bytes(&self) -> Result<&[u8], PackError> {
        let mut pack = self
            .pack
            .lock()
            .unwrap_or_else(|poison| poison.into_inner());
        if let Some(packs) = &*pack {
            let _ = self.bytes.set(packs()?);
            *pack = None;
        }
        drop(pack);
        Ok(self.bytes.get().map_or(&[], |bytes| bytes))
    }
}

impl From<Box<[u8]>> for Content {
    fn from(bytes: Box<[u8]>) -> Self {
        Self {
            bytes: OnceLock::from(bytes),
            pack: Mutex::new(None),
        }
    }
}

impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let packed = self.bytes.get().map(|bytes| bytes.len());
        f.debug_struct("Content").field("packed", &packed).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[test]
    fn a_page_is_packed_once_when_it_is_first_needed_and_what_packed_it_is_freed() {
        let packed = Arc::new(AtomicU32::new(0));
        let count = packed.clone();
        let content = Content::packed_by(move || {
            count.fetch_add(1, Ordering::Relaxed);
            Ok(vec![1, 2, 3].into())
        });
        assert_eq!(packed.load(Ordering::Relaxed), 0);
        assert_eq!(content.bytes(), Ok(&[1, 2, 3][..]));
        assert_eq!(content.bytes(), Ok(&[1, 2, 3][..]));
        assert_eq!(packed.load(Ordering::Relaxed), 1);
        assert_eq!(Arc::strong_count(&packed), 1);
    }

    #[test]
    fn a_page_that_cannot_be_packed_says_so_each_time() {
        let wrong = PackError {
            model: "net".into(),
            operator: "conv".into(),
            value: 1e9,
        };
        let error = wrong.clone();
        let content = Content::packed_by(move || Err(error.clone()));
        assert_eq!(content.bytes(), Err(wrong.clone()));
        assert_eq!(content.bytes(), Err(wrong));
    }
}
