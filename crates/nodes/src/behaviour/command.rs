//! What a container's command says about how long it runs and how it ends.

use api::Istr;

use super::RunFor;
use crate::script::Script;

/// How long the command runs; `None` when it is not one of the few that we understand.
pub(super) fn read(command: &[Istr]) -> Option<RunFor> {
    understand(command).map(|(run, _)| run)
}

/// The exit code of a command that [`read`] understands.
pub(super) fn exit_code(command: &[Istr]) -> i32 {
    understand(command).map_or(0, |(_, code)| code)
}

pub(super) fn understand(command: &[Istr]) -> Option<(RunFor, i32)> {
    let script = Script::parse(command).ok()?;
    Some(match script.outline() {
        Some((time, code)) => (RunFor::Time(time), code),
        None => (RunFor::Forever, 0),
    })
}
