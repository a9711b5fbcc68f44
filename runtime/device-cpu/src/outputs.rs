//! From a tensor as kernels lay it out to the bytes that a client reads.

use punctual_kernels::BlockedLayout;
use punctual_model::Element;
use punctual_types::View;

/// Writes the elements of a view of a tensor in order.
pub(crate) struct OutputWriter {
    layout: BlockedLayout,
    view: View,
    element: Element,
}

impl OutputWriter {
    pub(crate) fn new(layout: BlockedLayout, view: View, element: Element) -> Self {
        Self {
            layout,
            view,
            element,
        }
    }

    /// Fills `to`, and counts the values that are not finite.
    pub(crate) fn write(&self, tensor: &[f32], to: &mut [u8]) -> u32 {
        let mut not_finite = 0;
        let each = self.element.bytes() as usize;
        for (bytes, position) in to.chunks_exact_mut(each).zip(self.view.positions()) {
            let [channel, row, column] = position.map(|at| at as usize);
            let value = tensor[self.layout.index(channel, row, column)];
            not_finite += u32::from(!value.is_finite());
            self.element.write(value, bytes);
        }
        not_finite
    }
}
