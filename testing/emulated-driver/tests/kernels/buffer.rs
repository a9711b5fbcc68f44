//! Memory of the emulated device: aligned as the real one's, and never zero by accident.

/// 16 bytes, the unit in which kernels read and write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C, align(16))]
struct Vector([u8; 16]);

/// Some memory. What nobody wrote is 0xFF: not a number, as halves and as floats.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Buffer {
    vectors: Vec<Vector>,
}

impl Buffer {
    pub fn of_bytes(bytes: usize) -> Self {
        Self {
            vectors: vec![Vector([0xFF; 16]); bytes.div_ceil(16)],
        }
    }

    /// The values one behind the other.
    pub fn of<const N: usize>(values: impl IntoIterator<Item = [u8; N]>) -> Self {
        let bytes: Vec<u8> = values.into_iter().flatten().collect();
        let vector = |chunk: &[u8]| {
            let mut vector = [0xFF; 16];
            vector[..chunk.len()].copy_from_slice(chunk);
            Vector(vector)
        };
        Self {
            vectors: bytes.chunks(16).map(vector).collect(),
        }
    }

    pub fn of_f32(values: &[f32]) -> Self {
        Self::of(values.iter().map(|value| value.to_ne_bytes()))
    }

    pub fn of_u32(values: &[u32]) -> Self {
        Self::of(values.iter().map(|value| value.to_ne_bytes()))
    }

    pub fn of_halves(values: &[u16]) -> Self {
        Self::of(values.iter().map(|value| value.to_ne_bytes()))
    }

    /// As kernels know it. Valid while the buffer is; moving the buffer does not move it.
    pub fn address(&mut self) -> u64 {
        self.vectors.as_mut_ptr().expose_provenance() as u64
    }

    /// What lies there now, which kernels may have written.
    pub fn bytes(&self) -> Vec<u8> {
        let vectors = core::hint::black_box(&self.vectors);
        vectors.iter().flat_map(|vector| vector.0).collect()
    }

    pub fn f32s(&self) -> Vec<f32> {
        self.words(f32::from_ne_bytes)
    }

    pub fn u32s(&self) -> Vec<u32> {
        self.words(u32::from_ne_bytes)
    }

    fn words<T>(&self, of: fn([u8; 4]) -> T) -> Vec<T> {
        let bytes = self.bytes();
        bytes.as_chunks::<4>().0.iter().map(|c| of(*c)).collect()
    }

    pub fn halves(&self) -> Vec<u16> {
        let bytes = self.bytes();
        let halves = bytes.as_chunks::<2>().0.iter();
        halves.map(|c| u16::from_ne_bytes(*c)).collect()
    }

    /// As it was before anybody wrote it.
    pub fn forget(&mut self) {
        self.vectors.fill(Vector([0xFF; 16]));
    }

    pub fn is_untouched(&self) -> bool {
        self.bytes().iter().all(|&byte| byte == 0xFF)
    }
}
