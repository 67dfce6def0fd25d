//! A small world for tests: the embedded API server, a client that writes down what it sends, and
//! informers, all in one thread on a virtual clock.

mod lagging;
mod pods;
mod recording;
mod widgets;
mod world;

pub use lagging::{Lagging, enqueued};
pub use recording::Write;
pub use widgets::WIDGET;
pub use world::World;
