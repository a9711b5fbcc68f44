//! Renders the synthetic traffic signs that the demo network is trained on and the demo's cameras show.
