//! Renders the synthetic traffic signs that the demo network is trained on and the demo's cameras show.
//!
//! A [`Scene`] is one picture: a street with clutter, and one sign of a known class somewhere in
//! it. All of it follows from a seed and an index, and a pixel is the same whatever region it is
//! drawn in. A [`Street`] is a whole frame with several signs. Scenes differ in [difficulty](Scene::difficulty): a near sign in good light is plain
//! to a shallow network, a small, blurred or half hidden one needs depth. A [`Camera`] holds scenes
//! that were drawn beforehand, so that showing a frame costs a copy and no more.
//!
//! ```
//! use punctual_types::PixelFormat;
//! let camera = punctual_signs::Camera::signs(PixelFormat::Nv12, 7, 2);
//! let shot = camera.shot(0);
//! let mut frame = vec![0; camera.layout().len()];
//! shot.write(&mut frame);
//! let (x, y) = shot.crop();
//! if let punctual_signs::Truth::Sign(label) = *shot.truth() {
//!     println!("{} within the square at ({x}, {y})", punctual_signs::CLASSES[label]);
//! }
//! ```
//!
//! The classes resemble traffic signs; they are a demonstration and no claim about real ones.
#![forbid(unsafe_code)]

mod camera;
mod classes;
mod colour;
mod glyph;
mod place;
mod random;
mod region;
mod scene;
mod sign;
mod street;
mod stroke;
mod weather;

pub use camera::{Camera, Shot, Truth};
pub use classes::{CATEGORIES, CLASSES};
pub use colour::{from_rgb8, to_nv12};
pub use region::Region;
pub use scene::{CAMERA_EASIEST, Scene};
pub use street::{Object, Street};

pub const FRAME_WIDTH: u32 = 640;
pub const FRAME_HEIGHT: u32 = 480;
/// Rows and columns of the crop that holds the sign.
pub const CROP_SIDE: u32 = 192;
