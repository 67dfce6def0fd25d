//! Stages: behaviours for many pods at once, from a file. (The reading is in its own module.)

use crate::behaviour::Behaviour;
use crate::pod::Pod;

#[derive(Clone, Debug, Default)]
pub struct Stages;

impl Stages {
    pub fn apply(&self, _pod: &Pod, _behaviour: &mut Behaviour) {}
}
