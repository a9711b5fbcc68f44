//! CPU kernels on plain slices, and the references they are tested against.
