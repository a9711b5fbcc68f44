//! Memory of the emulated device: aligned as the real one's, and never zero by accident.
use punctual_ptx::{Region, Space};

/// As device memory is aligned, at least.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C, align(64))]
struct Line([u8; 64]);

thread_local! {
    /// The buffers of this test: kernels find no other memory.
    static SPACE: Space = Space::new();
}

/// The memory that kernels of this test may access.
pub fn with_space<T>(body: impl FnOnce(&Space) -> T) -> T {
    SPACE.with(body)
}

/// Some memory. What was never written is 0xFF: not a number, as halves and as floats; and kernels must not read it.
#[derive(Debug)]
pub struct Buffer {
    lines: Vec<Line>,
    bytes: usize,
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let base = self.address();
        // A test that ends takes its space with it.
        let _ = SPACE.try_with(|space| space.remove(base));
    }
}

impl Clone for Buffer {
    fn clone(&self) -> Self {
        Self::of_written(self.lines.clone(), self.bytes)
    }
}

impl PartialEq for Buffer {
    fn eq(&self, other: &Self) -> bool {
        self.bytes() == other.bytes()
    }
}

impl Buffer {
    pub fn of_bytes(bytes: usize) -> Self {
        let bytes = bytes.next_multiple_of(16);
        let mut buffer = Self {
            lines: vec![Line([0xFF; 64]); bytes.div_ceil(64)],
            bytes,
        };
        let region = Region::fresh(buffer.address(), bytes as u64);
        with_space(|space| space.add(region));
        buffer
    }

    fn of_written(lines: Vec<Line>, bytes: usize) -> Self {
        let mut buffer = Self { lines, bytes };
        let region = Region::written(buffer.address(), bytes as u64);
        with_space(|space| space.add(region));
        buffer
    }

    /// The values one behind the other.
    pub fn of<const N: usize>(values: impl IntoIterator<Item = [u8; N]>) -> Self {
        let bytes: Vec<u8> = values.into_iter().flatten().collect();
        let line = |chunk: &[u8]| {
            let mut line = [0xFF; 64];
            line[..chunk.len()].copy_from_slice(chunk);
            Line(line)
        };
        let lines = bytes.chunks(64).map(line).collect();
        Self::of_written(lines, bytes.len().next_multiple_of(16))
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
        self.lines.as_mut_ptr().expose_provenance() as u64
    }

    /// What lies there now, which kernels may have written.
    pub fn bytes(&self) -> Vec<u8> {
        let lines = core::hint::black_box(&self.lines);
        let bytes = lines.iter().flat_map(|line| line.0);
        bytes.take(self.bytes).collect()
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
        self.lines.fill(Line([0xFF; 64]));
        let base = self.address();
        let region = Region::fresh(base, self.bytes as u64);
        with_space(|space| {
            space.remove(base);
            space.add(region);
        });
    }

    pub fn is_untouched(&self) -> bool {
        self.bytes().iter().all(|&byte| byte == 0xFF)
    }
}
